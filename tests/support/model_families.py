"""Tiny models of each family with layers like BERT's, with random weights."""

import torch
import transformers

SIZES = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 40,
}
ROTARY = {
    **SIZES,
    **{f"{name}_token_id": 0 for name in ("pad", "bos", "eos", "cls", "sep")},
    "embedding_dropout": 0.1,
    "attention_dropout": 0.1,
    "mlp_dropout": 0.1,
}
MODELS = {
    "bert": transformers.BertConfig(**SIZES),
    "roberta": transformers.RobertaConfig(**SIZES, type_vocab_size=1),
    "xlm-roberta": transformers.XLMRobertaConfig(**SIZES, type_vocab_size=1),
    "camembert": transformers.CamembertConfig(**SIZES, type_vocab_size=1),
    "roberta, padding 2": transformers.RobertaConfig(**SIZES, type_vocab_size=1, pad_token_id=2),
    "mpnet": transformers.MPNetConfig(**SIZES),
    "mpnet, padding 2": transformers.MPNetConfig(**SIZES, pad_token_id=2),
    "distilbert": transformers.DistilBertConfig(**SIZES, hidden_dim=40),
    "modernbert": transformers.ModernBertConfig(**ROTARY, local_attention=8),
    "modernbert, window of all, last layer global, biases, no dropout in attention": (
        transformers.ModernBertConfig(
            **{**ROTARY, "attention_dropout": 0.0},
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
            norm_bias=True,
            attention_bias=True,
            mlp_bias=True,
        )
    ),
}


def make(name, seed=0):
    torch.manual_seed(seed)
    model = transformers.AutoModel.from_config(MODELS[name]).eval()
    for parameter in model.parameters():  # not the initial zeros and ones
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def remade(name, **settings):
    config = MODELS[name]
    return transformers.AutoModel.from_config(type(config)(**{**config.to_dict(), **settings}))
