"""Documents, and the settings of a search of `adapt` that takes seconds with the toy."""

from __future__ import annotations

import json
import random
from pathlib import Path

from toy import WORDS, sentences

from isospace.adaptation.adapt_config import AdaptConfig
from isospace.config import CorpusConfig


def write_documents(file: Path) -> Path:
    """2,100 documents whose second passages say the words of their titles again, among others."""
    draw = random.Random(0)
    with file.open("w", encoding="utf-8") as out:
        for text in sentences(2100, seed=4):
            title = draw.sample(WORDS, k=6)
            second = " ".join([*draw.sample(title, k=6), *draw.choices(WORDS, k=6)])
            row = {"title": " ".join(title), "text": f"{text}\n\n{second}"}
            out.write(json.dumps(row) + "\n")
    return file


def titled(file: Path) -> CorpusConfig:
    """Documents as they are, whose passages are looked for by their titles."""
    return CorpusConfig(
        corpus=(str(file),),
        title_column="title",
        passage_words=None,
        near_duplicates=False,
        test_relation="title-passage",
        held_out=420,
    )


def short_search(documents: Path, model: Path, output: Path) -> AdaptConfig:
    """Return settings that select the candidate with the highest MRR, whatever it drops."""
    return AdaptConfig(
        text=titled(documents),
        model=str(model),
        budget=(50_000, "tokens"),
        max_drop=100,
        precision="float32",
        output=output,
    )
