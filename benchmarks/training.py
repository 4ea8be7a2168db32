"""Training, timed: isospace's loop and sentence-transformers' trainer.

Every function prepares in its process and returns one round (see `contest.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedConfig

from common import BATCH, LENGTH, lines
from isospace.config import CorpusConfig, PrecisionChoice, TrainConfig
from isospace.encoders.settings import EncoderSettings
from isospace.training.loop import Loop


def random_model(config: PreTrainedConfig, folder: Path) -> Path:
    """A model of this configuration with random weights and minilm's tokenizer."""
    from transformers import AutoModel

    from isospace.encoders.loading import load_encoder

    torch.manual_seed(0)
    AutoModel.from_config(config).save_pretrained(folder)
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


def gpu_busy(work: Callable[[], Any]) -> float:
    """Share of a round in which kernels run; the rest is launches and Python between them."""
    from torch.profiler import ProfilerActivity, profile

    seconds = _seconds(work)
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        work()
        torch.cuda.synchronize()
    kernels = sum(event.self_device_time_total for event in found.key_averages()) / 1e6
    return float(kernels / seconds)


def own_loop(
    model: str,
    objective: str,
    fields: dict[str, Any],
    corpus: Path,
    precision: PrecisionChoice,
) -> Loop:
    """Isospace's own loop, as `isospace train` runs it between two evaluations."""
    from isospace.corpus.corpus import load_corpus
    from isospace.corpus.lines import tokenise
    from isospace.encoders.loading import load_encoder
    from isospace.objectives import OBJECTIVES
    from isospace.system.files import cache_folder
    from isospace.training.build import build_training
    from isospace.training.examples import Examples
    from isospace.training.prepare import make_accelerator

    text = CorpusConfig(corpus=(str(corpus),))
    config = TrainConfig(text=text, objective=OBJECTIVES[objective](**fields), precision=precision)
    accelerator = make_accelerator(config)
    sentences = load_corpus(text, cache_folder())
    encoder = load_encoder(model, EncoderSettings(pooling="mean"))
    tokens = tokenise(
        sentences,
        sentences.digest,
        lambda texts: encoder.tokens.ids(texts, LENGTH),
        encoder.tokens.fingerprint(LENGTH),
        cache_folder(),
    )
    examples = Examples.from_lines(sentences.train_rows)
    return Loop(build_training(config, encoder, [tokens], examples, accelerator), 10**6)


def updates(loop: Loop, steps: int) -> Callable[[], float]:
    """A round of so many updates."""
    iterator = iter(loop)
    return lambda: sum(next(iterator).seconds for _ in range(steps))


def ours(
    model: str,
    objective: str,
    fields: dict[str, Any],
    corpus: Path,
    steps: int,
    precision: PrecisionChoice = "bf16",
) -> Any:
    """The loop, with notes on where its time goes."""
    loop = own_loop(model, objective, fields, corpus, precision)
    one_round, encoder, config = updates(loop, steps), loop.training.encoder, loop.training.config
    layers = [m for m in encoder.modules() if isinstance(m, torch.nn.Linear)]
    weights = sum(m.weight.numel() for m in layers if m.weight.shape != (encoder.dim, encoder.dim))
    square = sum(m.weight.numel() for m in layers if m.weight.shape == (encoder.dim, encoder.dim))
    in_layers = weights + square - encoder.dim**2  # the pooler is not run
    per_sentence = loop.tokens_per_step / BATCH
    views = len(config.objective.views)
    flop = 6 * in_layers * per_sentence * BATCH * views
    return one_round, {
        "flop": flop,
        "rate": product_rate(),
        **({"busy": gpu_busy(one_round)} if torch.cuda.is_available() else {}),
        **_parts(config.objective, loop.training.head, encoder.dim),
    }


def _seconds(work: Callable[[], None]) -> float:
    """Median of seven, after one that does not count."""
    seconds = []
    for _ in range(8):
        started = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds[1:]))


def _parts(objective: Any, head: torch.nn.Module, dim: int) -> dict[str, float]:
    """Seconds of head and of objective, each forward and backward, on vectors of a batch."""
    from isospace.views import Views

    device = "cuda" if torch.cuda.is_available() else "cpu"
    encoded = torch.randn(len(objective.views), BATCH, dim, device=device, requires_grad=True)
    projected = head(encoded).detach().requires_grad_()

    def in_head() -> None:
        head(encoded).backward(projected.detach())

    def in_objective() -> None:
        torch.stack(list(objective(Views(encoded, projected)).values())).sum().backward()

    seconds = {"head": _seconds(in_head), "objective": _seconds(in_objective)}
    head.zero_grad()
    return seconds


def peer(model: str, corpus: Path, steps: int, bf16: bool = True) -> Callable[[], float]:
    """sentence-transformers' trainer with its SimCSE recipe."""
    from isospace.encoders.loading import load_encoder

    network = load_encoder(model, EncoderSettings(pooling="mean")).model
    columns = with_itself([line for line in lines(corpus, 50_000) if len(line) >= 10])
    return lambda: between_steps(
        lambda watch: peer_train(
            network, columns, bf16=bf16, callbacks=[watch], max_steps=steps + 1
        )
    )


def between_steps(train: Callable[[Any], None]) -> float:
    """Seconds from the first step to the last of a trainer that is given a callback."""
    from transformers import TrainerCallback

    class Watch(TrainerCallback):
        def __init__(self) -> None:
            self.ends: list[float] = []

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.ends.append(time.perf_counter())

    watch = Watch()
    train(watch)
    return watch.ends[-1] - watch.ends[0]


def peer_train(
    network: Any,
    columns: Mapping[str, Sequence[str]],
    loss: Any = None,
    batch: int = BATCH,
    length: int = LENGTH,
    bf16: bool = True,
    callbacks: Sequence[Any] = (),
    **arguments: Any,
) -> None:
    """Train a `SentenceTransformer` by sentence-transformers' trainer.

    Args:
        network: the `SentenceTransformer`.
        columns: texts of the examples, by the name of their column.
        loss: of that network; default: its loss of pairs.
        batch: examples of a batch.
        length: tokens at most that are read of a text.
        bf16: the arithmetic of matrix products; else float32.
        callbacks: of the trainer.
        arguments: of the trainer, beside those for all.
    """
    import tempfile

    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    network.max_seq_length = length
    with tempfile.TemporaryDirectory() as folder:
        settings = SentenceTransformerTrainingArguments(
            folder,
            per_device_train_batch_size=batch,
            bf16=bf16,
            use_cpu=not torch.cuda.is_available(),
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
            **arguments,
        )
        SentenceTransformerTrainer(
            network,
            settings,
            Dataset.from_dict(dict(columns)),
            loss=loss or MultipleNegativesRankingLoss(network),
            callbacks=list(callbacks),
        ).train()


def with_itself(sentences: Sequence[str]) -> dict[str, Sequence[str]]:
    """Columns of sentence-transformers' SimCSE recipe: every sentence paired with itself."""
    return {"anchor": sentences, "positive": sentences}
