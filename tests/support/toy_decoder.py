"""Decoders built in code, of byte pairs and without a padding token, as language models are."""

import torch
import transformers
from tokenizers import decoders
from toy import byte_pairs

END = "<|endoftext|>"


def write_toy_decoder(folder, family="qwen3", padding_side="right"):
    """A Hugging Face folder of 2 layers of 32 dimensions with random weights."""
    pairs = byte_pairs(END)
    pairs.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=pairs,
        eos_token=END,
        model_max_length=64,
        padding_side=padding_side,
        model_input_names=["input_ids", "attention_mask"],
    )
    sizes = {f"{name}_token_id": tokenizer.eos_token_id for name in ("bos", "eos")}
    sizes |= {"vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 40}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"head_dim": 8, "max_position_embeddings": 64}
    config = {
        "qwen3": transformers.Qwen3Config(**sizes, tie_word_embeddings=True),
        "llama": transformers.LlamaConfig(**sizes),
        "gemma": transformers.Gemma3TextConfig(**sizes, pad_token_id=0),
        "gpt2": transformers.GPT2Config(**sizes),
    }[family]
    kind = transformers.AutoModelForCausalLM if family == "qwen3" else transformers.AutoModel
    torch.manual_seed(0)
    kind.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
