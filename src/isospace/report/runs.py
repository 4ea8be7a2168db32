"""Tables of runs: scores before and after, retrieval, other text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from isospace.config import objective_name
from isospace.evaluation.hybrid import NO_SHARED
from isospace.evaluation.other_text import PROTOCOL
from isospace.evaluation.scores import BASE, CORRECTED, CORRECTED_NOTE, GAIN, PairScores, gain_cells
from isospace.report.papers import (
    MEAN_SD,
    STATES,
    finished,
    mean_sd,
    mean_sd_of_different,
    not_shipped,
    scores_of,
    sts_rows,
)
from isospace.report.run_set import RunSet
from isospace.system.tables import Table
from isospace.training.results import RunResults
from isospace.training.run import Run


def runs_table(run_set: RunSet) -> Table:
    """Return a table with a row for each setting: scores over its seeds, and verdicts."""
    done = finished([named.run for named in run_set.runs])
    corrected = any(
        abs(_corrected_mrr(results) - results.adapted.pairs.mrr) > 1e-9 for results in done
    )
    rows = [_runs_row(group, runs, corrected) for group, runs in run_set.groups().items()]
    protocols = dict.fromkeys(results.verdict.protocol for results in done)
    note = "; ".join(protocols)
    if note:
        note = (
            f"x 100, {MEAN_SD}, n of them, where they differ. A gain is the difference of the "
            "unrounded means, a gain in MRR that of the verdict. "
            f"{f'{CORRECTED_NOTE}; its difference is the gain. ' if corrected else ''}Shipped: "
            "what model/ holds. Cost: time and peak memory of the longest run. Measured by: "
            f"{note}."
        )
    return Table("runs", "Runs: before and after", rows, note)


def _runs_row(group: str, runs: Sequence[Run], corrected: bool) -> dict[str, str]:
    config, done = runs[0].config, finished(runs)
    verdicts = [results.verdict.kind.value for results in done]
    verdicts += ["unfinished"] * (len(runs) - len(done))
    counts = Counter(verdicts)
    verdict = ", ".join(f"{n} {v}" if len(verdicts) > 1 else v for v, n in counts.items())
    row = {"run": group, "verdict": verdict}
    if done:
        mrr = {
            state: [100 * scores_of(results, state).pairs.mrr for results in done]
            for state in STATES
        }
        right = [100 * _corrected_mrr(results) for results in done]
        row["gain in MRR"] = f"{fmean(right) - fmean(mrr['base model']):+.2f}"
        row |= {f"MRR {state}": mean_sd_of_different(values) for state, values in mrr.items()}
        if corrected:
            row[CORRECTED] = mean_sd_of_different(right)
        sts = {
            state: [row["Avg"] for row in sts_rows(done, state) if "Avg" in row] for state in STATES
        }
        if all(sts.values()):
            row["gain in STS"] = f"{fmean(sts['adapted']) - fmean(sts['base model']):+.2f}"
            row |= {f"STS {state}": mean_sd_of_different(values) for state, values in sts.items()}
        row["shipped"] = _shipped(done)
        row["kept"] = _kept(done)
        row["n"] = str(len(done))
        row["cost"] = max(done, key=lambda results: results.seconds).cost
    return row | {"objective": objective_name(config.objective), "model": Path(config.model).name}


def _shipped(done: Sequence[RunResults]) -> str:
    """Return the name of the model in the folders model/."""
    count = sum(not results.ships_base for results in done)
    if count in (0, len(done)):
        return "adapted" if count else BASE
    return f"result by {count} of {len(done)}"


def _corrected_mrr(results: RunResults) -> float:
    """Return the MRR of the result, without selection bias if the test pairs selected it."""
    gain = results.verdict.gain
    # If the base model was kept, the gain belongs to the best of the other candidates.
    if gain is None or results.adapted.pairs == results.base.pairs:
        return results.adapted.pairs.mrr
    return results.base.pairs.mrr + gain.mean


def _kept(done: Sequence[RunResults]) -> str:
    """Return what was selected and by which rule, including the use of labels."""
    words = [
        results.candidate or (f"step {results.choice.step}" if results.choice.step else BASE)
        for results in done
    ]
    return f"{', '.join(words)} ({done[0].selected_by})"


def retrieval_table(run_set: RunSet) -> Table | None:
    """Return a table with all retrieval measures of the test pairs, before and after.

    BM25 and hybrid search have rows too. The result is `None` if no run has scores of BM25.
    """
    rows: list[dict[str, str]] = []
    weights: set[str] = set()
    for group, runs in run_set.groups().items():
        done = [results for results in finished(runs) if results.base.with_bm25 is not None]
        weights |= {f"{one.base.with_bm25.weight:g}" for one in done if one.base.with_bm25}
        rows += [{"run": group} | row for row in _state_rows(done)]
    if not rows:
        return None
    note = (
        f"x 100, {MEAN_SD}, where they differ. + BM25: cosine and BM25 fused, weight "
        f"{', '.join(sorted(weights))}. {NO_SHARED}: each right text without the words of its "
        "query, all others as they are."
    )
    if any(GAIN in row for row in rows):
        note += f" {GAIN}: of single runs, with 95 % intervals for other pairs."
    if any(CORRECTED in row for row in rows):
        note += f" {CORRECTED_NOTE}."
    return Table("retrieval", "Retrieval of test pairs: before and after, with BM25", rows, note)


def _state_rows(done: Sequence[RunResults]) -> list[dict[str, str]]:
    """Return rows for both states of the runs of one setting, for BM25, and for hybrid search."""
    found: dict[str, list[PairScores]] = {}
    after = f"adapted{not_shipped(done)}"
    for results in done:
        for name, scores in ((BASE, results.base), (after, results.adapted)):
            found.setdefault(name, []).append(scores.pairs)
            if scores.with_bm25 is not None:
                found.setdefault("BM25", []).append(scores.with_bm25.bm25)
                found.setdefault(f"{name} + BM25", []).append(scores.with_bm25.hybrid)
    gains: dict[str, dict[str, str]] = {}
    if len(done) == 1 and (over_base := done[0].over_base(after)):
        gains = gain_cells({name: seeds[0].mrr for name, seeds in found.items()}, over_base)
    rows = {name: _row(seeds) for name, seeds in found.items()}
    # Gains come directly after the MRR, so that they are visible without scrolling.
    return [
        {"state": name, "MRR": row["MRR"]} | gains.get(name, {}) | row for name, row in rows.items()
    ]


def _row(seeds: Sequence[PairScores]) -> dict[str, str]:
    rows = [one.row() for one in seeds]
    return {
        column: mean_sd_of_different([100 * row[column] for row in rows])
        for column in rows[0]
        if all(column in row for row in rows)
    }


def other_text_table(run_set: RunSet) -> Table | None:
    """Return a table with scores on other text before and after; `None` for older runs."""
    rows = []
    for group, runs in run_set.groups().items():
        done = [results.other_text for results in finished(runs) if results.other_text]
        for column in done[0] if done else ():
            found = [sets[column] for sets in done if column in sets]
            gains = [one.gain for one in found]
            rows.append(
                {
                    "run": group + not_shipped(finished(runs)),
                    "other text": column,
                    "gain": gains[0].points
                    if len(gains) == 1
                    else mean_sd([100 * one.mean for one in gains], sign="+"),
                    BASE: mean_sd_of_different([100 * one.base for one in found]),
                    "adapted": mean_sd_of_different([100 * one.adapted for one in found]),
                }
            )
    if not rows:
        return None
    note = (
        f"x 100, {MEAN_SD}, where they differ; of a single run the gain's 95 % interval in "
        f"brackets. {PROTOCOL}."
    )
    return Table("other-text", "Other text: before and after", rows, note)
