"""Save an encoder as a classic sentence-transformers folder.

Versions 2 to 6 of sentence-transformers, and servers based on them, read this layout. It has only
their own module types, so it loads without isospace and without `trust_remote_code`. Every written
folder is loaded again and compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import sentence_transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    CNN,
    Dense,
    Pooling,
    Router,
    StaticEmbedding,
    Transformer,
    WordEmbeddings,
)
from torch import nn

from isospace.encoders.encoder import PROBES, Encoder
from isospace.encoders.frozen import FrozenEncoder, load_frozen, write_maps
from isospace.encoders.modules import modules_of
from isospace.encoders.places import Place, loading
from isospace.encoders.settings import NAMES, Side
from isospace.errors import UserError
from isospace.system.files import atomic_folder

_CLASSIC_TYPES = {
    "CNN", "Dense", "Dropout", "LayerNorm", "Normalize", "Pooling", "Router", "StaticEmbedding",
    "Transformer", "WeightedLayerPooling", "WordEmbeddings", "WordWeights",
}  # fmt: skip
_CLASSIC_POOLING = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}

TOLERANCE = 1e-5
"""Largest 1 - cosine allowed between measured vectors and vectors of an export, float32."""
CLASSIC_TOLERANCE = 1e-6
"""Largest 1 - cosine allowed between an encoder's vectors and those of its reloaded folder."""

# Names of settings and of a tokenizer that versions 2 to 5 read, and 6 too.
_OLD_NAMES = {
    "embedding_dimension": "word_embedding_dimension",
    "in_embedding_dimension": "in_word_embedding_dimension",
}
_OLD_TOKENIZER = "sentence_transformers.models.tokenizer.WhitespaceTokenizer.WhitespaceTokenizer"
_DENSE_INPUT = {
    "module_input_name": "sentence_embedding",
    "module_output_name": "sentence_embedding",
}
"""Default settings of a dense layer; versions up to 5.0 fail if config.json contains them."""


def write_json(path: Path, content: Any) -> None:
    """Write settings in the format of a model's JSON files."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def save_transformer(module: Any, folder: Path) -> None:
    """Write weights and tokenizer of a `Transformer` for old and new versions of transformers."""
    module.model.save_pretrained(str(folder))
    module.tokenizer.save_pretrained(str(folder))
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    # transformers 5 reads the older names too; transformers 4 fails on the new ones.
    if config.get("tokenizer_class") == "TokenizersBackend":
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
    if "extra_special_tokens" in config:
        config["additional_special_tokens"] = config.pop("extra_special_tokens")
    write_json(path, config)


def _save_module(module: Any, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    config: dict[str, Any]
    if isinstance(module, Transformer):
        save_transformer(module, folder)
        config = {
            "max_seq_length": module.max_seq_length,
            "do_lower_case": bool(module.do_lower_case),
        }
        write_json(folder / "sentence_bert_config.json", config)
    elif isinstance(module, Pooling):
        used = _modes(module)
        config = {"word_embedding_dimension": module.embedding_dimension}
        config |= {key: mode in used for mode, key in _CLASSIC_POOLING.items()}
        config["include_prompt"] = module.include_prompt
        write_json(folder / "config.json", config)
    elif isinstance(module, Router):
        _save_routes(module, folder)
    else:
        # All versions read torch's format; a dense layer is written in both.
        of_torch = isinstance(module, CNN | WordEmbeddings)
        module.save(str(folder), safe_serialization=not of_torch)
        if isinstance(module, Dense):
            module.save_torch_weights(str(folder), safe_serialization=False)
        path = folder / module.config_file_name
        if path.is_file():
            write_json(path, _classic_config(json.loads(path.read_text(encoding="utf-8"))))


def _modes(pooling: Pooling) -> list[str]:
    modes = pooling.pooling_mode
    return [modes] if isinstance(modes, str) else list(modes)


def _classic_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a module with the names that all versions read."""
    config = {_OLD_NAMES.get(name, name): value for name, value in config.items()}
    config.pop("stride_sizes", None)  # of a CNN: always 1
    if "tokenizer_class" in config:
        config["tokenizer_class"] = _OLD_TOKENIZER
    if _DENSE_INPUT.items() <= config.items():
        config = {name: value for name, value in config.items() if name not in _DENSE_INPUT}
    return config


def _save_routes(router: Router, folder: Path) -> None:
    """Write the modules of each route; sentence-transformers reads routes since version 5."""
    types, structure = {}, {}
    for route, routed in router.sub_modules.items():
        modules = list(cast(nn.Sequential, routed))
        names = [f"{route}_{i}_{type(module).__name__}" for i, module in enumerate(modules)]
        for name, module in zip(names, modules, strict=True):
            _save_module(module, folder / name)
            if isinstance(module, StaticEmbedding):
                # model2vec recognises the layout of a static model by this file.
                write_json(folder / name / "config_sentence_transformers.json", {"prompts": {}})
            types[name] = _classic_type(module)
        structure[route] = names
    # Leave out `route_mappings`, which is empty here: version 5 fails on it.
    parameters = {"default_route": router.default_route, "allow_empty_key": router.allow_empty_key}
    content = {"types": types, "structure": structure, "parameters": parameters}
    write_json(folder / router.config_file_name, content)


def _classic_type(module: Any) -> str:
    """Return the class path of a module that all versions of sentence-transformers can import."""
    return f"sentence_transformers.models.{type(module).__name__}"


def require_classic(encoder: Encoder) -> None:
    """Refuse an encoder with custom modules."""
    model = encoder.model
    every = [*model, *modules_of(model, "query"), *modules_of(model, "document")]
    names = dict.fromkeys(type(module).__name__ for module in every)
    foreign = [name for name in names if name not in _CLASSIC_TYPES]
    if foreign:
        raise UserError(
            f"{encoder.source}: sentence-transformers cannot load the modules "
            f"{', '.join(foreign)} without further code. A model may have "
            f"{', '.join(sorted(_CLASSIC_TYPES))}"
        )


def require_read_alike(encoder: Encoder) -> None:
    """Refuse, before training, an encoder that sentence-transformers encodes differently.

    So would the saved folder of an encoder that joins poolings in an unusual order.
    """
    for used in (_modes(module) for module in encoder.model if isinstance(module, Pooling)):
        if used != (known := [mode for mode in _CLASSIC_POOLING if mode in used]):
            raise UserError(
                f"{encoder.source}: joins poolings in the order {', '.join(used)}; saved models "
                f"have the order {', '.join(known)}. Give a model with this order"
            )
    plain = encoder.prompts.plain
    theirs = encoder.model.encode(list(PROBES), prompt=plain, show_progress_bar=False)
    gap = gap_between(encoder.embed(PROBES), np.asarray(theirs))
    if not gap <= CLASSIC_TOLERANCE:
        raise UserError(
            f"{encoder.source}: sentence-transformers makes other vectors of these weights than "
            f"isospace (1 - cosine = {gap:.2g}). Tokenizers that pad on the left have this effect "
            'if positions are learned: set "padding_side": "right" in tokenizer_config.json'
        )


def save_model(encoder: Encoder, folder: Path, card: str = "", replace: bool = True) -> float:
    """Write an encoder as a classic sentence-transformers folder, atomically.

    `card` is the text of README.md. Return the largest 1 - cosine between the encoder's vectors and
    those of the reloaded folder.

    Raises:
        UserError: a module needs custom code, the reloaded folder gives different vectors, or the
            folder has content and must not be replaced.
    """
    if not isinstance(encoder, FrozenEncoder):
        require_classic(encoder)
    with atomic_folder(folder, replace) as building:
        if isinstance(encoder, FrozenEncoder):
            write_maps(encoder, building)
        else:
            _write_classic(encoder, building)
        (building / "README.md").write_text(card, encoding="utf-8")
        if isinstance(encoder, FrozenEncoder):
            return _parity_of_maps(encoder, building)
        measured = {side: encoder.embed(PROBES, side=side) for side in encoder.prompts.sides}
        return parity_of_sides(measured, building, PROBES, encoder, CLASSIC_TOLERANCE)


def _write_classic(encoder: Encoder, folder: Path) -> None:
    modules = []
    for i, module in enumerate(encoder.model):
        in_root = not i and isinstance(module, Transformer | Router)
        path = "" if in_root else f"{i}_{type(module).__name__}"
        _save_module(module, folder / path)
        modules.append({"idx": i, "name": str(i), "path": path, "type": _classic_type(module)})
    write_json(folder / "modules.json", modules)
    usage = {
        "__version__": {"sentence_transformers": sentence_transformers.__version__},
        **_prompt_settings(encoder),
        "similarity_fn_name": encoder.model.similarity_fn_name,
    }
    write_json(folder / "config_sentence_transformers.json", usage)


def _prompt_settings(encoder: Encoder) -> dict[str, Any]:
    """Return the prompts by the names that `encode_query` and `encode_document` look up."""
    prompts = dict(encoder.model.prompts)
    for side, names in NAMES.items():
        own = encoder.prompts.for_side(side)
        # With an empty prompt, the prompt under another name of this side would be used.
        for name in names if not own else ():
            prompts.pop(name, None)
        prompts[side] = own
    default = encoder.model.default_prompt_name
    if default is not None and prompts.get(default) != encoder.prompts.plain:  # a side's prompt
        default = "default"
        prompts[default] = encoder.prompts.plain
    return {"prompts": prompts, "default_prompt_name": default}


def parity_of_sides(
    measured: Mapping[Side | None, np.ndarray],
    folder: Path,
    texts: Sequence[str],
    encoder: Encoder,
    tolerance: float,
) -> float:
    """Return the largest 1 - cosine between measured vectors and those of a reloaded folder.

    `measured` has the vectors (n, dim) of the texts on each side.

    Raises:
        UserError: the difference exceeds the tolerance.
    """
    place = Place(str(folder), True)
    # An empty cache: the written folder must load without any other file.
    with (
        TemporaryDirectory() as empty,
        loading(f"{encoder.source}: the written folder does not load on its own"),
    ):
        reloaded = SentenceTransformer(
            place.path, device=str(encoder.device), cache_folder=empty, **place.options
        )
    theirs: dict[Side | None, Callable[..., Any]] = {
        None: reloaded.encode,
        "query": reloaded.encode_query,
        "document": reloaded.encode_document,
    }
    gaps = []
    for side, vectors in measured.items():
        again = np.asarray(theirs[side](list(texts), show_progress_bar=False))
        gaps.append(require_parity(vectors, again, encoder.source, tolerance))
    return max(gaps)


def _parity_of_maps(encoder: FrozenEncoder, folder: Path) -> float:
    """Return the largest 1 - cosine between random vectors mapped by an encoder and its folder."""
    given = np.random.default_rng(0).standard_normal((64, encoder.given.dim)).astype(np.float32)
    reloaded, gaps = load_frozen(encoder.source, str(folder)), []
    for side in encoder.prompts.sides:
        passed, again = (one.mapped(given, side) for one in (encoder, reloaded))
        gaps.append(require_parity(passed, again, encoder.source, TOLERANCE))
    return max(gaps)


def cosines(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return (n,) float64 cosines between corresponding rows of two arrays (n, dim)."""
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return (a * b).sum(1) / np.maximum(norms, 1e-12)


def gap_between(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the largest 1 - cosine between two models' vectors (n, dim) of the same texts.

    The gap is infinite if the widths differ.
    """
    if ours.shape != theirs.shape:
        return math.inf
    # A text without known words has the zero word vector, which has no cosine.
    gaps = np.where((ours == theirs).all(1), 0.0, 1.0 - cosines(ours, theirs))
    return float(np.maximum(np.max(gaps), 0.0))


def require_parity(ours: np.ndarray, theirs: np.ndarray, source: str, tolerance: float) -> float:
    """Return the result of `gap_between`; refuse a gap above the tolerance."""
    gap = gap_between(ours, theirs)
    if not gap <= tolerance:
        raise UserError(
            f"{source}: the written folder gives other vectors than the encoder (1 - cosine "
            f"{gap:.2g}, at most {tolerance:g} is allowed). Some part of the model cannot be "
            "saved; nothing was written"
        )
    return gap
