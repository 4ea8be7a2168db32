"""Decoders built in code, of byte pairs and without a padding token, as language models are."""

from pathlib import Path

import torch
from tokenizers import decoders
from toy import byte_pairs
from transformers import (
    Gemma3TextConfig,
    Gemma3TextModel,
    GPT2Config,
    GPT2Model,
    LlamaConfig,
    LlamaModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

END = "<|endoftext|>"


def _tokenizer(padding_side: str) -> PreTrainedTokenizerFast:
    pairs = byte_pairs(END)
    pairs.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=pairs,
        eos_token=END,
        model_max_length=64,
        padding_side=padding_side,
        model_input_names=["input_ids", "attention_mask"],
    )


def write_toy_decoder(folder: Path, family: str = "qwen3", padding_side: str = "right") -> Path:
    """A Hugging Face folder of 2 layers of 32 dimensions with random weights."""
    tokenizer = _tokenizer(padding_side)
    ids = {f"{name}_token_id": tokenizer.eos_token_id for name in ("bos", "eos")}
    sizes = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 64,
        **ids,
    }
    torch.manual_seed(0)
    made = {
        "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**sizes, tie_word_embeddings=True)),
        "llama": lambda: LlamaModel(LlamaConfig(**sizes)),
        "gemma": lambda: Gemma3TextModel(Gemma3TextConfig(**sizes, pad_token_id=0)),
        "gpt2": lambda: GPT2Model(GPT2Config(**sizes)),
    }
    made[family]().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
