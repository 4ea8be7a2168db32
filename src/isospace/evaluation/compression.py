"""Losses of compressed vectors: every form in `FORMS` against float32, on the same queries.

A form is fitted on texts of the corpus. Validation pairs select the smallest form with a small
loss, and test pairs measure its loss. The selection adds the standard error to the loss, so that it
does not prefer forms that were lucky.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from isospace.corpus.examples import evenly
from isospace.errors import number_of
from isospace.evaluation.benchmark import points_of
from isospace.evaluation.hybrid import without_ignored
from isospace.evaluation.pairs import PromptedEncoders, TextPairs, unit_vectors
from isospace.evaluation.retrieval import JudgedQueries, Targets, measure_ranking, mrr_scores
from isospace.evaluation.task import TitledRows
from isospace.operators.compression import Compression
from isospace.operators.forms import FORMS, FULL, FormName, forms_for
from isospace.statistics.gains import Gain, Scores, gain, mean_scores, standard_error

FITTED_ON = 3_000
"""Largest number of texts that a form is fitted on."""
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
            "the same queries, so that its loss is a little too small"
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
        ignored = np.array(judged.ignored or [-1] * len(judged))
        groups = np.arange(len(judged))

        def score_judged(compression: Compression) -> dict[str, Scores]:
            blocks = without_ignored(compression.score_blocks(*vectors), ignored)
            values = measure_ranking(blocks, judged.judgements)
            return {name: mean_scores(values[name][None], groups) for name in ("MRR@10", "nDCG@10")}

        return score_judged
    pairs = content.grouped()
    targets = Targets.of_pairs(pairs)
    vectors = unit_vectors(encode, pairs.first, targets.texts)

    def score_pairs(compression: Compression) -> dict[str, Scores]:
        ranks = targets.rank(compression.score_blocks(*vectors))
        ndcg = mean_scores(ranks.ndcg[None], pairs.group_numbers())
        return {"MRR": mrr_scores(pairs, ranks), "nDCG@10": ndcg}

    return score_pairs
