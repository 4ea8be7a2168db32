"""What was understood of a text, before anything is trained on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isospace.corpus.build import FEWEST_PAIRS
from isospace.corpus.corpus import Corpus
from isospace.corpus.coverage import quantiles
from isospace.corpus.examples import evenly
from isospace.corpus.languages import languages
from isospace.corpus.passages import count_words
from isospace.corpus.related import FEW_PAIRS, JUDGING, Related
from isospace.corpus.relations import FIRST_REST, RELATIONS

SAMPLE = 500
EXAMPLES = 3
_ABSENT = {
    "title-passage": "no titles",
    "heading-section": "no headings",
    FIRST_REST: "no passage of two sentences or more",
    "summary-next": "no docstrings",
    "neighbours": "no document of two passages or more",
    "crops": "no passages",
    "links": "no document names another by its path",
}
"""Relation -> what documents lack that have no such pair."""


@dataclass(frozen=True)
class RelationFound:
    """A relation of the documents.

    Attributes:
        train: pairs to train on.
        held_out: pairs of held-out documents.
        examples: three of the pairs to train on.
        why: why there are none, or too few to judge by; else "".
    """

    train: int
    held_out: int
    examples: list[tuple[str, str]]
    why: str


@dataclass(frozen=True)
class Overview:
    """What a corpus holds.

    Attributes:
        counts: what was read and what became of it.
        files: format -> how many files of it were read, the most first.
        texts: sentences or passages that are kept.
        words: quantile (0.05, 0.5, 0.95, 1) -> words of a text, of a sample.
        languages: ISO code -> share of a sample.
        relations: name -> what there is of it.
        test_pairs: the validation pairs and the test pairs, in words.
    """

    counts: dict[str, int]
    files: dict[str, int]
    texts: int
    words: dict[float, int]
    languages: dict[str, float]
    relations: dict[str, RelationFound]
    test_pairs: str


def sample(corpus: Corpus) -> list[str]:
    """Passages from end to end of a corpus, evenly."""
    passages = corpus.passages
    return [corpus[passages[place]] for place in evenly(len(passages), SAMPLE)]


def overview(corpus: Corpus, texts: Sequence[str] | None = None) -> Overview:
    """Look at a corpus.

    Args:
        corpus: as `load_corpus` reads it.
        texts: a sample of it; default: `sample`.
    """
    texts = sample(corpus) if texts is None else texts
    lengths = [count_words(text) for text in texts]
    shares = (0.05, 0.5, 0.95, 1.0)
    return Overview(
        corpus.counts,
        corpus.files,
        len(corpus.passages),
        quantiles(lengths, shares),
        languages(texts),
        _relations(corpus),
        judging(corpus),
    )


def _relations(corpus: Corpus) -> dict[str, RelationFound]:
    related = corpus.related
    if related is None:
        return {}
    held = related.counts(held=True)
    found = {}
    for name in RELATIONS:
        pairs = related.to_train(name)
        places = evenly(len(pairs), EXAMPLES)
        examples = [(corpus[a], corpus[b]) for a, b in pairs[places].tolist()]
        why = _why_missing(related, name, len(pairs), held[name])
        found[name] = RelationFound(len(pairs), held[name], examples, why)
    return found


def _why_missing(related: Related, name: str, train: int, held: int) -> str:
    """Return why documents have no pairs of a relation, or too few to judge by; else ""."""
    if not len(RELATIONS[name](related.structure)):
        return _ABSENT[name]
    if not train + held:
        return "each text is in several documents"
    if name in JUDGING and held < FEW_PAIRS:
        return f"fewer than {FEW_PAIRS} held-out pairs: too few to judge by"
    return ""


def _why_no_pairs(corpus: Corpus) -> str:
    """Of a corpus none of whose documents has a relation."""
    if not corpus.columns:
        return "no text belongs to another"
    of_rows = f"rows of `columns` {' '.join(corpus.columns)}"
    if corpus.classes and len(corpus.held_out()) >= FEWEST_PAIRS:
        return f"no label says that the texts of {of_rows} belong together"
    return (
        f"of the {of_rows}, which belong together, fewer than {FEWEST_PAIRS} can be held out with "
        "both texts: a tenth at most, and none of their texts may be in a row that trains"
    )


def judging(corpus: Corpus) -> str:
    """Describe the validation pairs and the test pairs; where they are halves, say why."""
    pairs = corpus.pairs
    if not pairs.test:
        held = {} if corpus.related is None else corpus.related.counts(held=True)
        name = max(JUDGING, key=lambda relation: held.get(relation, 0))
        why = _why_no_pairs(corpus)
        if held.get(name):
            why = f"of {name} there are {held[name]:,} held-out pairs, {FEW_PAIRS} are needed"
        return f"halves of held-out sentences: {why}"
    name = pairs.relation or "natural pairs"
    if not pairs.split:
        return f"{name}: {len(pairs.test):,} pairs, which are the validation pairs too"
    return f"{name}: {len(pairs.dev):,} validation pairs, {len(pairs.test):,} test pairs"
