"""Generating queries: ask a language model, filter its queries, and write a file to train on.

Passages for requests, spread over documents, and filters of the queries written for them.

The filters drop repetitions, copies, and queries that miss their passage.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from isospace.config import AskConfig
from isospace.corpus.corpus import Corpus, load_corpus
from isospace.corpus.groups import near_duplicates
from isospace.corpus.records import GENERATED_BY
from isospace.corpus.relations import RELATIONS
from isospace.encoders.loading import load_encoder
from isospace.encoders.places import resolve
from isospace.errors import UserError, number_of
from isospace.evaluation.bm25 import bm25_terms
from isospace.evaluation.hybrid import rank_baselines
from isospace.evaluation.pairs import Candidates, Encode, TextPairs, cached, remembering
from isospace.questions.answers import (
    ROUNDS,
    TYPES,
    TYPES_AT_ONCE,
    Archive,
    Asker,
    Fate,
    Prompts,
    Reply,
    Request,
    types_of,
)
from isospace.system import typed_json
from isospace.system.consent import announce, estimated_tokens
from isospace.system.endpoints import Address, Endpoint
from isospace.system.files import cache_folder, require_writable, write_text
from isospace.system.progress import Logged, Progress
from isospace.training.examples import rows_of_queries

DEPTH = 20
"""Largest rank at which a query may find its passage."""
MAX_SHARED = 0.8
"""Largest share of a query's words that may occur in its passage; more make it a copy."""


@dataclass(frozen=True)
class Passages:
    """The n passages of a corpus.

    Attributes:
        trained: positions of the training passages.
        documents: (n,) number of each passage's document.
        above: (n,) title and heading of each passage, one per line; empty if it has none.
    """

    texts: tuple[str, ...]
    trained: NDArray[np.int64]
    documents: NDArray[np.int64]
    above: tuple[str, ...]

    @classmethod
    def of_corpus(cls, corpus: Corpus) -> Passages:
        """Return the passages of a corpus; a row or line without a document counts as one."""
        lines = corpus.passages
        documents, above = np.arange(len(lines)), [""] * len(lines)
        if corpus.related is not None:
            structure = corpus.related.structure
            documents = structure.documents[lines]
            for relation in ("title-passage", "heading-section"):
                pairs = RELATIONS[relation](structure)
                places = np.searchsorted(lines, pairs[:, 1]).tolist()
                for place, line in zip(places, pairs[:, 0].tolist(), strict=True):
                    above[place] += corpus[line] + "\n"
        texts = tuple(corpus[line] for line in lines.tolist())
        trained = np.flatnonzero(np.isin(lines, corpus.train_rows))
        return cls(texts, trained, documents, tuple(above))

    def shown(self, place: int) -> str:
        """Return a passage with its title and heading above it, for a request."""
        return f"{self.above[place]}\n{self.texts[place]}".strip()


def spread(documents: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """Return the positions (count,) of random passages; the documents take turns.

    `documents` (n,) has the number of each passage's document. All passages are returned if there
    are fewer than `count`.
    """
    order = np.random.default_rng(seed).permutation(len(documents))
    given: Counter[int] = Counter()
    turns = []
    for document in documents[order].tolist():
        turns.append(given[document])
        given[document] += 1
    return order[np.argsort(turns, kind="stable")][:count]


@dataclass(frozen=True)
class Generated:
    """A generated query, of one word or more."""

    query: str
    passage: str
    type: str


def shared_words(query: str, passage: str) -> float:
    """Return the share of a query's distinct words that occur in the passage, 0 to 1.

    Words are those of BM25: in scripts without spaces, pairs of neighbouring characters.

    >>> shared_words("reset the device", "Hold the button to reset it.")
    0.6666666666666666
    """
    words = set(bm25_terms(query))
    return len(words.intersection(bm25_terms(passage))) / len(words)


def filter_queries(
    written: Sequence[Generated],
    examples: Sequence[str],
    passages: Sequence[str],
    encode: Encode,
) -> tuple[list[Generated], dict[str, int]]:
    """Drop repetitions, then copies, then queries that do not find their passage.

    Args:
        written: the generated queries.
        examples: queries of real users, which the language model may have repeated.
        passages: all passages of the corpus, which are ranked for each query.
        encode: the base model, for hybrid search with BM25.

    Returns:
        The queries that are kept, and the number that each filter dropped.
    """
    texts = [*examples, *(one.query for one in written)]
    repeats = near_duplicates(texts, np.arange(len(texts)), len(examples))[len(examples) :]
    distinct = [one for one, earlier in zip(written, repeats.tolist(), strict=True) if earlier < 0]
    own_words = [one for one in distinct if shared_words(one.query, one.passage) <= MAX_SHARED]
    kept = _finding(own_words, passages, encode)
    return kept, {
        "near duplicates": len(written) - len(distinct),
        "copies": len(distinct) - len(own_words),
        "misses": len(own_words) - len(kept),
    }


def _finding(
    queries: Sequence[Generated], passages: Sequence[str], encode: Encode
) -> list[Generated]:
    """Return the queries that rank their passage among the first `DEPTH` in hybrid search."""
    if not queries:
        return []
    first, second = zip(*((one.query, one.passage) for one in queries), strict=True)
    among = Candidates(tuple(passages), (None,) * len(passages), {}, "all passages")
    _, hybrid = rank_baselines(encode, TextPairs("generated", first, second, among=among))
    return [one for one, rank in zip(queries, hybrid.ranks, strict=True) if rank <= DEPTH]


PARALLEL = 4
"""Number of requests at the same time."""
SECONDS = 300.0
"""Time in which a request must be answered; a language model on a CPU takes minutes."""
RETRIES = 4
"""Number of retries of a request that times out or is refused temporarily."""
ANSWER_TOKENS = 25
"""Estimated number of tokens of a query in an answer."""
_ANSWERS = "answers.jsonl"


@dataclass(frozen=True)
class AskResults:
    """Counts of requests and queries.

    Attributes:
        model: the base model of the filters.
        requests: outcome -> number of requests; see `answers.Fate`.
        written: number of queries that the language model wrote.
        dropped: filter -> number of queries that it dropped.
        kept: type -> number of queries in the file.
        prompt_tokens: tokens that the server read, as it counts; 0 if it does not count.
        answer_tokens: tokens that the server wrote, as it counts.
    """

    corpus: tuple[str, ...]
    llm: str
    model: str
    seed: int
    requests: Mapping[str, int]
    written: int
    dropped: Mapping[str, int]
    kept: Mapping[str, int]
    prompt_tokens: int
    answer_tokens: int
    format: int = 3

    @property
    def lines(self) -> dict[str, str]:
        """Counts as lines for people: label -> text."""
        fates = [f"{count:,} {fate}" for fate, count in self.requests.items() if count]
        asked = f"{number_of(sum(self.requests.values()), 'requests')}: {', '.join(fates)}"
        kept = sum(self.kept.values())
        reasons = ", ".join(f"{count:,} {what}" for what, count in self.dropped.items())
        types = ", ".join(f"{count:,} {name}" for name, count in self.kept.items())
        return {
            "asked": asked,
            "tokens": f"{self.prompt_tokens:,} read, {self.answer_tokens:,} written",
            "dropped": f"{reasons}, of {number_of(self.written, 'queries')}",
            "queries": f"{kept:,} kept" + (f": {types}" if types else ""),
        }


def ask(
    config: AskConfig,
    progress: Progress | None = None,
    parallel: int = PARALLEL,
    seconds: float = SECONDS,
) -> AskResults:
    """Generate queries for passages of a corpus, and write them and their counts.

    Each row of the file has `query`, `passage`, `type` and `generated_by`. The last column marks
    the row as generated, so that it is used for training and never for evaluation. Answers are kept
    in the user's cache: the same command resumes after a stop, and repeats no request.

    Args:
        config: settings.
        progress: shows the progress; default: the log.
        parallel: number of requests at the same time.
        seconds: time in which a request must be answered.

    Raises:
        UserError: bad input, refused before the first request; or the server cannot be used.
        KeyboardInterrupt: the user stopped the command; the answers so far are kept.
    """
    progress = progress or Logged()
    config.require_complete()
    address = Address.parse("llm", config.llm)
    assert config.output is not None
    if config.output.exists():
        raise UserError(
            f"`output` {config.output}: exists already. Give another name, or move the file"
        )
    require_writable(config.output)
    rows = rows_of_queries(config.like, "like") if config.like else []
    examples = tuple(dict.fromkeys(query for query, _ in rows))
    resolve(config.model)
    with (
        closing(Endpoint(address, seconds, RETRIES)) as endpoint,
        closing(Archive(cache_folder() / _ANSWERS)) as archive,
    ):
        corpus = load_corpus(config.text, cache_folder())
        progress.line("corpus", corpus.summary)
        progress.line("types", ", ".join(TYPES))
        passages = Passages.of_corpus(corpus)
        encoder = load_encoder(config.model)
        encoder.expect([("document", passages.texts)], progress)
        encode = remembering(cached(encoder, cache_folder(), progress=progress))
        requests = _plan(passages, config)
        asker = Asker(endpoint, archive, Prompts(examples, config.seed))
        _announce(requests, asker, config.count, address, progress)
        replies = _replies(requests, asker, parallel, progress)
    written = [
        Generated(query, request.passage, name)
        for request, reply in zip(requests, replies, strict=True)
        for name, query in reply.queries.items()
    ]
    progress.line("filter", number_of(len(written), "queries"))
    kept, dropped = filter_queries(written, examples, passages.texts, encode)
    fates = Counter(reply.fate for reply in replies)
    types = Counter(one.type for one in kept)
    results = AskResults(
        corpus=config.text.corpus,
        llm=config.llm,
        model=config.model,
        seed=config.seed,
        requests={fate: fates[fate] for fate in get_args(Fate)},
        written=len(written),
        dropped=dropped,
        kept={name: types[name] for name in TYPES},
        prompt_tokens=sum(reply.prompt_tokens for reply in replies),
        answer_tokens=sum(reply.answer_tokens for reply in replies),
    )
    typed_json.write(config.counts_file, results)
    # Last: a command that was killed before can be repeated, since only this file is in its way.
    write_text(config.output, "".join(_row(one, address) for one in kept))
    return results


def _plan(passages: Passages, config: AskConfig) -> list[Request]:
    """Return the requests: each passage once, and again with other types if more are needed."""
    wanted, trained = math.ceil(config.count / TYPES_AT_ONCE), passages.trained
    chosen = spread(passages.documents[trained], wanted, config.seed)
    plan = []
    for number in range(min(wanted, len(chosen) * ROUNDS)):
        turn, place = divmod(number, len(chosen))
        types = types_of(place + turn)[: config.count - number * TYPES_AT_ONCE]
        row = int(trained[chosen[place]])
        plan.append(Request(number, types, passages.texts[row], passages.shown(row)))
    return plan


def _announce(
    requests: Sequence[Request], asker: Asker, wanted: int, address: Address, progress: Progress
) -> None:
    """Say how many queries the corpus allows, and what will be sent, unless it is all answered."""
    queries = sum(len(one.types) for one in requests)
    if queries < wanted:
        progress.line(
            "note", f"the corpus has passages for {queries:,} of the {wanted:,} queries asked for"
        )
    if new := asker.unanswered(requests):
        read = estimated_tokens(list(new.values()))
        write = ANSWER_TOKENS * sum(len(request.types) for request in new)
        what = f"{number_of(len(new), 'requests')} for {number_of(queries, 'queries')}"
        announce(address, what, read + write, progress)


def _replies(
    requests: Sequence[Request], asker: Asker, parallel: int, progress: Progress
) -> list[Reply]:
    """Make the requests, some at a time; return their replies in order."""
    with (
        progress.bar("ask", len(requests)) as advance,
        ThreadPoolExecutor(parallel) as threads,
    ):
        futures = [threads.submit(asker.ask, request) for request in requests]
        try:
            for future in as_completed(futures):
                future.result()
                advance(1)
        except BaseException:  # running requests finish, and their answers are kept
            asker.stopped = True
            threads.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _row(one: Generated, address: Address) -> str:
    row = {"query": one.query, "passage": one.passage, "type": one.type}
    return json.dumps(row | {GENERATED_BY: address.model}, ensure_ascii=False) + "\n"
