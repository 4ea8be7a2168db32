"""Content of distill.json, and the model card of a static twin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from isospace.evaluation.other_text import OtherTextScores, other_text_rows, other_text_words
from isospace.evaluation.scores import BenchmarkScores, table_rows
from isospace.statistics.gains import Gain
from isospace.statistics.verdict import counted
from isospace.system import typed_json
from isospace.system.tables import markdown_table
from isospace.training.card import CLASSIC, Usage, heading
from isospace.training.results import Origin

FILE = "distill.json"
ENCODER, TWIN, QUERIES = "encoder", "static twin", "static queries"
"""Names of the models in tables."""

_FULL = """The twin is for queries and documents of this corpus. Encode both with it. Vectors are
not of length 1: compare them by cosine.

```python
from model2vec import StaticModel  # without torch

model = StaticModel.from_pretrained("path/to/this/folder")
vectors = model.encode(["one sentence", "another sentence"])
```

sentence-transformers loads the same folder:

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/to/this/folder")
```"""
_QUERIES = """Queries pass static word vectors; documents pass the encoder. An index of the
encoder's vectors stays as it is. Compare vectors by cosine.

Where queries come in, load the static part alone, without torch:

```python
from model2vec import StaticModel

queries = StaticModel.from_pretrained("path/to/this/folder/query_0_StaticEmbedding")
vectors = queries.encode(["what is looked for"])
```

Where documents are encoded, load both parts:

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/to/this/folder")
queries = model.encode_query(["what is looked for"])
documents = model.encode_document(["one text", "another text"])
```"""


@dataclass(frozen=True)
class TwinResults:
    """Results of a distillation, stored as distill.json in the twin's folder.

    Attributes:
        queries_only: true if documents keep the encoder.
        pieces: size of the vocabulary.
        evaluations: updates and validation MRR of each evaluated table.
        protocol: description of the MRR.
        loss: change in MRR from the encoder to the twin.
        hybrid_loss: change in MRR from encoder + BM25 to twin + BM25.
        base: MRR of the run's base model; `None` without a run, or if the encoder is the base
            model.
        over_base: gain in MRR of the twin over the base model; `None` if `base` is.
        other_text: set of other text -> scores of the encoder (`base`) and the twin (`adapted`).
    """

    isospace: str
    model: str
    queries_only: bool
    corpus: str
    pieces: int
    dim: int
    pairs: int
    updates: int
    evaluations: tuple[tuple[int, float], ...]
    encoder: BenchmarkScores
    twin: BenchmarkScores
    protocol: str
    loss: Gain
    hybrid_loss: Gain | None
    base: float | None
    over_base: Gain | None
    other_text: dict[str, OtherTextScores]
    unit: str
    seconds: float
    format: int = 3

    @property
    def name(self) -> str:
        """Name of the twin in tables."""
        return QUERIES if self.queries_only else TWIN

    @property
    def share(self) -> float:
        """Share of the encoder's nDCG@10 that the twin reaches."""
        before, after = (one.pairs.values["nDCG@10"] for one in (self.encoder, self.twin))
        return after / before if before else 0.0

    @property
    def verdict(self) -> str:
        """Sentences on the twin's loss against the encoder and its gain over the base model."""
        said = (
            f"{self.name.capitalize()}: {100 * self.share:.1f} % of the encoder's nDCG@10; "
            f"{self.loss} against the encoder in {self.protocol}; {counted(self.loss, self.unit)}."
        )
        if self.over_base is not None:
            said += f" Against the base model: {self.over_base}."
        return said

    @property
    def other_words(self) -> str:
        """Description of the twin's loss on other text; empty without other text."""
        words = other_text_words({name: one.gain for name, one in self.other_text.items()})
        return f"{words} against the encoder: the twin is for this corpus alone" if words else ""

    @property
    def use(self) -> str:
        """MRR of each search method, the best method with the twin first."""
        twin, encoder = self.twin, self.encoder
        ways = {
            f"{self.name} alone": twin.pairs.mrr,
            f"{self.name} + BM25": twin.with_bm25.hybrid.mrr,
        }
        best = max(ways, key=ways.__getitem__)
        others = {way: mrr for way, mrr in ways.items() if way != best} | {
            "encoder alone": encoder.pairs.mrr,
            "encoder + BM25": encoder.with_bm25.hybrid.mrr,
            "BM25 alone": encoder.with_bm25.bm25.mrr,
        }
        rest = "; ".join(f"{way}: {100 * mrr:.1f}" for way, mrr in others.items())
        return f"{best}: {100 * ways[best]:.1f}; {rest} (MRR x 100 on the test pairs)."

    def how_to_load(self, folder: Path | None) -> str:
        """Return code that loads the part of a folder that needs no torch."""
        part = "/query_0_StaticEmbedding" if self.queries_only else ""
        return f'model2vec.StaticModel.from_pretrained("{folder}{part}")'

    def tables(self) -> list[tuple[str, list[dict[str, str]]]]:
        """Return the titles and rows of the result tables."""
        rows = table_rows("model", {ENCODER: self.encoder, self.name: self.twin})
        tables = [(f"on the test pairs, scores x 100 ({self.protocol})", rows)]
        if self.other_text:
            rows = other_text_rows(self.other_text, ENCODER, self.name)
            tables.append(("on other text, MRR x 100", rows))
        return tables


def write_results(folder: Path, results: TwinResults) -> None:
    """Write distill.json into the folder of a twin."""
    typed_json.write(folder / FILE, results)


def read_results(folder: Path) -> TwinResults:
    """Read distill.json from the folder of a twin."""
    return typed_json.read(folder / FILE, TwinResults, "results of distill")


def twin_card(results: TwinResults) -> str:
    """Return the README.md of the folder; it quotes no text of the corpus."""
    origin = Origin.from_model(results.model)
    usage = Usage(CLASSIC.library, _QUERIES if results.queries_only else _FULL)
    tables = "\n\n".join(f"{title}:\n\n{markdown_table(rows)}" for title, rows in results.tables())
    other = f"On other text: {results.other_words}.\n\n" if results.other_words else ""
    return f"""{heading(origin, results.name, usage)}

{results.verdict}

{other}## How to use

{usage.text}

{tables}

- Made of the encoder `{origin.name}` by `isospace distill`
- {results.pieces:,} vectors of word pieces, {results.dim} dimensions; a text's vector is their mean
- Trained on {results.pairs:,} pairs of texts of the corpus (none is quoted here), digest
  `{results.corpus}`; {results.updates:,} updates
- Licence of the encoder: {origin.licence_text}
- Made with isospace {results.isospace}
"""
