"""ModernBERT: pre-norm layers with rotary positions and GeGLU; most layers see only near tokens.

Warner et al. 2024, https://arxiv.org/abs/2412.13663. There are no learned positions and no token
types; a norm follows the last layer. Layers with full attention and layers with local attention
have different rotary bases.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own abbreviation
from torch import Tensor, nn

from isospace.encoders.fast import packed
from isospace.encoders.fast.packed import Packing, current_dropout


def fits(model: Any) -> bool:
    """Return true if `forward` can compute this model."""
    return (
        model.config.hidden_activation == "gelu"
        and all(kind == "default" for kind in model.rotary_emb.rope_type.values())
        and hasattr(model, "embeddings")
        and all(map(_is_plain, model.layers))
    )


def _is_plain(layer: Any) -> bool:
    dense = (layer.attn.Wqkv, layer.attn.Wo, layer.mlp.Wi, layer.mlp.Wo)
    norms_or_nothing = (nn.LayerNorm, nn.Identity)  # the first layer gets a normed input
    return (
        all(type(part) is nn.Linear for part in dense)
        and type(layer.attn_norm) in norms_or_nothing
        and type(layer.mlp_norm) is nn.LayerNorm
    )


def forward(model: Any, input_ids: Tensor, attention_mask: Tensor, first_only: bool) -> Tensor:
    """Return the last hidden states (`fast.forward`)."""
    part = model.embeddings
    with packed.tokens_alone(input_ids, attention_mask, part.tok_embeddings.weight) as tokens:
        states = part.norm(part.tok_embeddings(tokens.ids))
        states = packed.dropout(states, current_dropout(part.drop))
        turns = {kind: _turns(model, tokens, kind) for kind in model.rotary_emb.layer_types}
        near = _near(tokens, model.config.sliding_window)
        biases = {"full_attention": tokens.bias, "sliding_attention": near}
        last = model.layers[-1]
        for layer in model.layers:
            only = tokens.first if first_only and layer is last else None
            kind = layer.attention_type
            normed = layer.attn_norm(states).to(tokens.dtype)
            context = _attention(layer.attn, normed, turns[kind], biases[kind], tokens, only)
            states = states if only is None else states[only]
            # This module is not a dropout in a model without attention dropout.
            end = layer.attn.out_drop
            rate = current_dropout(end) if isinstance(end, nn.Dropout) else 0.0
            states = packed.dropout_add(packed.linear(context, layer.attn.Wo), states, rate)
            states = states + _feed_forward(layer.mlp, layer.mlp_norm(states).to(tokens.dtype))
        return tokens.result(model.final_norm(states), first_only)


def _feed_forward(part: Any, states: Tensor) -> Tensor:
    inner, gate = packed.linear(states, part.Wi).chunk(2, -1)
    hidden = packed.dropout(F.gelu(inner) * gate, current_dropout(part.drop))
    return packed.linear(hidden, part.Wo)


def _near(tokens: Packing, distance: int) -> Tensor:
    """Return the addend of attention scores that hides padding and tokens beyond `distance`."""
    if tokens.length <= distance + 1:
        return tokens.bias
    places = torch.arange(tokens.length, device=tokens.bias.device)
    far = (places - places[:, None]).abs() > distance
    return tokens.bias.masked_fill(far, torch.finfo(tokens.dtype).min)


def _turns(model: Any, tokens: Packing, kind: str) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of the rotary angles, (packed tokens, 1, width / 2) each.

    Both are at least float32, also under autocast, because transformers rotates in float32.
    """
    weights = model.embeddings.tok_embeddings.weight
    like = weights.new_empty(0, dtype=torch.promote_types(weights.dtype, torch.float32))
    places = torch.arange(tokens.length, device=like.device)
    cosine, sine = (
        both[0, :, : both.shape[-1] // 2]  # the second half repeats the first
        for both in model.rotary_emb(like, places[None], kind)
    )
    return cosine[tokens.positions, None], sine[tokens.positions, None]


def _attention(
    part: Any,
    states: Tensor,
    turns: tuple[Tensor, Tensor],
    bias: Tensor,
    tokens: Packing,
    only: Tensor | None,
) -> Tensor:
    """Compute `bert._attention` with rotated queries and keys."""
    rate = part.attention_dropout if part.training else 0.0
    width, dim = part.head_dim, states.shape[1]
    heads = dim // width
    rows = packed.linear(states, part.Wqkv).view(-1, 3 * heads, width)
    turned = packed.apply(_Turn, rows, *turns, 2 * heads)  # queries and keys, not values
    query, key, value = tokens.by_head(turned, heads, width)
    if only is None:
        return tokens.pack(packed.attend(query, key, value, bias, rate))
    return packed.attend(query[:, :, :1], key, value, bias[:, :, :1], rate).squeeze(1)


class _Turn(torch.autograd.Function):
    """Rotary positions (RoFormer, https://arxiv.org/abs/2104.09864), in three passes over memory.

    Rotate the first `heads` heads of rows (packed tokens, all heads, width). Each value in a head's
    first half forms a pair with one in the second half; a pair turns by the token's angle.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, cosine: Tensor, sine: Tensor, heads: int) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        ctx.heads = heads
        return _turned(rows, cosine, sine, heads)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        cosine, sine = ctx.saved_tensors
        return _turned(gradients[0], cosine, -sine, ctx.heads), None, None, None


def _turned(rows: Tensor, cosine: Tensor, sine: Tensor, heads: int) -> Tensor:
    turned = torch.empty_like(rows)
    turned[:, heads:] = rows[:, heads:]
    (x, y), (to_x, to_y) = (part[:, :heads].chunk(2, -1) for part in (rows, turned))
    torch.sub(x * cosine, y * sine, out=to_x)
    torch.add(y * cosine, x * sine, out=to_y)
    return turned
