"""docs/results/baselines.md: every row of the papers' tables from the same base model.

    python benchmarks/baselines.py CORPUS STS_FOLDER [--jobs 2] [--seeds 3] [--only TABLE ...]
    python benchmarks/baselines.py --judge STS_FOLDER
    python benchmarks/baselines.py CORPUS STS_FOLDER --cost

Goes on where it was stopped, and with the cells in docs/results/baselines-TABLE-cells.npz.xz.
Rows of more than five passes have half the sentences and one seed, and so has a `simcse` row.
`declutr` needs documents: paragraphs of the docstrings of the installed packages, of 70 words
or more, beside `simcse` on the same. With --judge the finished runs are judged again. With --cost
updates of every row are timed in turn with those of `simcse`; nothing else should run then.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import archived
from cell_archive import BASELINES, read
from common import LENGTH, draw
from contest import contest, machine
from isospace.adaptation.whiten import whiten_model
from isospace.comparison.results import ComparisonResults
from isospace.config import CorpusConfig, TrainConfig, WhitenConfig
from isospace.corpus.docstrings import DOCSTRINGS, prose_sentences, read_docstrings
from isospace.encoders.settings import PoolingName
from isospace.objectives import OBJECTIVES
from isospace.operators.fitted_whitening import Whitening
from isospace.system.files import write_text
from isospace.system.progress import Silent
from isospace.training.prepare import make_accelerator, prepare
from training import updates

PAGE = Path(__file__).parent.parent / "docs" / "results" / "baselines.md"
CORPUS = "english_mixed.txt.gz"
"""The text of the runs in the archive."""
SEEDS = 3
PROJECTOR = (1024, 1024, 1024)  # the papers' 4096 and 8192 units would cost more than this encoder

FROM_CLS: dict[str, dict[str, Any]] = {
    "scd": {"projector": PROJECTOR},
    "barlow-twins": {"projector": PROJECTOR},
    "vicreg": {"projector": PROJECTOR},
    "iso": {"head": "mlp", "temperature": 0.05},
    "diffcse": {"generator": "words"},  # this encoder comes without a head for masked words
    "declutr": {"min_span": 8, "max_span": 16},
}
"""Options that are not the defaults, from [CLS]."""
_PLAIN = {"head": "none", "temperature": 0.15}
FROM_MEAN: dict[str, dict[str, Any]] = {
    "simcse": _PLAIN,
    "diffcse": {"temperature": 0.15, "generator": "words"},
    "is-bert": {},
    "whitenedcse": _PLAIN,
    "mixcse": _PLAIN,
    "esimcse": _PLAIN,
    "iso": {},
}
"""The same from mean pooling, of the five rows that were best from [CLS] by their first seed."""
POST_HOC: dict[str, tuple[Whitening, float | Literal["auto"]]] = {
    "whitening": (Whitening(), 1.0),
    "soft-whitening": (Whitening(), "auto"),
    "bert-flow": (Whitening(kind="flow"), 1.0),
}
"""Linear maps of the base model; validation pairs select the power of the second."""
SHOWN, COSTS = ("STS12",), "cost"
"""Sets that the page shows, of all pairs (the archive has every set); and what an update costs."""
COSTLY = ("pcl",)
OUTSIDE = ("rank-study", "noise-study", "sbert-softmax", "rankcse")
"""Rows that are a study and no system of a table, or need labels or a teacher."""
PARAGRAPHS, PARAGRAPH_WORDS = "paragraphs.txt", 70
COST = PAGE.with_name("baselines-cost.json")
UPDATES, ROUNDS = 2, 3
AT_ONCE = 6
"""Rows that are timed in turn with one `simcse`: each is a process, and all hold their memory."""


@dataclass(frozen=True)
class Table:
    """Rows that share text, budget and seeds.

    Attributes:
        rows: names of objectives.
        options: of the objective, by row, where they are not the defaults.
        sentences: the budget of a run.
        seeds: of each row; `None`: those that were asked for.
        learning_rate: of each row.
        pooling: of the base model; `None` for its own.
        paragraphs: trained on paragraphs of docstrings in place of the corpus.
    """

    rows: tuple[str, ...]
    options: Mapping[str, Mapping[str, Any]]
    sentences: int = 16_000
    seeds: int | None = None
    learning_rate: float = 3e-5
    pooling: PoolingName | None = "cls"
    paragraphs: bool = False

    def candidates(self, corpus: Path, sts: Path) -> dict[str, TrainConfig]:
        """The settings of each row."""
        base = TrainConfig(
            text=CorpusConfig(corpus=(str(corpus),), held_out=1_000),
            pooling=self.pooling,
            learning_rate=self.learning_rate,
            max_length=LENGTH,
            budget=(self.sentences, "sentences"),
            evaluations=4,
            select="labels",
            data=str(sts),
            seed=0,
        )
        return {
            name: replace(base, objective=OBJECTIVES[name](**self.options.get(name, {})))
            for name in self.rows
        }


TABLES = {
    "cls": Table(
        tuple(name for name in OBJECTIVES if name not in (*COSTLY, *OUTSIDE, "declutr")), FROM_CLS
    ),
    "costly": Table(("simcse", *COSTLY), FROM_CLS, sentences=8_000, seeds=1),
    "paragraphs": Table(("simcse", "declutr"), FROM_CLS, sentences=8_000, seeds=1, paragraphs=True),
    "mean": Table(tuple(FROM_MEAN), FROM_MEAN, learning_rate=1e-5, pooling=None),
}
CELLS = {name: PAGE.with_name(f"baselines-{name}-cells.npz.xz") for name in TABLES}


def main() -> None:
    """Run what is missing; then draw the page."""
    parser = archived.parser(__doc__, "baselines", SEEDS)
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--rows", nargs="+", help="of the tables; the others wait")
    parser.add_argument("--cost", action="store_true")
    options = archived.parse(parser)
    if options.cost:
        known = json.loads(COST.read_text(encoding="utf-8")) if COST.exists() else {}
        write_text(COST, json.dumps(known | cost(options), indent=1) + "\n")
    for name in () if options.cost else options.only:
        table, runs, cells = TABLES[name], options.output / name, CELLS[name]
        corpus = options.output / PARAGRAPHS if table.paragraphs else options.corpus
        corpus = corpus or Path(CORPUS)
        sts = options.judge or options.sts
        candidates = table.candidates(corpus, sts)
        if not options.judge:
            if table.paragraphs:
                write_paragraphs(corpus)
            wanted = [row for row in options.rows or candidates if row in candidates]
            models = post_hoc(table, cells, corpus, options.output) if name == "cls" else {}
            if wanted:
                archived.run(
                    {row: candidates[row] for row in wanted},
                    table.seeds or options.seeds,
                    runs,
                    cells,
                    options.jobs,
                    models,
                )
        # Of the archive, where rows are too that were not asked for.
        rows = (*candidates, *POST_HOC) if name == "cls" else tuple(candidates)
        _draw(name, archived.judged_again(rows, cells, corpus, sts))


def post_hoc(table: Table, archive: Path, corpus: Path, folder: Path) -> dict[str, Path]:
    """The base model behind maps that are fitted to as many sentences as the rows are trained on.

    Those of which the archive knows what they came to are left out.
    """
    known, _ = read(archive)
    models = {}
    for name, (whitening, power) in POST_HOC.items():
        if f"{BASELINES}{name}" in known:
            continue
        models[name] = folder / "models" / name
        if not models[name].exists():
            config = WhitenConfig(
                text=CorpusConfig(corpus=(str(corpus),), held_out=1_000),
                power=power,
                whitening=whitening,
                sentences=table.sentences,
                pooling=table.pooling,
                output=models[name],
            )
            whiten_model(config)
    return models


def cost(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Row -> times the seconds of an update of `simcse` (lowest and highest), memory, machine."""
    found: dict[str, dict[str, Any]] = {}
    for table in (TABLES[name] for name in options.only if name != "mean"):
        corpus = options.output / PARAGRAPHS if table.paragraphs else options.corpus
        if table.paragraphs:
            write_paragraphs(corpus)
        candidates = table.candidates(corpus, options.sts)
        others = table.rows[1:]
        for first in range(0, len(others), AT_ONCE):
            rows = ("simcse", *others[first : first + AT_ONCE])
            results = contest({row: (_updates, (candidates[row],)) for row in rows}, ROUNDS)
            if not table.paragraphs:  # whose texts are longer
                found.setdefault("simcse", {"peak MB": results["simcse"].peak_mb})
            for name in rows[1:]:
                middle, low, high = results["simcse"].ratio_to(results[name])
                found[name] = {"times simcse": middle, "from": low, "to": high}
                found[name] |= {"peak MB": results[name].peak_mb, "machine": machine()}
    return found


def _updates(config: TrainConfig) -> Any:
    loop = prepare(config, make_accelerator(config), Silent())[1]
    loop.total_steps = 10**6
    return updates(loop, UPDATES)


def write_paragraphs(path: Path) -> None:
    """Sentences of the installed docstrings that follow each other, joined to paragraphs."""
    sentences = [text for one in read_docstrings(DOCSTRINGS) for text in prose_sentences(one)]
    paragraphs: list[list[str]] = [[]]
    for sentence in sentences:
        if len(" ".join(paragraphs[-1]).split()) >= PARAGRAPH_WORDS:
            paragraphs.append([])
        paragraphs[-1].append(sentence)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(" ".join(paragraph) + "\n" for paragraph in paragraphs))


def _draw(name: str, results: ComparisonResults) -> None:
    """Draw the rows, the largest gain first, with what their updates cost."""
    further = {} if TABLES[name].seeds else {c: archived.means(results, c) for c in SHOWN}
    if name != "mean" and COST.is_file():
        further |= {COSTS: _costs(json.loads(COST.read_text("utf-8")))}
    draw(PAGE, {f"gains {name}": archived.gains_table(results, further)})


def _costs(found: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return row -> how many times as long as an update of `simcse` one of the row takes."""
    return {name: f"{row.get('times simcse', 1.0):.2f}" for name, row in found.items()}


if __name__ == "__main__":
    main()
