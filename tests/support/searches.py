"""Documents, and the settings of a search of `adapt` that takes seconds with the toy."""

import random

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense
from toy import WORDS, sentences, write_rows

from isospace.config import AdaptConfig, CorpusConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.saving import save_model

NOISE, CONTENT = WORDS[:10], WORDS[10:]


def write_documents(file, count=2100):
    """Write documents whose second passages repeat words of their titles, among other words."""
    draw, rows = random.Random(0), []
    for text in sentences(count, seed=4):
        title = draw.sample(WORDS, k=6)
        second = " ".join([*draw.sample(title, k=6), *draw.choices(WORDS, k=6)])
        rows.append({"title": " ".join(title), "text": f"{text}\n\n{second}"})
    return write_rows(file, rows)


def titled(file, held_out=420):
    """Documents as they are, whose passages are looked for by their titles."""
    return CorpusConfig(
        corpus=(str(file),),
        title_column="title",
        passage_words=None,
        near_duplicates=False,
        test_relation="title-passage",
        held_out=held_out,
    )


def short_search(documents, model, output, held_out=420):
    """Return settings that select the candidate with the highest MRR, whatever it drops."""
    return AdaptConfig(
        text=titled(documents, held_out),
        model=str(model),
        budget=(25_000, "tokens"),
        max_drop=100,
        precision="float32",
        output=output,
    )


def small_search(folder, model):
    """Return the settings of a search with half of the documents: for `small_split`."""
    documents = write_documents(folder / "docs.jsonl", 1050)
    return short_search(documents, model, folder / "run", held_out=210)


def paired(file):
    """Write 750 pairs that share words among words that say nothing; return them as a corpus."""
    draw, rows = random.Random(0), []
    for _ in range(750):
        shared = draw.sample(CONTENT, k=5)
        pair = [" ".join(draw.sample(shared, k=4) + draw.choices(NOISE, k=6)) for _ in range(2)]
        rows.append(dict(zip(("query", "answer"), pair, strict=True)))
    write_rows(file, rows)
    return CorpusConfig(corpus=(str(file),), columns=("query", "answer"), near_duplicates=False)


def write_centred(toy, folder):
    """Write the toy with its mean removed, which is longer than all that tells texts apart."""
    plain = SentenceTransformer(str(toy), device="cpu")
    mean = torch.from_numpy(plain.encode(sentences(300, seed=1))).mean(0)
    initial = {"init_weight": torch.eye(32), "init_bias": -mean}
    dense = Dense(32, 32, activation_function=torch.nn.Identity(), **initial)
    model = SentenceTransformer(modules=[*plain, dense], device="cpu")
    save_model(Encoder(model, "centred"), folder)
    return folder
