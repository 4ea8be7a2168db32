"""Generating queries: ask a language model, filter its queries, and write a file to train on."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.corpus import load_corpus
from isospace.corpus.records import GENERATED_BY
from isospace.encoders.loading import load_encoder
from isospace.encoders.places import resolve
from isospace.errors import UserError
from isospace.evaluation.pairs import remembering, unit_vectors
from isospace.evaluation.vector_cache import cached
from isospace.questions.answers import Archive, Asker, Fate, Reply
from isospace.questions.ask_config import AskConfig
from isospace.questions.filters import Filtered, Generated, filter_queries
from isospace.questions.passages import Passages, spread
from isospace.questions.prompts import DEFAULT, Prompts
from isospace.questions.results import AskResults, in_money
from isospace.statistics.counts import number_of
from isospace.system import typed_json
from isospace.system.cache import cache_folder
from isospace.system.consent import announce, estimated_tokens
from isospace.system.endpoints import Address, Endpoint
from isospace.system.files import hash_of, require_writable, write_text
from isospace.system.progress import Logged, Progress
from isospace.training.queries import rows_of_queries

RETRIES = 4
"""Number of retries of a request that times out or is refused temporarily."""
ANSWER_TOKENS = 25
"""Estimated number of tokens of a query in an answer."""
_ANSWERS = "answers.sqlite"


class _Request(NamedTuple):
    """A request: its number, the position of its passage, and the types of its queries."""

    number: int
    place: int
    types: tuple[str, ...]


def ask(config: AskConfig, progress: Progress | None = None) -> AskResults:
    """Generate queries for passages of a corpus, and write them and their counts.

    Each row of the file has `query`, `passage`, `type` and `generated_by`. The last column marks
    the row as generated, so that it is used for training and never for evaluation. Answers are kept
    in the user's cache: the same command resumes after a stop, and repeats no request.

    Args:
        config: the settings.
        progress: shows the progress; default: the log.

    Raises:
        UserError: bad input, refused before the first request; or the server cannot be used.
        KeyboardInterrupt: the user stopped the command; the answers so far are kept.
    """
    progress = progress or Logged()
    config.require_complete()
    address = Address.parse("llm", config.llm)
    assert config.output is not None
    for path in (config.output, config.counts_file):
        if path.exists():
            raise UserError(f"`output` {path}: exists already. Give another name, or move the file")
        require_writable(path)
    rows = rows_of_queries(config.like, "like") if config.like else []
    examples = tuple(dict.fromkeys(query for query, _ in rows))
    folder = config.prompts or DEFAULT
    prompts = Prompts.read(folder, examples, config.seed)
    resolve(config.model)
    with (
        closing(Endpoint(address, config.timeout, RETRIES)) as endpoint,
        closing(Archive(cache_folder() / _ANSWERS)) as archive,
    ):
        corpus = load_corpus(config.text, cache_folder())
        progress.line("corpus", corpus.summary)
        progress.line("types", f"{', '.join(prompts.types)} (prompts in {folder})")
        passages = Passages.of_corpus(corpus)
        encoder = load_encoder(config.model)
        encoder.expect([("document", passages.texts)], progress)
        encode = remembering(cached(encoder, cache_folder(), progress=progress))
        vectors = unit_vectors(encode, [], passages.texts)[1]
        requests = _plan(passages, vectors, prompts, config)
        asker = Asker(endpoint, archive, prompts)
        kept_before = _announce(requests, passages, prompts, asker, config, progress)
        replies = _replies(requests, passages, asker, config.parallel, progress)
    written = [
        Generated.of(query, passages.texts[request.place], name)
        for request, reply in zip(requests, replies, strict=True)
        for name, query in reply.queries.items()
    ]
    progress.line("filter", number_of(len(written), "queries"))
    filtered = filter_queries(written, examples, passages.texts, encode, config.max_shared)
    results = _results(config, prompts, replies, kept_before, written, filtered)
    typed_json.write(config.counts_file, results)
    write_text(config.output, "".join(_row(one, address) for one in filtered.kept))
    return results


def _plan(
    passages: Passages, vectors: NDArray[np.float32], prompts: Prompts, config: AskConfig
) -> list[_Request]:
    """Return the requests: each passage once, and again with other types if more are needed."""
    wanted, trained = math.ceil(config.count / prompts.at_once), passages.trained
    chosen = spread(vectors[trained], passages.documents[trained], wanted, config.seed)
    plan = []
    for number in range(min(wanted, len(chosen) * prompts.rounds)):
        turn, place = divmod(number, len(chosen))
        types = prompts.types_of(place + turn)[: config.count - number * prompts.at_once]
        plan.append(_Request(number, int(trained[chosen[place]]), types))
    return plan


def _announce(
    requests: Sequence[_Request],
    passages: Passages,
    prompts: Prompts,
    asker: Asker,
    config: AskConfig,
    progress: Progress,
) -> int:
    """Show the amount and cost of the requests; return the number of answers already kept."""
    texts = [prompts.text(one.number, one.types, passages.shown(one.place)) for one in requests]
    new = [place for place, text in enumerate(texts) if not asker.is_kept(text)]
    queries = sum(len(one.types) for one in requests)
    if queries < config.count:
        progress.line(
            "note",
            f"the corpus has passages for {queries:,} of the {config.count:,} queries asked for",
        )
    if new:
        read = estimated_tokens([texts[place] for place in new])
        write = ANSWER_TOKENS * sum(len(requests[place].types) for place in new)
        money = _money(config, read, write)
        cost = "" if money is None else f", about {in_money(money)} by `price`"
        what = f"{number_of(len(new), 'requests')} for {number_of(queries, 'queries')}{cost}"
        announce(Address.parse("llm", config.llm), what, read + write, progress)
    return len(requests) - len(new)


def _money(config: AskConfig, read: int, written: int) -> float | None:
    if config.price is None:
        return None
    return (config.price[0] * read + config.price[1] * written) / 1e6


def _replies(
    requests: Sequence[_Request],
    passages: Passages,
    asker: Asker,
    parallel: int,
    progress: Progress,
) -> list[Reply]:
    """Make the requests, some at a time; return their replies in order."""
    with (
        progress.bar("ask", len(requests)) as advance,
        ThreadPoolExecutor(parallel) as threads,
    ):
        futures = [
            threads.submit(asker.ask, one.number, one.types, passages.shown(one.place))
            for one in requests
        ]
        try:
            for future in as_completed(futures):
                future.result()
                advance(1)
        except BaseException:  # running requests finish, and their answers are kept
            asker.stopped = True
            threads.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _results(
    config: AskConfig,
    prompts: Prompts,
    replies: Sequence[Reply],
    kept_before: int,
    written: Sequence[Generated],
    filtered: Filtered,
) -> AskResults:
    fates = Counter(reply.fate for reply in replies)
    types = Counter(one.type for one in filtered.kept)
    read = sum(reply.prompt_tokens for reply in replies)
    wrote = sum(reply.answer_tokens for reply in replies)
    shared = [one.shared for one in filtered.kept]
    return AskResults(
        corpus=config.text.corpus,
        llm=config.llm,
        model=config.model,
        prompts=hash_of(repr((prompts.request, prompts.types, prompts.examples)).encode()),
        seed=config.seed,
        max_shared=config.max_shared,
        requests={fate: fates[fate] for fate in get_args(Fate)},
        retried=sum(reply.retried for reply in replies),
        kept_before=kept_before,
        written=len(written),
        near_duplicates=filtered.near_duplicates,
        copies=filtered.copies,
        not_found=filtered.not_found,
        kept={name: types[name] for name in prompts.types},
        shared_words=float(np.mean(shared)) if shared else None,
        prompt_tokens=read,
        answer_tokens=wrote,
        money=_money(config, read, wrote),
    )


def _row(one: Generated, address: Address) -> str:
    row = {"query": one.query, "passage": one.passage, "type": one.type}
    return json.dumps(row | {GENERATED_BY: address.model}, ensure_ascii=False) + "\n"
