"""Small STS sets in SentEval's layout, and an encoder for their texts."""

import os
from pathlib import Path

import numpy as np

from isospace.evaluation.senteval import YEARS

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("ISOSPACE_DATA", ROOT.parent / "shared/data/senteval"))
"""SentEval's own files, if they are there."""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))


def write_senteval(folder):
    """Write all seven STS sets in SentEval's layout, with three scored pairs a sub-set."""
    for year, subsets in YEARS.items():
        for subset in subsets:
            base = folder / "STS" / f"{year}-en-test"
            pairs = "0 a\t10 b\n0 a\t77  x \n0 a\t40 c\n0 a\t80 d\n"
            write(base / f"STS.input.{subset}.txt", pairs)
            write(base / f"STS.gs.{subset}.txt", "5.0\n\n3.2\n0.4\n")
    for split in ("train", "dev", "test"):
        lines = [f"g\tf\t2012\t1\t{g}\t0 a\t{d} b\n" for g, d in ((5, 5), (2, 70), (3, 30))]
        write(folder / f"STS/STSBenchmark/sts-{split}.csv", "".join(lines))
    for name in ("train", "trial", "test_annotated"):
        lines = [f"{i}\t0 a\t{d} b\t{g}\tX\r\n" for i, (g, d) in enumerate(((5, 70), (1, 5)))]
        header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\r\n"
        write(folder / f"SICK/SICK_{name}.txt", header + "".join(lines))
    return folder


def angles(texts):
    """Encode "30 x" as the direction at 30 degrees, so that cosines are known."""
    radians = np.radians([float(text.split()[0]) for text in texts])
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)
