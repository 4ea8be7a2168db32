"""Generated queries train and never measure: no command selects or tests with a marked row."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from searches import small_search
from toy import write_documents as write_folder, write_rows

from isospace.adaptation.task import load_task
from isospace.config import CorpusConfig
from isospace.corpus.corpus import load_corpus
from isospace.errors import UserError
from isospace.evaluation.own_data import load_own, load_pairs
from isospace.system.files import cache_folder
from isospace.system.progress import Silent
from isospace.training.examples import Examples, rows_of_queries


def generated(query, passage):
    return {"query": query, "passage": passage, "type": "keywords-short", "generated_by": "toy"}


def test_the_script_of_the_guide_writes_a_file_to_train_on(tmp_path, monkeypatch):
    """A stub in place of the server."""
    openai = pytest.importorskip("openai")
    write_folder(tmp_path / "manuals", 60)
    message = SimpleNamespace(content="<think>hm</think> a query\n")
    answer = SimpleNamespace(choices=[SimpleNamespace(message=message)])
    completions = SimpleNamespace(create=lambda model, messages: answer)
    client = SimpleNamespace(chat=SimpleNamespace(completions=completions))
    monkeypatch.setattr(openai, "OpenAI", lambda base_url, api_key: client)
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "guides" / "generated-queries.md"
    [script] = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    exec(script, {})
    corpus = load_corpus(CorpusConfig(corpus="manuals"), cache_folder())
    trained = [corpus[line] for line in corpus.train_rows if line in corpus.passages]
    rows = rows_of_queries(tmp_path / "queries.jsonl")
    assert rows == [("a query", passage) for passage in trained]
    assert 100 < len(rows) < len(corpus.passages)


OWN = [{"query": f"own query {word}", "passage": f"own passage {word}"} for word in ("one", "two")]
MADE = [generated(f"made query {word}", f"made passage {word}") for word in ("one", "two", "three")]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv", "parquet"])
def test_files_of_pairs_leave_them_out(tmp_path, ending, caplog):
    own = load_pairs(write_rows(tmp_path / f"own.{ending}", OWN))
    mixed = write_rows(tmp_path / f"mixed.{ending}", [OWN[0], *MADE, OWN[1]])
    assert list(load_pairs(mixed)) == list(own)
    assert "3 generated queries" in caplog.text
    assert list(load_own(mixed).content) == list(own)
    made = write_rows(tmp_path / f"made.{ending}", MADE)
    for load in (load_pairs, load_own):
        with pytest.raises(UserError, match="`queries`"):
            load(made)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("columns", [{"columns": ("query", "passage")}, {"column": "passage"}])
def test_a_corpus_leaves_them_out(tmp_path, ending, columns):
    rows = [{"query": f"query of {x * 5}", "passage": f"passage of {x * 7}"} for x in "abcdefgh"]
    places = [CorpusConfig(corpus=(str(tmp_path / f"{x}.{ending}"),), **columns) for x in "ab"]
    write_rows(tmp_path / f"a.{ending}", rows)
    write_rows(tmp_path / f"b.{ending}", [*rows[:4], *MADE, *rows[4:]])
    own, mixed = (load_corpus(one, cache_folder()) for one in places)
    assert list(mixed) == list(own)
    assert mixed.counts == own.counts | {"generated rows left out": 3}


def measured(task):
    """Every text that selects or tests in a search."""
    sets = [task.data.benchmark.pairs, task.validation, task.data.held_out.pairs]
    sets += task.data.other_text.test_pairs.values()
    sets += task.data.other_text.validation_pairs.values()
    if task.folds is not None:
        for part in range(len(task.folds.of_part)):
            data = task.folds.data(task.data, part)
            sets += [data.held_out.pairs, data.benchmark.pairs, task.folds.of_part[part]]
    texts = {text for pairs in sets for side in (pairs.first, pairs.second) for text in side}
    for pairs in sets:
        texts.update(pairs.among.texts if pairs.among else ())
        texts.update(pairs.among.right if pairs.among else ())
    return texts.union(task.data.held_out.sentences)


@pytest.mark.parametrize("small", [False, True])
def test_adapt_trains_on_them_alone(small_split, toy_model, tmp_path, small):
    """Of queries for all passages, held-out ones too, none measures; those of the others train."""
    if small:
        text = CorpusConfig(corpus=(str(write_folder(tmp_path / "docs", 60)),))
    else:
        text = small_search(tmp_path, toy_model).text
    config = replace(small_search(tmp_path, toy_model), text=text)
    corpus = load_corpus(text, cache_folder())
    rows = [generated(f"{corpus[x]} kindly {x}", corpus[x]) for x in corpus.passages.tolist()]
    file = write_rows(tmp_path / "made.jsonl", rows)
    without = load_task(config, Silent())
    task = load_task(replace(config, queries=file), Silent())
    assert (task.folds is not None) == small
    queries = {row["query"] for row in rows}
    assert measured(task) == measured(without)
    assert measured(task).isdisjoint(queries)
    for corpus in task.folds.corpora if small else [task.data.corpus]:
        held = set(corpus.held_out())
        examples = Examples.from_corpus(task.training, corpus)
        trained = [[examples.texts[line] for line in pair] for pair in examples.pairs.tolist()]
        used = [passage for query, passage in trained if query in queries]
        assert held
        assert held.isdisjoint(used)
        assert len(used) > 0.5 * len(rows)
    # As pairs of the user's own they are refused, and left out beside real ones.
    with pytest.raises(UserError, match="`queries`"):
        load_task(replace(config, pairs=file), Silent())
    mixed = write_rows(tmp_path / "mixed.jsonl", [*rows, *OWN])
    task = load_task(replace(config, pairs=mixed), Silent())
    assert list(task.data.benchmark.pairs) == [tuple(row.values()) for row in OWN]
