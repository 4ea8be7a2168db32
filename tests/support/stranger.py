"""A program that has never heard of isospace."""

import sys

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer


def save_vectors(outputs, texts):
    """Load model folders where neither isospace nor peft can be imported, and write their vectors.

    In a folder for transformers alone, the state of the first token is the vector.
    """
    assert "isospace" not in sys.modules
    sys.modules["isospace"] = sys.modules["peft"] = None  # type: ignore[assignment]  # imports fail
    for model, output in outputs.items():
        if (model / "modules.json").exists():
            encoder = SentenceTransformer(str(model), device="cpu")
            np.save(output, encoder.encode(texts, show_progress_bar=False))
        else:
            batch = AutoTokenizer.from_pretrained(model)(texts, padding=True, return_tensors="pt")
            with torch.no_grad():
                states = AutoModel.from_pretrained(model).eval()(**batch).last_hidden_state
            np.save(output, states[:, 0].numpy())
    assert not any(name.startswith("isospace.") for name in sys.modules)
