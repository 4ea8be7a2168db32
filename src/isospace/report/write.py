"""Run folders -> one HTML page that needs no other file, and tables for papers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jinja2

from isospace.adaptation.results import read_candidates
from isospace.errors import UserError
from isospace.evaluation.geometry import NEIGHBOURS, describe, neighbour_overlap
from isospace.report import figures
from isospace.report.figures import Picture
from isospace.report.run_set import NamedRun, RunSet
from isospace.report.tables import all_tables
from isospace.system.files import expanded, write_text
from isospace.system.lifecycle import stopping
from isospace.system.settings import to_dict
from isospace.system.tables import Table, is_number
from isospace.system.unicode import without_surrogates
from isospace.training.card import how_to_load
from isospace.training.results import RunResults
from isospace.training.run import REPORT, Run

SMALLEST_SAMPLE = 12
"""Smallest number of sentences with ten neighbours each."""

MEASURES = {
    "effective_rank": (
        "effective rank",
        "Number of directions that the vectors use. More is more even.",
    ),
    "mean_cosine": (
        "mean cosine",
        "Mean cosine of two different texts. Near 0 is even; near 1 all texts look alike.",
    ),
    "uniformity": (
        "uniformity",
        "Spread of the texts over the sphere, from 0 (all in one place) to about -4. Lower is more "
        "even.",
    ),
}
"""Measure of a space -> its name and meaning for people."""


def write_report(
    run_set: RunSet, output: Path | None = None, in_words: Callable[[str], str] = str
) -> Path:
    """Write one HTML page about runs, which loads no other file, and return its path.

    The default of `output` is report.html in the folder of the run or comparison. `in_words`
    rewrites settings in `backticks` for the reader.
    """
    if output is None:
        if run_set.home is None:
            raise UserError("a report on several runs needs a file: `output` report.html")
        output = run_set.home / REPORT
    output = expanded(output)
    if output.is_dir():
        raise UserError(f"`output` {output}: is a folder; give a file, such as {output / REPORT}")
    if output.suffix.lower() not in (".html", ".htm"):  # it may be a user's file
        raise UserError(f"`output` {output}: expected a name that ends in .html")
    environment = templates("isospace.report")
    environment.tests.update(number=is_number)
    page = environment.get_template("report.html").render(
        title=run_set.title,
        comparisons=run_set.comparisons,
        apart=run_set.home is None,
        tables=all_tables(run_set),
        curves=list(_curves(run_set)),
        key=figures.line_styles(run_set),
        sections=[_section(named, i, in_words) for i, named in enumerate(run_set.runs)],
    )
    with stopping(lambda: f"name another page: isospace report FOLDER `output` {REPORT}"):
        write_text(output, page)
    return output


def templates(package: str) -> jinja2.Environment:
    """Return the templates in the folder `page` of a package, and those that all pages share."""
    own, shared = (package, "page"), ("isospace.report", "shared")
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(*own), jinja2.PackageLoader(*shared)]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _curves(run_set: RunSet) -> Iterator[Picture]:
    """Draw the evaluations; yield no picture if no run has several."""
    if all(len(named.run.evaluations()) < 2 for named in run_set.runs):
        return
    for measure, title in figures.curves(run_set):
        description = f"Line chart: {title} over the sentences seen"
        yield figures.picture(figures.curve(run_set, measure), measure, description, title)


def _section(named: NamedRun, number: int, in_words: Callable[[str], str]) -> dict[str, Any]:
    """Return the part of the page on one run; what an unfinished run lacks is empty."""
    run, results = named.run, named.run.results
    losses = None
    if run.steps():
        losses = figures.picture(
            figures.losses(run),
            f"loss-{number}",
            "Line chart: training loss by term",
            "Training loss, by term",
            f"Faint: updates; strong: running mean over {figures.RUNNING_MEAN} updates.",
        )
    cleaning = None
    if results is not None:
        counts = results.corpus.counts.items()
        rows = [{"corpus": what, "lines": f"{lines:,}"} for what, lines in counts]
        cleaning = Table("cleaning", "What cleaning left", rows)
    return {
        "name": named.name,
        "verdict": "" if results is None else results.summary,
        "use": "" if results is None else results.recommendation,
        "load": how_to_load(run.model_folder),
        "resume": (in_words(run.to_resume[0]), run.to_resume[1]),
        "candidates": _candidates(run, number, results is None or results.split),
        "losses": losses,
        "space": _space(run, number),
        "facts": {} if results is None else _facts(run, results),
        "cleaning": cleaning,
    }


def _facts(run: Run, results: RunResults) -> dict[str, str]:
    """Return the settings of a run, and the versions and machine used: name -> text."""
    values = to_dict(run.config)
    objective, text = values.pop("objective"), values.pop("text")
    name = {"objective": objective.pop("name")}
    training = results.training
    used = {"pooling": training.pooling, "isospace": results.isospace, **results.environment}
    used["precision"] = training.precision
    outcome = {"selected": results.kept, "cost": training.cost}
    facts = outcome | name | objective | text | values | used
    return {key.replace("_", " "): _fact(value) for key, value in facts.items()}


def _fact(value: Any) -> str:
    """Return a setting as text for people."""
    if isinstance(value, list | tuple):
        return " ".join(map(_fact, value)) or "none"
    return "none" if value is None else without_surrogates(str(value))


def _space(run: Run, number: int) -> dict[str, Any] | None:
    """Return the part on the space of the run's sample; `None` if it has too few sentences."""
    if (sample := run.sample) is None:
        return None
    spaces = {"before": sample.before, "after": sample.after}
    space = space_of(spaces, f"spectra-{number}", "Line chart: singular values before and after")
    if space is None:
        return None
    rows = [
        {"measure": title, **dict(zip(spaces, values, strict=True))}
        for title, _, values in space["measures"]
    ]
    return space | {"measures": Table("space", "The use of the space", rows)}


def space_of(
    spaces: Mapping[str, figures.Vectors], name: str, description: str
) -> dict[str, Any] | None:
    """Measure and draw one or two spaces of vectors (n, dim); `None` for too few texts.

    "measures" has the name, the meaning and the values of each measure.
    """
    vectors = list(spaces.values())
    if len(vectors[0]) < SMALLEST_SAMPLE:
        return None
    described = [describe(one) for one in vectors]
    return {
        "sentences": len(vectors[0]),
        "measures": [
            (title, meaning, [f"{one[key]:.4g}" for one in described])
            for key, (title, meaning) in MEASURES.items()
        ],
        "spectra": figures.picture(
            figures.spectra(spaces),
            name,
            description,
            "Singular values",
            "A flatter curve means that more directions are used. The scale is logarithmic.",
        ),
        "kept": NEIGHBOURS * neighbour_overlap(*vectors) if len(vectors) == 2 else None,
    }


def _candidates(run: Run, number: int, split: bool) -> dict[str, Any] | None:
    """Return the part of a page on a run of adapt; `None` for other runs.

    `split` is true if no validation pair is a test pair.
    """
    if (candidates := read_candidates(run.folder)) is None:
        return None
    picture = figures.picture(
        figures.candidates(candidates),
        f"candidates-{number}",
        "Chart: validation MRR of each candidate",
        "Candidates",
        "A horizontal line is the 95 % interval of the gain. The dashed line is the base model.",
        2 * figures.WIDTH,
    )
    verdict = "is of test pairs" if split else "allows for that, as there are no other pairs"
    both = "" if split else " and the test pairs"
    best = Table(
        "candidates",
        f"Candidates, on the validation pairs{both}: {candidates.selected_on}, x 100",
        candidates.rows(),
        " ".join(
            [
                "Gains are over the base model, with 95 % intervals. The gain of the selected "
                "candidate is too high, because these pairs selected it: the verdict above "
                f"{verdict}. They may have selected the weight of BM25 too. Here, other text is "
                "measured by its validation pairs, in the table above by its test pairs: "
                f"{candidates.other_text}. This table has the best candidate of each kind, and "
                "candidates.json has all.",
                *candidates.notes,
            ]
        ),
    )
    return {
        "picture": picture,
        "best": best,
        "better": candidates.better,
        "worse": candidates.worse,
    }
