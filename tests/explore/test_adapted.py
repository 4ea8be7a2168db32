"""The folder of a run of adapt in `explore`: the base and the adapted model, on the test pairs."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from searches import small_search
from toy import sentences

from isospace.adaptation.adapt import adapt
from isospace.adaptation.results import ChangedQuery
from isospace.config import CorpusConfig, TrainConfig
from isospace.encoders.loading import load_encoder
from isospace.encoders.settings import EncoderSettings
from isospace.explore.session import Adapted, ChangedQueries, open_session
from isospace.operators.nearest import TIE, unit_rows
from isospace.system.progress import Logged
from isospace.training.prepare import load_data


@pytest.fixture(scope="module")
def adapted(small_split, toy_model, tmp_path_factory):
    config = small_search(tmp_path_factory.mktemp("search"), toy_model)
    config = replace(config, query_prompt="look for: ", pooling="last2")
    return Adapted.open(str(adapt(config).run.folder))


@pytest.fixture(scope="module")
def session(adapted):
    texts = adapted.texts(Logged())
    return open_session(adapted.models(), texts, adapted.texts_name, changes=adapted.changes)


def test_base_and_adapted_model_are_opened(adapted, session, toy_model):
    assert [model.name for model in session.models] == ["bert", "run"]
    assert session.corpus == "docs.jsonl, its test pairs"
    texts, settings = sentences(5), EncoderSettings(pooling="last2", query_prompt="look for: ")
    encoders = load_encoder(str(toy_model), settings), load_encoder(str(adapted.run.folder))
    for model, encoder in zip(session.models, encoders, strict=True):
        wanted = encoder.embed(texts, side="query")
        assert np.allclose(model.encode.queries(texts), wanted, atol=1e-6)


def test_the_ranks_are_those_of_adapt(adapted, session):
    gained, lost = session.changes.gained, session.changes.lost
    assert (gained, lost) == (adapted.candidates.better, adapted.candidates.worse)
    assert len(gained) == 10
    pairs = load_data(adapted.run.config).benchmark.pairs
    for one in (*gained, *lost):
        query = session.neighbours(one.query, 1).query
        assert session.changes.find(query) == one
        other_right = {b for a, b in zip(pairs.first, pairs.second, strict=True) if a == query}
        others = [row for row, text in enumerate(session.texts) if text not in other_right]
        own = session.texts.index(one.right)
        for model, told in zip(session.models, one.ranks, strict=True):
            cosines = model.vectors @ unit_rows(model.encode.queries([query]))[0]
            ahead = cosines[others] - cosines[own]
            tied = np.abs(ahead) <= TIE
            assert 1 + (ahead[~tied] > 0).sum() + tied.sum() / 2 == told


@pytest.mark.parametrize("judge", [None, "first-rest"])
def test_passages_are_shown_where_their_parts_judged(tmp_path, toy_model, judge):
    """The rests of passages and the halves of sentences begin anywhere."""
    count = 120
    said = [f"The boat is {name}. It sails to port {name[::-1]}." for name in sentences(count)]
    for number in range(0, count, 3):
        text = "\n\n".join(said[number : number + 3])
        (tmp_path / f"{number}.md").write_text(f"# Note {number}\n\n{text}\n")
    text = CorpusConfig(corpus=(str(tmp_path),), near_duplicates=False, passage_words=None)
    config = TrainConfig(text=replace(text, test_relation=judge), model=str(toy_model))
    benchmark = load_data(config).benchmark
    scores = SimpleNamespace(pairs=SimpleNamespace(queries=len(benchmark.pairs)))
    finished = SimpleNamespace(pairs=benchmark.pairs_digest(), base=scores)
    run = SimpleNamespace(config=config, finished=finished)
    texts = Adapted("run", run, None).texts(Logged())
    assert set(texts) <= set(said)
    query, right = benchmark.pairs.first[0], benchmark.pairs.second[0]
    assert right not in texts
    changed = ChangedQuery(query, right, (2.0, 1.0), ((), ()))
    assert sum(ChangedQueries.is_right(changed, text) for text in texts) == 1


def test_after_the_text_has_changed_its_passages_are_shown(adapted, caplog):
    documents = Path(*adapted.run.config.text.corpus)
    before = documents.read_bytes()
    documents.write_bytes(b"".join(before.splitlines(keepends=True)[:-150]))
    try:
        with caplog.at_level("INFO", "isospace"):
            assert adapted.texts(Logged())
        assert "the text has changed since the test" in caplog.text
    finally:
        documents.write_bytes(before)
