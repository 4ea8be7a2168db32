"""Our encoders in mteb: its scores are ours, and its cache tells models apart."""

import numpy as np
import pytest
from prompted import GEMMA, write_prompted
from toy import sentences

from isospace.encoders.loading import load_encoder
from isospace.evaluation.mteb import mteb_model
from isospace.evaluation.pairs import ScoredPairs
from isospace.evaluation.senteval import STSSet
from isospace.evaluation.sts import evaluate_sts

quiet = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def scored(name, seed, count=12):
    texts = sentences(2 * count, seed)
    gold = np.random.default_rng(seed).integers(0, 6, count) + 0.0
    return ScoredPairs(name, tuple(texts[::2]), tuple(texts[1::2]), gold, "made")


def mteb_spearman(model, task, sts_set):
    """The main score of mteb's own task class on local pairs, without network and cache."""
    import datasets
    import mteb

    rows = {"sentence1": [], "sentence2": [], "score": []}
    for pairs in sts_set.subsets.values():
        rows["sentence1"] += pairs.first
        rows["sentence2"] += pairs.second
        rows["score"] += pairs.gold.tolist()
    task = mteb.get_task(task)
    split = datasets.Dataset.from_dict(rows)
    task.dataset = {"default": datasets.DatasetDict({"test": split})}
    task.data_loaded = True
    scores = task.evaluate(model, "test", encode_kwargs={"batch_size": 1024})["default"]
    return scores["main_score"]


@quiet
def test_mteb_scores_as_we_do(toy_model):
    pytest.importorskip("mteb", reason="needs isospace[mteb]")
    tasks = {"STS13": STSSet("STS13", {"FNWN": scored("a", 1), "OnWN": scored("b", 2)})}
    model = mteb_model(str(toy_model))
    theirs = mteb_spearman(model, "STS13", tasks["STS13"])
    ours = evaluate_sts(load_encoder(str(toy_model)).embed, tasks)
    assert theirs == pytest.approx(ours.score("STS13", "all").value, abs=1e-4)
    assert model.mteb_model_meta.name == "isospace/bert"


@quiet
def test_a_retrieval_task_has_the_prompts_of_its_sides(tmp_path, monkeypatch):
    mteb = pytest.importorskip("mteb", reason="needs isospace[mteb]")
    datasets = pytest.importorskip("datasets")
    texts = sentences(15)
    queries, titles, documents = texts[:5], texts[5:10], texts[10:]
    ids = [f"{number}" for number in range(5)]
    task = mteb.get_task("SciFact")
    split = {
        "queries": datasets.Dataset.from_dict({"id": ids, "text": queries}),
        "corpus": datasets.Dataset.from_dict({"id": ids, "title": titles, "text": documents}),
        "relevant_docs": {one: {one: 1} for one in ids},
        "top_ranked": None,
    }
    task.dataset, task.data_loaded = {"default": {"test": split}}, True
    # Names that mteb reads as a task's, and as a kind of tasks', are not the sides'.
    prompted = write_prompted(tmp_path, GEMMA | {"SciFact": "claim: ", "Retrieval": "ask: "})
    model = mteb_model(str(prompted.folder))
    vectors, encode = {}, model.encode

    def watched(inputs, *, prompt_type=None, **options):
        vectors[prompt_type.value] = encode(inputs, prompt_type=prompt_type, **options)
        return vectors[prompt_type.value]

    monkeypatch.setattr(model, "encode", watched)
    task.evaluate(model, "test", encode_kwargs={"batch_size": 8})
    whole = [f"{title} {text}" for title, text in zip(titles, documents, strict=True)]
    assert np.allclose(vectors["query"], prompted.queries(queries), atol=1e-6)
    assert np.allclose(vectors["document"], prompted.documents(whole), atol=1e-6)
