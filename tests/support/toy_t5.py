"""T5's encoder built in code: half of a model that transformers' `AutoModel` would make whole."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoTokenizer, T5Config, T5EncoderModel


def write_toy_t5(toy_model: Path, folder: Path) -> Path:
    """A Hugging Face folder with random weights and the toy's tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(toy_model)
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        pad_token_id=tokenizer.pad_token_id,
    )
    T5EncoderModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
