"""Content of whitening.json, and the model card of a whitened model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from isospace.evaluation.before_after import BeforeAndAfter
from isospace.evaluation.scores import BASE
from isospace.objectives.base import Paper
from isospace.operators.fitted_whitening import Whitening
from isospace.statistics.verdict import VerdictKind
from isospace.system import typed_json
from isospace.system.tables import markdown_table
from isospace.training.card import CLASSIC, Usage, heading
from isospace.training.results import Origin
from isospace.whiten.whiten_config import By, Power

FILE = "whitening.json"

_PAPERS = {
    "texts": Paper("su-etal-2021-whitening"),
    "pairs": Paper("radenovic-etal-2019-fine"),
    "flow": Paper("li-etal-2020-sentence"),
}
"""Kind of map -> its publication."""


def name_of(power: Power) -> str:
    """Return the description of a power."""
    if power is None:
        return BASE
    return power if isinstance(power, str) else f"power {power:g}"


@dataclass(frozen=True)
class WhiteningResults(BeforeAndAfter):
    """Results of a whitening, stored as whitening.json in the model's folder.

    Attributes:
        sentences: number of sentences or pairs that the map was fitted on.
        candidates: `name_of(power)` -> MRR on the validation pairs; empty if the user gave a power.
        selected_on: description of the validation pairs.
        whitened: true if the folder holds the whitened model, false for the unchanged model.
        gap: largest 1 - cosine between the folder's vectors and the measured vectors.
    """

    isospace: str
    model: str
    pooling: str
    by: By
    whitening: Whitening
    sentences: int
    corpus: str
    candidates: dict[str, float]
    selected_on: str
    power: Power
    whitened: bool
    gap: float
    format: int = 10

    adapted_model: ClassVar[str] = "whitened model"

    @property
    def ships_base(self) -> bool:
        """True if the folder holds the unchanged model."""
        return not self.whitened

    @property
    def written(self) -> str:
        """Sentence on the model in the folder."""
        if not self.whitened:
            return "The folder holds the base model."
        adapted = self.verdict.kind is VerdictKind.ADAPTED
        asked = "" if adapted else ", because the settings ask for it"
        return f"The folder holds the whitened model ({name_of(self.power)}){asked}."

    @property
    def text(self) -> str:
        """Sentences on the verdict, the other text, and the model in the folder."""
        return f"{self.summary} {self.written}"

    def tables(self) -> list[tuple[str, list[dict[str, str]]]]:
        """Return the titles and rows of the result tables."""
        rows = self.before_and_after("" if self.power is None else name_of(self.power), "model")
        tables = [(f"before and after, scores x 100 ({self.verdict.protocol})", rows)]
        if self.candidates:
            row = {name: f"{100 * mrr:.2f}" for name, mrr in self.candidates.items()}
            tables.insert(
                0, (f"selection of the power: validation MRR x 100, {self.selected_on}", [row])
            )
        return tables


def write_results(folder: Path, results: WhiteningResults) -> None:
    """Write whitening.json into the model's folder."""
    typed_json.write(folder / FILE, results)


def model_card(results: WhiteningResults, usage: Usage = CLASSIC) -> str:
    """Return the README.md of the folder; it quotes no text of the corpus."""
    tables = "\n\n".join(f"{title}:\n\n{markdown_table(rows)}" for title, rows in results.tables())
    title = f"whitened ({name_of(results.power)})" if results.whitened else "unchanged"
    origin = Origin.from_model(results.model)
    fitted = "pairs of texts" if results.by == "pairs" else "sentences"
    return f"""{heading(origin, title, usage)}

{results.text}

{usage.text}

{tables}

- Base model: `{origin.name}`; pooling: {results.pooling}
- Fitted on {results.sentences:,} {fitted} (none is quoted here), digest `{results.corpus}`:
  `{results.whitening}`
- Licence of the base model: {origin.licence_text}

```bibtex
{_PAPERS["flow" if results.whitening.kind == "flow" else results.by].bibtex}
```
"""
