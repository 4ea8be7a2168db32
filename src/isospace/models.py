"""What a user names as a model, and the hash that tells one from another."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from isospace.encoder import Encoder
from isospace.loading import load_encoder
from isospace.pooling import PoolingName


def load_model(model: str, pooling: PoolingName | None = None) -> Encoder:
    """Load a model, or the one in a run's folder.

    Args:
        model: "minilm", a model folder, a run's folder, or a Hub name.
        pooling: default: the model's own.

    Raises:
        UserError: nothing there can be loaded.
    """
    inner = Path(model) / "model"
    return load_encoder(str(inner) if (inner / "modules.json").is_file() else model, pooling)


def weights_hash(encoder: Encoder) -> str:
    """40 hexadecimal digits that name what an encoder computes.

    They are a SHA-256 over weights, tokenizer, prompt, length limit, modules and pooling: another
    seed, checkpoint or pooling has another hash.
    """
    modules = [type(module).__name__ for module in encoder.model]
    about = [encoder.fingerprint(None), encoder.pooling, modules]
    content = hashlib.sha256(json.dumps(about).encode())
    for name, tensor in sorted(encoder.model.state_dict().items()):
        content.update(name.encode())
        content.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return content.hexdigest()[:40]
