"""Losses of compressed vectors: every form in `FORMS` against float32, on the same queries.

A form is fitted on texts of the corpus. Validation pairs select the smallest form with a small
loss, and test pairs measure its loss. The selection adds the standard error to the loss, so that it
does not prefer forms that were lucky.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from isospace.config import CorpusConfig, EvaluateConfig, TrainConfig
from isospace.corpus.examples import evenly
from isospace.encoders.loading import as_encoder
from isospace.errors import UserError, number_of
from isospace.evaluation.benchmark import hard_pairs, points_of
from isospace.evaluation.judged import JudgedQueries
from isospace.evaluation.own_data import load_own_files
from isospace.evaluation.pairs import PromptedEncoders, TextPairs, cached, unit_vectors
from isospace.evaluation.retrieval import Targets, mrr_scores
from isospace.evaluation.task import TitledRows
from isospace.operators.compression import Compression
from isospace.operators.forms import FITTED_ON, FORMS, FULL, FormName, forms_for
from isospace.statistics.gains import Gain, Scores, gain, mean_scores, standard_error
from isospace.system.files import cache_folder
from isospace.system.progress import Logged, Progress
from isospace.training.prepare import data_of, load_data
from isospace.training.run import run_of

MOST_LOST = 0.005
"""Largest loss of the advised form, including its standard error: half a point of 100."""

_Scorer = Callable[[Compression], dict[str, Scores]]
"""Form -> measure -> scores; the first measure selects."""


@dataclass(frozen=True)
class FormScores:
    """Scores of one form on the test queries, 0 to 1.

    `changes` are against float32, by measure. `lost` is the loss of the first measure on the
    selecting queries, plus its standard error.
    """

    bytes: int
    values: dict[str, float]
    changes: dict[str, Gain]
    lost: float


@dataclass(frozen=True)
class CompressionResults:
    """Scores of all forms of one model on one set of queries, float32 first.

    `fitted_on` counts the texts that the forms were fitted on, `unit` is the name of the groups of
    queries in the plural, and `smallest` the smallest form whose `lost` is at most `MOST_LOST`.
    """

    isospace: str
    model: str
    tested_on: str
    selected_on: str
    fitted_on: int
    unit: str
    forms: dict[FormName, FormScores]
    smallest: FormName

    @property
    def measure(self) -> str:
        """Name of the measure that selects the form."""
        return next(iter(self.forms[FULL].values))

    @property
    def loss(self) -> str:
        """A sentence on the change by the smallest form on the test queries."""
        form, full = self.forms[self.smallest], self.forms[FULL]
        if self.smallest == FULL:
            return f"{FULL} changes nothing: {number_of(full.bytes, 'bytes')} a passage."
        return (
            f"{self.smallest} changes {self.measure} by {form.changes[self.measure]}; "
            f"{number_of(form.bytes, 'bytes')} a passage in place of {full.bytes:,}."
        )

    @property
    def advice(self) -> str:
        """Advice: the smallest form with a small loss, and its loss on the test queries."""
        return (
            f"Smallest form: {self.smallest}. On {self.selected_on} it loses at most "
            f"{100 * MOST_LOST:g} points of {self.measure}, with one standard error. On "
            f"{self.tested_on}: {self.loss}"
        )

    def table(self) -> TitledRows:
        """Return a row for each form, x 100."""
        title = f"small vectors of {self.model}, x 100 ({self.tested_on})"
        note = (
            f"{self.advice}\nFitted on {number_of(self.fitted_on, 'texts')} of the corpus; changes "
            f"against {FULL} with 95 % intervals over the {self.unit}, each by itself. binary "
            "compares the bits of a passage with the numbers of a query; binary-both compares "
            "bits; binary-rescored finds 40 passages by bits, and ranks them by int8."
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
    """Measure what every form of small vectors loses.

    The queries are those of `config.own`; else the test pairs of `corpus`; else those of the run
    that `model` names. There is a result for each file of `config.own`.
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
    described = "test pairs"
    if run is None:
        text = CorpusConfig(corpus=tuple(corpus))
        data = load_data(TrainConfig(text=text, model=model))
    else:
        data, same = data_of(run)
        described = "test pairs of the run"
        if not same:
            described = f"held-out pairs of the run's text{run.finished.trained_on}"
    pairs = data.benchmark.pairs
    lines = data.corpus.train_rows[evenly(len(data.corpus.train_rows), FITTED_ON)]
    results = measure_forms(
        _encode(model, config, progress),
        model,
        pairs,
        f"{len(pairs):,} {described}",
        [data.corpus[int(line)] for line in lines],
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
        if isinstance(content, JudgedQueries):
            what, passages = "queries", content.documents
        else:
            what, passages = "pairs", tuple(dict.fromkeys(content.second))
        described = f"{len(content):,} {what} of {data.file}"
        results.append(measure_forms(encode, model, content, described, passages))
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
    fit_on: Sequence[str],
    validation: TextPairs | None = None,
) -> CompressionResults:
    """Measure every form on test queries, and select the smallest form with a small loss.

    Pass encoders that remember or cache vectors. `described` is the description of the test
    queries. At most `FITTED_ON` texts of `fit_on` are encoded. The validation pairs must not be
    test pairs; without them the test queries select.
    """
    fitted_on = [fit_on[place] for place in evenly(len(fit_on), FITTED_ON)]
    vectors = encode.documents(fitted_on)
    test_scores = _scorer(encode, test)
    full = Compression(FULL, vectors.shape[1])
    before = test_scores(full)
    selecting_scores = test_scores if validation is None else _scorer(encode, validation)
    full_selecting = before if validation is None else selecting_scores(full)
    measure = next(iter(full_selecting))
    forms = {}
    for name in forms_for(vectors.shape[1], len(vectors)):
        compression = Compression.fit(name, vectors)
        found = test_scores(compression)
        selecting = found if validation is None else selecting_scores(compression)
        after, base = selecting[measure], full_selecting[measure]
        values = {of: scores.mean for of, scores in found.items()}
        changes, lost = {}, 0.0
        if name != FULL:
            lost = base.mean - after.mean + standard_error(after, base)
            changes = {of: gain(scores, before[of]) for of, scores in found.items()}
        size = FORMS[name].bytes_of(vectors.shape[1])
        forms[name] = FormScores(size, values, changes, lost)
    return CompressionResults(
        isospace=version("isospace"),
        model=model,
        tested_on=described,
        selected_on=(
            "the same queries (so its loss is a little too small)"
            if validation is None
            else number_of(len(validation), "validation pairs")
        ),
        fitted_on=len(vectors),
        unit="queries" if isinstance(test, JudgedQueries) else test.grouped().unit,
        forms=forms,
        smallest=min(
            (name for name, form in forms.items() if form.lost <= MOST_LOST),
            key=lambda name: (forms[name].bytes, forms[name].lost),
        ),
    )


def _scorer(encode: PromptedEncoders, content: TextPairs | JudgedQueries) -> _Scorer:
    """Encode queries and passages, and return the function that scores a form of their vectors."""
    if isinstance(content, JudgedQueries):
        judged = content
        vectors = unit_vectors(encode, judged.queries, judged.documents)

        def score_judged(compression: Compression) -> dict[str, Scores]:
            scores = judged.measure(compression.score_blocks(*vectors))
            return {name: scores[name] for name in ("MRR@10", "nDCG@10")}

        return score_judged
    pairs = content.grouped()
    targets = Targets.of_pairs(pairs)
    vectors = unit_vectors(encode, pairs.first, targets.texts)

    def score_pairs(compression: Compression) -> dict[str, Scores]:
        ranks = targets.rank(compression.score_blocks(*vectors))
        ndcg = mean_scores(ranks.ndcg[None], pairs.group_numbers())
        return {"MRR": mrr_scores(pairs, ranks), "nDCG@10": ndcg}

    return score_pairs
