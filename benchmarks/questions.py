"""docs/results/questions.md: what readers of WhitenedCSE asked, each question a table.

    python benchmarks/questions.py CORPUS STS_FOLDER [--jobs 2] [--seeds 3] [--output FOLDER]
    python benchmarks/questions.py --judge STS_FOLDER

Goes on where it was stopped, and with the cells in docs/results/questions-cells.npz.xz.
All runs start from [CLS] with one budget. STS-B dev selects the weights of added terms, from one
seed each; then every row has all seeds and is tested once, on test pairs that STS-B dev does not
have. With --judge the finished runs are compared again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

import archived
from common import LENGTH, draw
from isospace.comparison.results import ComparisonResults
from isospace.comparison.runs import items_of_test
from isospace.config import CorpusConfig, TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.settings import EncoderSettings
from isospace.evaluation.retrieval import Items
from isospace.evaluation.sts import PAPER_COLUMNS, load_sts
from isospace.objectives import (
    DCL,
    BarlowTwins,
    CovarianceIdentity,
    RankStudy,
    SimCSE,
    VICReg,
    WhitenedCSE,
)
from isospace.objectives.base import Objective
from isospace.objectives.heads import GroupWhitening, seeded
from isospace.operators.similarity import cosine_pairs
from isospace.report.tables import mean_sd
from isospace.statistics.gains import gain
from isospace.system.files import write_text
from isospace.system.tables import markdown_table
from isospace.training.run import Run
from isospace.views import View

PAGE = Path(__file__).parent.parent / "docs" / "results" / "questions.md"
CELLS = PAGE.with_name("questions-cells.npz.xz")
LEFT_ON = PAGE.with_name("questions-left-on.json")
"""What the first question came to; it needs the models, which no archive has."""
CORPUS = "english_mixed.txt.gz"
SENTENCES, SEEDS = 6_400, 3
GROUPS = (1, 2, 4, 16, 64, 192)
VIEWS = (3, 4, 5)
SIDES = ("off", "apart", "together")
PAIRS = 128
"""Of an STS set that are whitened together, as many as SentEval encodes at a time."""

WHITENED: dict[str, Objective] = {
    "no-whitening": WhitenedCSE(num_views=2, whitening="none"),
    **{
        f"{groups}-groups{'-shuffled' * shuffled}": WhitenedCSE(
            num_views=2, groups=groups, whitening="shuffled-group" if shuffled else "group"
        )
        for groups in GROUPS
        for shuffled in (False, True)
        if groups > 1 or not shuffled  # one group is the same in every order
    },
}
LEFT = "192-groups-shuffled"
"""Whose whitening is left on."""
POSITIVES: dict[str, Objective] = {
    f"{'whitened' if whitening else 'plain'}-{views - 1}-positives": WhitenedCSE(
        num_views=views, whitening="shuffled-group" if whitening else "none"
    )
    for views in VIEWS
    for whitening in (False, True)
}
ONE_POSITIVE = {"plain": "no-whitening", "whitened": LEFT}
"""The rows of the second question that are rows of the third, too."""
HEADLESS: dict[str, Objective] = {
    "contrast": SimCSE(head="none"),
    "contrast-whitened": WhitenedCSE(num_views=2, head="none"),
    "dimension-contrast": DCL(
        contrast_weight=0.0, dimension_weight=1.0, dimension_temperature=0.05
    ),
    "barlow-twins": BarlowTwins(projector=()),
    "vicreg": VICReg(projector=()),
    "covariance-identity": CovarianceIdentity(contrast_weight=0.0),
}
"""On what the encoder gives, so that rows differ by the loss alone."""
ADDED: dict[str, dict[str, Objective]] = {
    "contrast+dimension-contrast": {
        f"dimension-contrast-{weight:g}": DCL(dimension_weight=weight, head="none")
        for weight in (0.03, 0.1, 1.0)
    },
    "contrast+barlow-twins": {
        f"barlow-twins-{weight:g}": RankStudy(barlow_weight=weight, head="none")
        for weight in (0.01, 0.1, 1.0)
    },
    "contrast+vicreg": {
        f"vicreg-{weight:g}": VICReg(
            projector=(),
            contrast_weight=1.0,
            invariance_weight=25 * weight,
            variance_weight=25 * weight,
            covariance_weight=weight,
        )
        for weight in (0.01, 0.1, 1.0)
    },
    "contrast+covariance-identity": {
        f"covariance-identity-{weight:g}": CovarianceIdentity(covariance_weight=weight, head="none")
        for weight in (0.001, 0.01, 0.1)
    },
}
"""Row -> candidates of its weight, of which STS-B dev selects one."""


def main() -> None:
    """Run what is missing; each table is drawn as soon as its rows are there."""
    options = archived.parse(archived.parser(__doc__, "questions", SEEDS))
    sts = options.judge or options.sts
    base = TrainConfig(
        text=CorpusConfig(corpus=(str(options.corpus or CORPUS),), held_out=1_000),
        pooling="cls",
        learning_rate=3e-5,
        max_length=LENGTH,
        budget=(SENTENCES, "sentences"),
        evaluations=2,
        select="labels",
        data=str(sts),
        seed=0,
    )

    def judged(rows: Mapping[str, Objective], seeds: int) -> ComparisonResults:
        candidates = {name: replace(base, objective=row) for name, row in rows.items()}
        if options.judge:
            return archived.judged_again(candidates, CELLS, Path(CORPUS), sts, seeds=seeds)
        return archived.run(candidates, seeds, options.output, CELLS, options.jobs)

    if not options.judge and not LEFT_ON.is_file():
        # First and at once: an archive has no models, should this be stopped.
        judged({LEFT: WHITENED[LEFT]}, options.seeds)
        left_on(options.output / LEFT, sts)
    draw(PAGE, {"left on": _left_on_table()})
    whitened = judged(WHITENED, options.seeds)
    draw(PAGE, {"groups": _gains(whitened)})
    one = {name: WHITENED[name] for name in ONE_POSITIVE.values()}
    positives = judged(one | POSITIVES, options.seeds)
    draw(PAGE, {"positives": _gains(positives)})
    weights = {name: row for rows in ADDED.values() for name, row in rows.items()}
    tried = judged(weights, 1)
    chosen = {
        row: max(candidates, key=lambda name: tried.criterion[name])
        for row, candidates in ADDED.items()
    }
    headless = judged(HEADLESS | {name: weights[name] for name in chosen.values()}, options.seeds)
    draw(PAGE, {"losses": _gains(headless)})


def _gains(results: ComparisonResults) -> str:
    """Gains of the rows, with the scores by which their checkpoints were selected."""
    selected = {name: f"{100 * results.criterion[name]:.2f}" for name in results.gains}
    return archived.gains_table(results, {"STS-B dev": selected})


def left_on(row: Path, sts: Path) -> None:
    """Score finished runs of one row, and their start, with the whitening of training left on.

    `row` has a folder for each seed, with its model.
    """
    runs = [Run(folder) for folder in sorted(row.glob("seed-*"))]
    if not all(run.model_folder.is_dir() for run in runs):
        sys.exit(f"{row}: runs of the archive, without models; remove them from it")
    shared = items_of_test(runs[0])
    encoders = [(load_encoder(str(run.model_folder)), run.config.seed) for run in runs]
    start = load_encoder(runs[0].config.model, EncoderSettings(pooling=runs[0].config.pooling))
    found = {}
    for name, ones in {"before": [(start, 0)], "after": encoders}.items():
        mrr = runs[0].items(name)  # asked for by what scores them all, and not shown
        sides = [_cosines(encoder, sts, seed) for encoder, seed in ones]
        scores = {side: shared.scores([mrr | one[side] for one in sides]) for side in SIDES}
        column = shared.shown("Avg") or "Avg"
        for side in SIDES:
            row_of = {"scores": [100 * float(seed) for seed in scores[side][column].by_seed]}
            if side != "off":
                against = gain(scores[side][column], scores["off"][column])
                row_of |= {"against off": against.points}
            found[f"{name} training, {side}"] = row_of
    write_text(LEFT_ON, json.dumps(found, indent=1) + "\n")


def _cosines(encoder: Encoder, sts: Path, seed: int) -> dict[str, Items]:
    """How the pairs are whitened -> STS set -> cosine of each pair (pair,)."""
    whitening = GroupWhitening(encoder.dim, encoder.dim // 2, seeded(seed))
    found: dict[str, Items] = {side: {} for side in SIDES}
    for name, sts_set in load_sts(sts).items():
        subsets = sts_set.test_only().subsets.values()
        first, second = (
            _vectors(encoder, [text for pairs in subsets for text in getattr(pairs, side)])
            for side in ("first", "second")
        )
        cosines: dict[str, list[torch.Tensor]] = {side: [] for side in SIDES}
        for a, b in zip(first.split(PAIRS), second.split(PAIRS), strict=True):
            together = whitening(torch.cat([a, b])[None])[0]
            cosines["off"].append(cosine_pairs(a, b))
            cosines["apart"].append(cosine_pairs(whitening(a[None])[0], whitening(b[None])[0]))
            cosines["together"].append(cosine_pairs(together[: len(a)], together[len(a) :]))
        for side in SIDES:
            found[side][PAPER_COLUMNS[name]] = torch.cat(cosines[side]).numpy()
    return found


@torch.inference_mode()
def _vectors(encoder: Encoder, texts: Sequence[str]) -> torch.Tensor:
    """(text, dim) as whitening sees them in training, without the L2 norm that closes the model."""
    ids = encoder.tokens.ids(texts)
    batches = (encoder.tokens.collate(ids[i : i + PAIRS]) for i in range(0, len(ids), PAIRS))
    return torch.cat([encoder.forward(batch, [View(dropout=0.0)])[0] for batch in batches])


def _left_on_table() -> str:
    found = json.loads(LEFT_ON.read_text()) if LEFT_ON.is_file() else {}
    return markdown_table(
        [
            {
                "": name,
                "Avg unseen": mean_sd(row["scores"]),
                "against off": row.get("against off", ""),
            }
            for name, row in found.items()
        ]
    )


if __name__ == "__main__":
    main()
