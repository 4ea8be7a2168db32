"""Two models made of random word vectors and a corpus with an evil text, for tests of `explore`."""

import re
import zlib
from contextlib import contextmanager

import numpy as np
from toy import sentences

from isospace.adaptation.results import ChangedQuery
from isospace.explore.session import ChangedQueries, Model, Session, sample_rows
from isospace.operators.nearest import unit_rows

EVIL = "<script>alert(1)</script> & \"the cat\" on the 'mat'"
EVIL_NAME = "<img src=x onerror=alert(1)>"
TEXTS = [EVIL, *sentences(60)]
FIRST = ((TEXTS[1],), (TEXTS[2],))
CHANGES = ChangedQueries(
    gained=(
        ChangedQuery(f"{EVIL_NAME} {TEXTS[3]}", TEXTS[4], (1204.0, 1.0), FIRST),
        ChangedQuery(TEXTS[5], TEXTS[6], (12.5, 3.0), FIRST),
    ),
    lost=(ChangedQuery(TEXTS[7], EVIL, (2.0, 31.0), FIRST),),
)


def encoder(seed, dim):
    """Texts to the sums of their words' vectors."""

    def vector(word):
        return np.random.default_rng([seed, zlib.crc32(word.encode())]).normal(size=dim)

    def encode(texts):
        rows = [sum(map(vector, re.findall(r"\w+", text)), np.zeros(dim)) for text in texts]
        return np.array(rows, np.float32).reshape(-1, dim)

    return encode


def session_of(texts=TEXTS, encoders=None, names=("first", EVIL_NAME), changes=None):
    encoders = encoders or (encoder(1, 16), encoder(2, 12))
    models = []
    for letter, name, encode in zip("AB", names, encoders, strict=False):
        sample = encode([texts[row] for row in sample_rows(len(texts))])
        models.append(Model(letter, name, encode, unit_rows(encode(texts)), sample))
    return Session(texts, models, "toy.txt", changes)


@contextmanager
def served(session):
    from serving import running  # needs isospace[explore], as the next one does

    from isospace.explore.app import HOST, listen, make_server

    with listen(0) as listener, running(make_server(session), listener) as port:
        yield f"http://{HOST}:{port}/"
