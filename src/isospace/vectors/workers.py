"""Writing shards in this process, or in several.

The processes are new interpreters that load the model themselves: a fork of a process with threads
can hang. Each takes its part of the threads (and, where there are several GPUs, one of them). They
are a pool and not jobs of `system.jobs`, because each loads the model once and is then handed shard
after shard, texts and all. With the engine ray they are on the machines of a cluster.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.utils.logging import disable_progress_bar

from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.errors import UserError
from isospace.system.cluster import map_on_cluster, require_seen
from isospace.system.files import file_hash, remove_torn
from isospace.system.jobs import threads_of_each
from isospace.system.signals import end_with_parent
from isospace.system.trust import trusting_code, trusts_code
from isospace.vectors.encode_config import EncodeConfig
from isospace.vectors.shards import MANIFEST
from isospace.vectors.vector_files import Layout

_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class ShardTexts:
    """A shard to write; the keys are what Parquet holds beside the vectors."""

    index: int
    path: Path
    texts: list[str]
    keys: list[str]


@dataclass(frozen=True)
class Task:
    """How shards are written; the same for all."""

    config: EncodeConfig
    layout: Layout

    def write(
        self, encoder: Encoder, shard: ShardTexts, on_batch: Callable[[int], None]
    ) -> tuple[int, str]:
        """Encode and write one shard; returns its index and its file's hash.

        Rows are sorted by length and batched within a window. A shard is whole windows, so that the
        size of the shards decides neither on the batches nor on any bit of a vector.
        """
        windows = [
            encoder.embed(
                shard.texts[start : start + self.config.WINDOW],
                max_length=self.config.max_length,
                on_batch=on_batch,
                precision=self.config.precision,
                one_thread=True,
                side=self.config.side,
            )
            for start in range(0, len(shard.texts), self.config.WINDOW)
        ]
        self.layout.write(shard.path, shard.keys, np.concatenate(windows))
        return shard.index, file_hash(shard.path)


def load_model(config: EncodeConfig) -> Encoder:
    """The model, with its prompts.

    Raises:
        UserError: it cannot be loaded.
    """
    return load_encoder(
        config.model,
        config.pooling,
        query_prompt=config.query_prompt,
        document_prompt=config.document_prompt,
    )


def write_shards(
    task: Task, encoder: Encoder, shards: Iterator[ShardTexts], tick: Callable[[int], None]
) -> Iterator[tuple[int, str]]:
    """Write shards; gives index and hash of each when it is there.

    Args:
        task: how, and by how many workers; 1 is this process, where the engine is local.
        encoder: the task's model, for a single worker.
        shards: read as workers come free, one ahead.
        tick: called with numbers of rows that were encoded.

    Raises:
        UserError: a worker died, or has another model or sees another disk.
        Stopped: workers of a cluster died again and again over one shard.
    """
    workers = task.config.workers
    if task.config.engine == "ray":
        for path, rows, written in map_on_cluster(partial(_writer, task), shards, workers):
            require_seen(path)
            tick(rows)
            yield written
        remove_torn(task.config.shard_folder)  # of workers that died
        return
    if workers == 1:
        for shard in shards:
            yield task.write(encoder, shard, tick)
        return
    context = multiprocessing.get_context("spawn")
    state = _Shared(context.Value("q", 0), context.Value("q", 0), context.Event())
    initial = (task, threads_of_each(workers), state, trusts_code())
    executor = ProcessPoolExecutor(workers, context, _begin, initial)
    running: set[Future[tuple[int, str]]] = set()
    try:
        while True:
            for shard in islice(shards, workers + 1 - len(running)):
                running.add(executor.submit(_work, shard))
            if not running:
                return
            finished, running = wait(running, _POLL_SECONDS, FIRST_COMPLETED)
            tick(state.take_rows())
            for future in finished:
                yield future.result()
    except BrokenProcessPool as error:
        raise UserError(
            f"`workers` {workers}: a worker was killed or could not start, perhaps for want of "
            "memory. Finished shards are kept; the same command with fewer workers goes on"
        ) from error
    finally:
        state.stop.set()
        executor.shutdown(cancel_futures=True)


def _writer(task: Task) -> Callable[[ShardTexts], tuple[Path, int, tuple[int, str]]]:
    """What a worker on a cluster does with a shard; gives path, rows, and what `Task.write` gives.

    Raises:
        UserError: the worker does not see the output, or has another model.
    """
    require_seen(task.config.shard_folder / MANIFEST)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    encoder = load_model(task.config)
    if weights_hash(encoder, task.config.side) != task.layout.about["model"]:
        raise UserError(
            f"{task.config.model}: the machine {socket.gethostname()} has another model by this "
            "name; give a folder that the machines share"
        )

    def write(shard: ShardTexts) -> tuple[Path, int, tuple[int, str]]:
        return shard.path, len(shard.texts), task.write(encoder, shard, lambda rows: None)

    return write


@dataclass(frozen=True)
class _Shared:
    """What the processes share: workers begun, rows encoded since the last look, a wish to stop."""

    begun: Any
    rows: Any
    stop: Any

    def take_number(self) -> int:
        with self.begun.get_lock():
            self.begun.value += 1
            return int(self.begun.value) - 1

    def take_rows(self) -> int:
        with self.rows.get_lock():
            rows, self.rows.value = int(self.rows.value), 0
        return rows

    def on_batch(self, rows: int) -> None:
        if self.stop.is_set():
            raise InterruptedError
        with self.rows.get_lock():
            self.rows.value += rows


_worker: tuple[Task, Encoder, _Shared]
"""Of this process, where it is a worker."""


def _begin(task: Task, threads: int, shared: _Shared, trusted: bool) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which says stop
    end_with_parent()
    os.environ["RAYON_NUM_THREADS"] = str(threads)  # the tokenizer's
    torch.set_num_threads(threads)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    # What is assumed of the model, the first process has said.
    logging.getLogger("isospace.encoders.loading").setLevel(logging.ERROR)
    with trusting_code(trusted):
        encoder = load_model(task.config)
    if torch.cuda.is_available():
        encoder.to(f"cuda:{shared.take_number() % torch.cuda.device_count()}")
    _worker = (task, encoder, shared)


def _work(shard: ShardTexts) -> tuple[int, str]:
    task, encoder, shared = _worker
    return task.write(encoder, shard, shared.on_batch)
