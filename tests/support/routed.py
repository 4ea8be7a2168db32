"""The toy, the toy with a map behind its queries alone, and other models with a `Router`."""

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Router,
    StaticEmbedding,
)
from tokenizers import Tokenizer

from isospace.encoders.encoder import Encoder
from isospace.encoders.saving import save_model


def write_routed(toy, folder, *, normalised=True):
    """Write the toy, and what maps its queries; with a closing normalisation or without."""
    torch.manual_seed(1)
    modules = [*SentenceTransformer(str(toy), device="cpu")]
    closing = [Normalize()] if normalised else []
    dense = Dense(32, 32, bias=False, activation_function=torch.nn.Identity())
    router = Router({"query": [dense, Normalize()], "document": closing}, "document")
    for name, last in (("base", closing), ("routed", [router])):
        model = SentenceTransformer(modules=[*modules, *last], device="cpu")
        save_model(Encoder(model, name), folder / name)
    return folder / "base", folder / "routed"


def write_static(toy, folder):
    """Write the toy's tokenizer with random static vectors, by sentence-transformers itself."""
    model = SentenceTransformer(modules=[_static(toy)], device="cpu")
    model.save(str(folder), create_model_card=False)
    return folder


def write_asymmetric(toy, folder, kind):
    """Write a model whose queries and documents differ, by sentence-transformers itself.

    The Router is its first module ("static queries", "two poolings") or its last ("two layers"), or
    stands in a route of another, with queries as default ("nested").
    """
    torch.manual_seed(2)
    transformer, pooling = SentenceTransformer(str(toy), device="cpu")
    first, second, third = (Dense(32, 24) for _ in range(3))
    route = Router.for_query_document
    inner = Router({"query": [second], "document": [third]}, "query")
    outer = Router({"query": [first], "document": [inner]}, "query")
    of_cls = [transformer, Pooling(32, "cls"), first]
    modules = {
        "static queries": [route([_static(toy)], [transformer, pooling]), Normalize()],
        "two poolings": [route(of_cls, [transformer, pooling, second])],
        "two layers": [transformer, pooling, route([first], [second])],
        "nested": [transformer, pooling, outer],
    }[kind]
    prompts = {"query": "question: ", "document": "the text: "}
    model = SentenceTransformer(modules=modules, device="cpu", prompts=prompts)
    model.save(str(folder), create_model_card=False)
    return folder


def _static(toy):
    tokenizer = SentenceTransformer(str(toy), device="cpu").tokenizer.backend_tokenizer
    torch.manual_seed(3)
    return StaticEmbedding(Tokenizer.from_str(tokenizer.to_str()), embedding_dim=32)
