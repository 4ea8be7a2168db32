"""Encoding, timed: isospace, and sentence-transformers on its torch, ONNX and OpenVINO backends.

Every function prepares in its process and returns one round (see `contest.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import lines

PROBES = 256


def ours(precision: str, corpus: Path, sentences: int, model: str = "minilm") -> Any:
    """Isospace's encoder."""
    from isospace.encoders.loading import load_encoder

    encoder = load_encoder(model, device="cpu")
    return _encoding(lambda texts: encoder.embed(texts, precision=precision), corpus, sentences)


def peer(dtype: str, corpus: Path, sentences: int) -> Any:
    """sentence-transformers' encode on its torch backend, with weights of a type."""
    import tempfile

    from sentence_transformers import SentenceTransformer

    from isospace.encoders.loading import load_encoder

    with tempfile.TemporaryDirectory() as folder:
        load_encoder("minilm", device="cpu").model.save_pretrained(folder)
        network = SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": dtype})
    return _encoding(network.encode, corpus, sentences)


def graph_runtime(runtime: str, corpus: Path, sentences: int) -> Any:
    """What sentence-transformers' ONNX and OpenVINO backends do, on today's versions.

    Those backends need optimum, which has no release for the transformers that
    sentence-transformers 6 asks for; so the graph is exported here, and fed as they feed it:
    sorted by characters, 32 sentences at a time.
    """
    import tempfile

    from isospace.encoders.loading import load_encoder

    network: Any = load_encoder("minilm", device="cpu").model.eval()
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
    """Of the probes, between a candidate's vectors and the reference's."""
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (notes["vectors"], exact))
    return float((a * b).sum(1).min())
