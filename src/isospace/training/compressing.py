"""Losses of compressed vectors: every form in `FORMS` against float32, on the same queries.

Validation pairs select the smallest form with a small loss, and test pairs measure its loss. The
selection adds the standard error to the loss, so that it does not prefer forms that were lucky.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from isospace.config import CorpusConfig, EvaluateConfig, TrainConfig
from isospace.encoders.loading import as_encoder
from isospace.errors import UserError, number_of
from isospace.evaluation.benchmark import hard_pairs, points_of
from isospace.evaluation.judged import JudgedQueries
from isospace.evaluation.own_data import load_own_files
from isospace.evaluation.pairs import PromptedEncoders, TextPairs, cached, unit_vectors
from isospace.evaluation.retrieval import Targets, mrr_scores
from isospace.evaluation.task import TitledRows
from isospace.operators.compression import score_blocks
from isospace.operators.forms import FORMS, FULL, RESCORED, FormName, bytes_of
from isospace.statistics.gains import Gain, Scores, gain, mean_scores, standard_error
from isospace.system.files import cache_folder
from isospace.system.progress import Logged, Progress
from isospace.training.prepare import data_of, load_data
from isospace.training.run import run_of

MOST_LOST = 0.005
"""Largest loss of the advised form, including its standard error: half a point of 100."""

_Blocks = Iterator[tuple[int, np.ndarray]]  # scores of passages for blocks of queries


@dataclass(frozen=True)
class FormScores:
    """Scores of one form on the test queries, 0 to 1, and their changes against float32.

    `lost` is the loss of the first measure on the selecting queries, plus its standard error.
    """

    bytes: int
    values: dict[str, float]
    changes: dict[str, Gain]
    lost: float


@dataclass(frozen=True)
class CompressionResults:
    """Scores of all forms of one model on one set of queries, float32 first.

    `unit` names the groups of queries; `smallest` is the smallest form that loses little.
    """

    isospace: str
    model: str
    tested_on: str
    selected_on: str
    unit: str
    forms: dict[FormName, FormScores]
    smallest: FormName

    @property
    def measure(self) -> str:
        """Name of the measure that selects the form."""
        return next(iter(self.forms[FULL].values))

    @property
    def advice(self) -> str:
        """Advice: the smallest form with a small loss, and its loss on the test queries."""
        form, full = self.forms[self.smallest], self.forms[FULL]
        return (
            f"Smallest form: {self.smallest}, {form.bytes:,} bytes a passage in place of "
            f"{full.bytes:,}. On {self.selected_on} it loses at most {100 * MOST_LOST:g} points of "
            f"{self.measure}, with one standard error. On {self.tested_on} the change is "
            f"{form.changes.get(self.measure, 0)}."
        )

    def table(self) -> TitledRows:
        """Return a row for each form, x 100."""
        title = f"small vectors of {self.model}, x 100 ({self.tested_on})"
        note = (
            f"{self.advice}\nChanges against {FULL} with 95 % intervals over the {self.unit}, each "
            "by itself. binary compares the bits of a passage with the numbers of a query; "
            f"binary-rescored finds {RESCORED} passages by bits, and ranks them by int8."
        )
        rows = []
        for name, form in self.forms.items():
            row = {"form": name, "bytes": f"{form.bytes:,}"}
            for measure, value in form.values.items():
                row[measure] = f"{100 * value:.2f}"
                row[f"{measure} change"] = points_of(form.changes, measure)
            rows.append(row)
        return TitledRows(title, rows, note)


def measure_compression(
    model: str,
    config: EvaluateConfig = EvaluateConfig(),  # noqa: B008 - frozen
    corpus: Sequence[str] = (),
    progress: Progress | None = None,
) -> list[CompressionResults]:
    """Measure what every form of small vectors loses, on each file of `config.own`.

    Without files, the queries are the test pairs of `corpus`, or of the run that `model` names.
    """
    progress = progress or Logged()
    if config.own:
        return _on_own_files(model, config, progress)
    run = None if corpus else run_of(model)
    if run is None and not corpus:
        raise UserError(
            f"`compress`: {model} is no run of adapt or train, so there are no pairs to measure "
            "on. Name the folder of a run, or give documents (`corpus`) or a file of pairs (`own`)"
        )
    progress.line("reading", " ".join(corpus if run is None else run.config.text.corpus))
    if run is None:
        text, described = CorpusConfig(corpus=tuple(corpus)), "test pairs"
        data = load_data(TrainConfig(text=text, model=model))
    else:
        data, same = data_of(run)
        others = f"held-out pairs of the run's text{run.finished.trained_on}"
        described = "test pairs of the run" if same else others
    pairs = data.benchmark.pairs
    results = measure_forms(
        _encode(model, config, progress),
        model,
        pairs,
        f"{len(pairs):,} {described}",
        hard_pairs(data.corpus, data.held_out) if data.benchmark.split else None,
    )
    return [results]


def _on_own_files(
    model: str, config: EvaluateConfig, progress: Progress
) -> list[CompressionResults]:
    """Measure on pairs or judged queries of the user, which also select the smallest form."""
    files = load_own_files(config)
    contents = []
    for data in files:
        if not isinstance(data.content, JudgedQueries) and type(data.content) is not TextPairs:
            raise UserError(
                f"{data.file}: `compress` measures searches. Give pairs of texts that belong "
                "together, or a folder in the layout of BEIR"
            )
        contents.append(data.content)
    encode = _encode(model, config, progress)
    results = []
    for data, content in zip(files, contents, strict=True):
        what = "queries" if isinstance(content, JudgedQueries) else "pairs"
        described = f"{len(content):,} {what} of {data.file}"
        results.append(measure_forms(encode, model, content, described))
    return results


def _encode(model: str, config: EvaluateConfig, progress: Progress) -> PromptedEncoders:
    encoder = as_encoder(model, config)
    if encoder.prompts.summary:
        progress.line("prompts", encoder.prompts.summary)
    return cached(encoder, cache_folder(), config.precision, progress=progress)


def measure_forms(
    encode: PromptedEncoders,
    model: str,
    test: TextPairs | JudgedQueries,
    described: str,
    validation: TextPairs | None = None,
) -> CompressionResults:
    """Measure every form on the `described` test queries, and select the smallest good one.

    Pass encoders that cache vectors. Without validation pairs the test queries select.
    """
    width, tested = _score_forms(encode, test)
    selecting = tested if validation is None else _score_forms(encode, validation)[1]
    measure = next(iter(tested[FULL]))
    forms = {}
    for name, found in tested.items():
        values = {of: scores.mean for of, scores in found.items()}
        changes, lost = {}, 0.0
        if name != FULL:
            after, base = selecting[name][measure], selecting[FULL][measure]
            lost = base.mean - after.mean + standard_error(after, base)
            changes = {of: gain(scores, tested[FULL][of]) for of, scores in found.items()}
        forms[name] = FormScores(bytes_of(name, width), values, changes, lost)
    return CompressionResults(
        isospace=version("isospace"),
        model=model,
        tested_on=described,
        selected_on=(
            "the same queries (so its loss is a little too small)"
            if validation is None
            else number_of(len(validation), "validation pairs")
        ),
        unit="queries" if isinstance(test, JudgedQueries) else test.grouped().unit,
        forms=forms,
        smallest=min(
            (name for name, form in forms.items() if form.lost <= MOST_LOST),
            key=lambda name: (forms[name].bytes, forms[name].lost),
        ),
    )


def _score_forms(
    encode: PromptedEncoders, content: TextPairs | JudgedQueries
) -> tuple[int, dict[FormName, dict[str, Scores]]]:
    """Return the width of the vectors, and form -> measure -> scores; the first measure selects."""
    if isinstance(content, JudgedQueries):
        judged = content
        queries, passages = unit_vectors(encode, judged.queries, judged.documents)

        def measure(blocks: _Blocks) -> dict[str, Scores]:
            scores = judged.measure(blocks)
            return {name: scores[name] for name in ("MRR@10", "nDCG@10")}

    else:
        pairs = content.grouped()
        targets = Targets.of_pairs(pairs)
        queries, passages = unit_vectors(encode, pairs.first, targets.texts)

        def measure(blocks: _Blocks) -> dict[str, Scores]:
            ranks = targets.rank(blocks)
            ndcg = mean_scores(ranks.ndcg[None], pairs.group_numbers())
            return {"MRR": mrr_scores(pairs, ranks), "nDCG@10": ndcg}

    scores = {form: measure(score_blocks(form, queries, passages)) for form in FORMS}
    return passages.shape[1], scores
