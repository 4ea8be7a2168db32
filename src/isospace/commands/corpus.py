"""The command `corpus`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from isospace.commands.console import Console
from isospace.commands.options import Corpora, LoadsModels
from isospace.commands.printing import print_json, print_table
from isospace.config import CorpusConfig
from isospace.errors import TooLittle, UserError

if TYPE_CHECKING:
    from isospace.corpus.corpus import Corpus as LoadedCorpus

_EXAMPLES = 3
"""Number of examples of a relation."""
_SHOWN = 160
"""Number of printed characters of an example."""


@dataclass(frozen=True)
class Corpus(LoadsModels):
    """Options of `isospace corpus`."""

    corpus: Corpora = ()
    """The text to read: documents, tables, folders of these, URLs, - or docstrings."""
    config: CorpusConfig = field(default_factory=CorpusConfig)
    model: str = "minilm"
    """The encoder whose tokenizer is asked about the text: minilm, a model folder, the folder of a
    run, or a Hub name."""

    def run(self) -> None:
        """Read the text and print the findings."""
        from isospace.adaptation.cross_validation import Folds
        from isospace.adaptation.task import SMALLER_BATCHES
        from isospace.corpus.corpus import load_corpus
        from isospace.corpus.passages import coverage, languages
        from isospace.encoders.loading import load_encoder
        from isospace.encoders.places import resolve
        from isospace.evaluation.benchmark import Benchmark
        from isospace.recipes import DEFAULT_RECIPE, find
        from isospace.system.files import cache_folder
        from isospace.training.prepare import require_enough

        text = replace(self.config, corpus=(*self.corpus, *self.config.corpus))
        if not text.corpus:
            raise UserError("give files or a folder to look at: isospace corpus FOLDER")
        resolve(self.model)  # before the corpus is read
        with Console(self.json) as console:
            console.reading(text.corpus)
            corpus = load_corpus(text, cache_folder())
            texts = corpus.sample()
            shares, pairs, found = languages(texts), corpus.described_pairs, _relations(corpus)
            folds = None
            with suppress(TooLittle):
                folds = Folds.divide(corpus, Benchmark.make(corpus), text.test_relation)
            tokens = coverage(load_encoder(self.model), texts)
        if self.json:
            about = {
                "counts": corpus.counts,
                "files": corpus.files,
                "texts": len(corpus.passages),
                "languages": shares,
                "relations": found,
                "test_pairs": pairs,
                "model": self.model,
                "tokens": asdict(tokens),
            }
            print_json(about)
            return
        console.line("files", _files(corpus))
        console.line("corpus", corpus.summary)
        console.line("texts", f"{len(corpus.passages):,}")
        spoken = [f"{100 * share:.0f} % {name}" for name, share in shares.items()]
        console.line("language", f"{', '.join(spoken)} (of a sample of {len(texts)})")
        many = f"{tokens.per_word:.1f} a word, {100 * tokens.unknown:.1f} % unknown"
        console.line("tokens", f"{many}; of a text: {_quantiles(tokens.lengths)} ({self.model})")
        if tokens.warning:
            console.line("warning", tokens.warning)
        console.line("test pairs", pairs)
        if folds is not None:
            console.line("adapt", f"has more test pairs. {folds.described}")
        config = replace(find(DEFAULT_RECIPE).config, text=text)
        smallest = replace(config, batch_size=SMALLER_BATCHES[-1])
        for settings, who in ((smallest, "train and adapt have"), (config, "train has")):
            try:
                require_enough(settings, corpus)
            except TooLittle as error:
                console.line("warning", f"{who} too little here: {error}")
                break
        rows = [
            {"relation": name, "train": f"{one['train']:,}", "held out": f"{one['held_out']:,}"}
            for name, one in found.items()
        ]
        if rows:
            print_table("relations of the documents", rows)
        for name, one in found.items():
            if one["examples"]:
                print_table(name, [_example(name, *pair) for pair in one["examples"]])


def _relations(corpus: LoadedCorpus) -> dict[str, dict[str, Any]]:
    """Return relation -> counts of its pairs, and examples to train on; empty without documents."""
    from isospace.corpus.groups import evenly
    from isospace.corpus.relations import RELATIONS

    found = {}
    if (related := corpus.related) is not None:
        for name in RELATIONS:
            pairs = related.to_train(name)
            examples = pairs[evenly(len(pairs), _EXAMPLES)].tolist()
            found[name] = {
                "train": len(pairs),
                "held_out": len(related.held_out(name)),
                # A crop is drawn in training, from a text that is paired with itself here.
                "examples": [(corpus[a], corpus[b]) for a, b in examples if a != b],
            }
    return found


def _files(found: LoadedCorpus) -> str:
    """Return counts of files as text, such as "9 html, 9 markdown; 1 not read"."""
    files = [f"{count:,} {format}" for format, count in found.files.items()]
    unread = found.counts.get("unreadable files", 0)
    return (", ".join(files) or "none") + (f"; {unread:,} not read" if unread else "")


def _quantiles(found: dict[float, int]) -> str:
    """Return quantiles as text, such as "half up to 12, 95 % up to 40, all up to 80"."""
    words = {0.5: "half", 1.0: "all"}
    return ", ".join(
        f"{words.get(share, f'{100 * share:.0f} %')} up to {size:,}"
        for share, size in found.items()
    )


def _example(relation: str, first: str, second: str) -> dict[str, str]:
    """Return a pair as a row; its columns are named after the two parts of the relation, if any."""
    one, _, other = relation.partition("-")
    return {one if other else "a text": _short(first), other or "another": _short(second)}


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
