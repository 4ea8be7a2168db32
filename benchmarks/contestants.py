"""The work that is timed: training, encoding and evaluating, with isospace and with its peers.

Every function prepares in its process and returns one round (see `contest.py`).
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

BATCH, LENGTH = 64, 32
PROBES = 256


def lines(corpus: Path, count: int) -> list[str]:
    """The first lines of a text file."""
    opener = gzip.open if corpus.suffix == ".gz" else open
    with opener(corpus, "rt", encoding="utf-8") as file:
        return [line.strip() for line, _ in zip(file, range(count), strict=False)]


def random_bert_base(folder: Path) -> Path:
    """BERT-base with random weights and minilm's tokenizer."""
    from transformers import BertConfig, BertModel

    from isospace.loading import load_encoder

    torch.manual_seed(0)
    BertModel(BertConfig()).save_pretrained(folder)
    load_encoder("minilm").tokenizer.save_pretrained(folder)
    return folder


def product_rate() -> float:
    """Floating-point operations a second of one large bf16 matrix product, the machine's best."""
    on_gpu = torch.cuda.is_available()
    size = 8192 if on_gpu else 2048
    a = torch.randn(size, size, dtype=torch.bfloat16, device="cuda" if on_gpu else "cpu")
    best = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        a @ a
        if on_gpu:
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


def training(model: str, objective: str, fields: dict[str, Any], corpus: Path, steps: int) -> Any:
    """Isospace's own loop, as `isospace train` runs it between two looks."""
    from isospace.config import CorpusConfig, TrainConfig
    from isospace.corpus import load_corpus
    from isospace.files import cache_folder
    from isospace.loading import load_encoder
    from isospace.loop import Loop
    from isospace.objectives import OBJECTIVES
    from isospace.prepare import make_accelerator
    from isospace.tokens import tokenise

    text = CorpusConfig(corpus=(str(corpus),))
    config = TrainConfig(text=text, objective=OBJECTIVES[objective](**fields), precision="bf16")
    accelerator = make_accelerator(config)
    sentences = load_corpus(text, cache_folder())
    encoder = load_encoder(model, "mean")
    tokens = tokenise(
        sentences,
        sentences.digest,
        lambda texts: encoder.token_ids(texts, LENGTH),
        encoder.fingerprint(LENGTH),
        cache_folder(),
    )
    loop = Loop(config, encoder, tokens, sentences.train_rows, accelerator)
    loop.total_steps = 10**6
    updates = iter(loop)

    def one_round() -> float:
        return sum(next(updates).seconds for _ in range(steps))

    layers = [m for m in encoder.modules() if isinstance(m, torch.nn.Linear)]
    weights = sum(m.weight.numel() for m in layers if m.weight.shape != (encoder.dim, encoder.dim))
    square = sum(m.weight.numel() for m in layers if m.weight.shape == (encoder.dim, encoder.dim))
    in_layers = weights + square - encoder.dim**2  # the pooler is not run
    per_sentence = float(tokens.lengths[sentences.train_rows].mean())
    views = len(config.objective.views)
    flop = 6 * in_layers * per_sentence * BATCH * views
    return one_round, {
        "flop": flop,
        "rate": product_rate(),
        "own": _own_seconds(config.objective, loop.head, encoder.dim),
    }


def _own_seconds(objective: Any, head: torch.nn.Module, dim: int) -> float:
    """Of head and objective, forward and backward, on vectors of a batch; median of seven."""
    from isospace.objectives.base import Views

    encoded = torch.randn(len(objective.views), BATCH, dim, requires_grad=True)
    if torch.cuda.is_available():
        encoded = encoded.detach().cuda().requires_grad_()
    seconds = []
    for _ in range(8):
        started = time.perf_counter()
        terms = objective(Views(encoded, head(encoded)))
        torch.stack(list(terms.values())).sum().backward()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    head.zero_grad()
    return float(np.median(seconds[1:]))


def peer_training(model: str, corpus: Path, steps: int) -> Callable[[], float]:
    """sentence-transformers' trainer with its SimCSE recipe: every sentence paired with itself."""
    import tempfile

    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.losses import MultipleNegativesRankingLoss
    from transformers import TrainerCallback

    from isospace.loading import load_encoder

    network: SentenceTransformer = load_encoder(model, "mean").model
    network.max_seq_length = LENGTH
    sentences = [line for line in lines(corpus, 50_000) if len(line) >= 10]
    data = Dataset.from_dict({"anchor": sentences, "positive": sentences})

    class Watch(TrainerCallback):
        def __init__(self) -> None:
            self.ends: list[float] = []

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.ends.append(time.perf_counter())

    def one_round() -> float:
        watch = Watch()
        with tempfile.TemporaryDirectory() as folder:
            arguments = SentenceTransformerTrainingArguments(
                folder,
                max_steps=steps + 1,
                per_device_train_batch_size=BATCH,
                bf16=True,
                use_cpu=not torch.cuda.is_available(),
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                logging_strategy="no",
            )
            trainer = SentenceTransformerTrainer(
                network, arguments, data, loss=MultipleNegativesRankingLoss(network),
                callbacks=[watch],
            )  # fmt: skip
            trainer.train()
        return watch.ends[-1] - watch.ends[0]

    return one_round


def encoding(precision: str, corpus: Path, sentences: int) -> Any:
    """Isospace's encoder."""
    from isospace.loading import load_encoder

    encoder = load_encoder("minilm")
    return _encoding(lambda texts: encoder.embed(texts, precision=precision), corpus, sentences)


def peer_encoding(dtype: str, corpus: Path, sentences: int) -> Any:
    """sentence-transformers' encode on its torch backend, with weights of a type."""
    import tempfile

    from sentence_transformers import SentenceTransformer

    from isospace.loading import load_encoder

    with tempfile.TemporaryDirectory() as folder:
        load_encoder("minilm").model.save_pretrained(folder)
        network = SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": dtype})
    return _encoding(network.encode, corpus, sentences)


def graph_encoding(runtime: str, corpus: Path, sentences: int) -> Any:
    """What sentence-transformers' ONNX and OpenVINO backends do, on today's versions.

    Those backends need optimum, which has no release for the transformers that
    sentence-transformers 6 asks for; so the graph is exported here, and fed as they feed it:
    sorted by characters, 32 sentences at a time.
    """
    import tempfile

    from isospace.loading import load_encoder

    network: Any = load_encoder("minilm").model.eval()
    folder = Path(tempfile.mkdtemp())
    graph = folder / "model.onnx"
    _export(network[0].model, graph)
    if runtime == "ONNX Runtime int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(graph, folder / "int8.onnx", weight_type=QuantType.QInt8)
        graph = folder / "int8.onnx"
    run = _onnx_session(graph) if runtime.startswith("ONNX") else _openvino(graph, runtime)

    def encode(texts: list[str]) -> np.ndarray:
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        vectors = np.empty((len(texts), 384), dtype=np.float32)
        for start in range(0, len(order), 32):
            rows = order[start : start + 32]
            features = network.preprocess([texts[i] for i in rows])
            ids, mask = features["input_ids"].numpy(), features["attention_mask"].numpy()
            states = run(ids, mask)
            pooled = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            vectors[rows] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return vectors

    return _encoding(encode, corpus, sentences)


def _export(network: Any, path: Path) -> None:
    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            states: torch.Tensor = self.network(
                input_ids=ids, attention_mask=mask
            ).last_hidden_state
            return states

    ids = torch.ones(3, 7, dtype=torch.int64)
    batch, length = torch.export.Dim("batch", min=2), torch.export.Dim("length", min=4, max=512)
    shape = {0: batch, 1: length}
    torch.onnx.export(
        States().eval(), (ids, ids.clone()), path,
        input_names=["ids", "mask"], output_names=["states"],
        dynamic_shapes=(shape, shape), dynamo=True, external_data=False,
    )  # fmt: skip


def _onnx_session(graph: Path) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    return lambda ids, mask: session.run(None, {"ids": ids, "mask": mask})[0]


def _openvino(graph: Path, runtime: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    import openvino

    precision = "bf16" if runtime.endswith("bf16") else "f32"
    core = openvino.Core()
    model = core.compile_model(
        core.read_model(graph), "CPU", {"INFERENCE_PRECISION_HINT": precision}
    )
    return lambda ids, mask: model({"ids": ids, "mask": mask})[0]


def _encoding(encode: Callable[[list[str]], Any], corpus: Path, sentences: int) -> Any:
    texts = lines(corpus, 10 * sentences)
    place = [0]

    def one_round() -> None:
        start = place[0] * sentences % len(texts)
        place[0] += 1
        encode(texts[start : start + sentences])

    return one_round, {"vectors": np.asarray(encode(texts[:PROBES]), dtype=np.float32)}


def lowest_cosine(notes: dict[str, Any], exact: Any) -> float:
    """Of the probes, between a contestant's vectors and the reference's."""
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (notes["vectors"], exact))
    return float((a * b).sum(1).min())


def evaluation(sts: Path, precision: Any) -> Callable[[], None]:
    """What `isospace evaluate` does: read, encode every distinct sentence once, score."""
    from isospace.evaluation.sts import evaluate_sts, load_sts
    from isospace.loading import load_encoder

    encoder = load_encoder("minilm")

    def encode(texts: Sequence[str]) -> np.ndarray:
        return encoder.embed(texts, precision=precision)

    def one_round() -> None:
        evaluate_sts(encode, {n: t.test_only() for n, t in load_sts(sts).items()})

    return one_round


def senteval_loop(sts: Path) -> Callable[[], None]:
    """What SentEval does: set by set, sorted by words, batches of 128, one cosine at a time."""
    from scipy.stats import spearmanr

    from isospace.evaluation.sts import load_sts
    from isospace.loading import load_encoder

    network = load_encoder("minilm").model.eval()

    def vectors(texts: Sequence[str]) -> np.ndarray:
        with torch.no_grad():
            return network(network.preprocess(list(texts)))["sentence_embedding"].numpy()

    def one_round() -> None:
        for task in load_sts(sts).values():
            for pairs in task.test_only().subsets.values():
                rows = sorted(
                    zip(pairs.first, pairs.second, pairs.gold, strict=True),
                    key=lambda row: (len(row[0].split()), len(row[1].split()), row[0]),
                )
                scores = []
                for start in range(0, len(rows), 128):
                    batch = rows[start : start + 128]
                    first, second = (vectors([row[i] for row in batch]) for i in (0, 1))
                    for a, b in zip(first, second, strict=True):
                        scores.append(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
                spearmanr(scores, [row[2] for row in rows])

    return one_round


def mteb_tasks(sts: Path) -> Callable[[], None]:
    """Mteb on the same pairs, given to its task objects in place of its downloads."""
    import mteb
    from datasets import Dataset, DatasetDict

    from isospace.evaluation.sts import load_sts
    from isospace.loading import load_encoder

    names = {"STSBenchmark": "STSBenchmark", "SICKRelatedness": "SICK-R"}
    network = load_encoder("minilm").model

    def one_round() -> None:
        for name, found in load_sts(sts).items():
            parts = found.test_only().subsets.values()
            rows = [row for p in parts for row in zip(p.first, p.second, p.gold, strict=True)]
            first, second, gold = zip(*rows, strict=True)
            test = {"sentence1": first, "sentence2": second, "score": [float(g) for g in gold]}
            task = mteb.get_task(names.get(name, name))
            task.dataset = {"default": DatasetDict({"test": Dataset.from_dict(test)})}
            task.data_loaded = True
            mteb.evaluate(network, task, cache=None, show_progress_bar=False)

    return one_round


def dev_scores(corpus: Path, sts: Path, folder: Path, packed: bool, seeds: int) -> list[float]:
    """Spearman x 100 on STS-B dev after 3,200 sentences of simcse from minilm, one per seed."""
    import csv

    from isospace.config import CorpusConfig, TrainConfig
    from isospace.encoder import Encoder
    from isospace.evaluation.sts import load_sts
    from isospace.objectives import SimCSE
    from isospace.train import train

    dev = load_sts(sts, ["STSBenchmark"])["STSBenchmark"].subsets["dev"]
    labels = folder / "dev.csv"
    with labels.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(zip(dev.first, dev.second, dev.gold, strict=True))
    own = Encoder._packs
    if not packed:
        Encoder._packs = lambda self, batch: False  # type: ignore[method-assign]
    scores = []
    for seed in range(seeds):
        config = TrainConfig(
            text=CorpusConfig(corpus=(str(corpus),), held_out=200),
            objective=SimCSE(),
            model="minilm",
            pooling="cls",
            learning_rate=3e-5,
            budget=(3_200, "sentences"),
            looks=1,
            select="labels",
            labels=str(labels),
            seed=seed,
            output=folder / f"{packed}-{seed}",
        )
        looks = train(config, quiet=True).results["looks"]
        scores.append(100 * looks[-1]["labels_spearman"])
    Encoder._packs = own  # type: ignore[method-assign]
    return scores
