"""Content of whitening.json, and the model card of a whitened model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from isospace.evaluation.other_text import OtherTextScores, other_text_words
from isospace.evaluation.scores import (
    ADAPTED,
    BASE,
    HYBRID_ADAPTED,
    HYBRID_BASE,
    BenchmarkScores,
    recommendation,
    table_rows,
)
from isospace.objectives.base import Paper
from isospace.operators.fitted_whitening import Whitening
from isospace.statistics.verdict import Verdict, VerdictKind
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
class WhiteningResults:
    """Results of a whitening, stored as whitening.json in the model's folder.

    Attributes:
        sentences: number of sentences or pairs that the map was fitted on.
        candidates: `name_of(power)` -> MRR on the validation pairs; empty if the user gave a power.
        selected_on: description of the validation pairs.
        after: scores of the model whitened by `power`.
        other_text: set of other text -> scores before and after; empty if no power was selected.
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
    before: BenchmarkScores
    after: BenchmarkScores
    verdict: Verdict
    other_text: dict[str, OtherTextScores]
    whitened: bool
    gap: float
    format: int = 9

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
        other = f"On other text: {self.other_words}." if self.other_words else ""
        return " ".join(filter(None, [self.verdict.text, other, self.written]))

    @property
    def other_words(self) -> str:
        """Change of the scores on other text."""
        return other_text_words({name: one.gain for name, one in self.other_text.items()})

    @property
    def recommendation(self) -> str:
        """Recommendation of the search method with the highest MRR on the test pairs."""
        with_bm25 = self.before.with_bm25
        mrr = {BASE: self.before.pairs.mrr, "BM25": with_bm25.bm25.mrr}
        mrr[HYBRID_BASE] = with_bm25.hybrid.mrr
        if self.whitened and self.power is not None:
            seen = self.after.pairs.mrr
            gain = self.verdict.gain
            mrr[ADAPTED] = seen if gain is None else mrr[BASE] + gain.mean
            # Minus the bias of selecting on these pairs.
            mrr[HYBRID_ADAPTED] = self.after.with_bm25.hybrid.mrr + mrr[ADAPTED] - seen
        return recommendation(mrr, "whitened model")

    def tables(self) -> list[tuple[str, list[dict[str, str]]]]:
        """Return the titles and rows of the result tables."""
        states = {name_of(None): self.before}
        if self.power is not None:
            states[name_of(self.power)] = self.after
        rows = table_rows("model", states)
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
