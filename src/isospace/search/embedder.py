"""The Python interface of a model: encode, compare, search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np

from isospace.config import Reading
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import Model, as_encoder
from isospace.encoders.settings import EncoderSettings, PoolingName, Precision, Side
from isospace.errors import UserError
from isospace.operators.nearest import nearest, unit_rows
from isospace.system.consent import consenting, current_consent, trusting_code
from isospace.system.progress import Logged, Progress
from isospace.system.unicode import normalise, require_strings
from isospace.vectors.texts import open_texts

TextsOrVectors: TypeAlias = str | Sequence[str] | np.ndarray


def require_k(k: int) -> None:
    """Refuse a number of hits that is not a whole number from 1."""
    if not isinstance(k, int | np.integer) or k < 1:
        raise UserError(f"`k` {k}: expected a whole number, 1 or more")


class MemoryHit(NamedTuple):
    """A text found by a search, its row in the corpus, and its cosine with the query as score."""

    row: int
    score: float
    text: str


class MemoryIndex:
    """An index in memory: texts with their vectors (n, dim) of length 1.

    `encode` maps queries (texts or vectors) to vectors of length 1.
    """

    def __init__(
        self, texts: Sequence[str], vectors: np.ndarray, encode: Callable[[Any], np.ndarray]
    ) -> None:
        self.texts, self.vectors, self._encode = texts, vectors, encode

    def __len__(self) -> int:
        return len(self.texts)

    def search(
        self, queries: TextsOrVectors, k: int = 5
    ) -> list[MemoryHit] | list[list[MemoryHit]]:
        """Return the `k` texts nearest to a query, best first, or a list of them for each query.

        `queries` are one text, several texts, or their (queries, dim) vectors.

        Raises:
            UserError: k is not a whole number, or below 1.
        """
        require_k(k)
        vectors = np.atleast_2d(self._encode(queries))
        lists = []
        for near in nearest(vectors, self.vectors, k):
            pairs = zip(near.rows.tolist(), near.products.tolist(), strict=True)
            lists.append([MemoryHit(row, score, self.texts[row]) for row, score in pairs])
        return lists[0] if isinstance(queries, str) else lists


class Embedder:
    """A loaded model, the result of `isospace.load`.

    A single text instead of a list gives a result without that axis: a scalar or one vector.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return self.encoder.dim

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        prompt: str | None = None,
        batch_size: int | None = None,
        normalize_embeddings: bool = False,
        max_length: int | None = None,
        precision: Precision = "float32",
        progress: Progress | None = None,
        side: Side | None = None,
    ) -> np.ndarray:
        """Encode texts; options that sentence-transformers has too are called as there.

        Texts are encoded unchanged. To clean texts like those of files, call
        `isospace.system.unicode.normalise` first.

        Args:
            texts: one text, or n texts.
            prompt: text before every text; default: the model's prompt, if any.
            batch_size: maximal number of texts encoded at once. Default: a limit on tokens.
            normalize_embeddings: scale vectors to length 1 (many models do that themselves).
            max_length: truncation in tokens; default: the model's own limit.
            precision: bf16 is faster if the processor supports it.
            progress: shows a progress bar; default: none.
            side: the side whose prompt is used unless another one is given. `encode_query` and
                `encode_document` set it.

        Returns:
            (n, dim) float32, or (dim,) for one text.

        Raises:
            UserError: a text is not a string, or the precision is unknown.
        """
        if precision not in get_args(Precision):
            known = " or ".join(get_args(Precision))
            more = "For int8 call sentence_transformers.quantize_embeddings"
            raise UserError(f"`precision` {precision}: expected {known}. {more}")
        encoder = self._prompted(prompt, side)
        several = [texts] if isinstance(texts, str) else list(texts)
        require_strings("text", several)
        with (progress or Logged()).bar("encode", len(several)) as advance:
            vectors = encoder.embed(
                several,
                max_length=max_length,
                batch_size=batch_size,
                on_batch=advance,
                precision=precision,
                side=side,
            )
        if normalize_embeddings:
            vectors = unit_rows(vectors)
        return vectors[0] if isinstance(texts, str) else vectors

    def encode_query(self, texts: str | Sequence[str], **options: Any) -> np.ndarray:
        """Encode queries; options as for `encode`."""
        return self.encode(texts, side="query", **options)

    def encode_document(self, texts: str | Sequence[str], **options: Any) -> np.ndarray:
        """Encode documents; options as for `encode`."""
        return self.encode(texts, side="document", **options)

    def _prompted(self, prompt: str | None, side: Side | None) -> Encoder:
        if prompt is None:
            return self.encoder
        return self.encoder.with_prompts(self.encoder.prompts.with_text(side, prompt))

    def similarity(self, a: TextsOrVectors, b: TextsOrVectors) -> np.ndarray:
        """Return the (n, m) cosines of n texts with m texts, or of their vectors.

        An argument that is one text or one vector gives no axis.
        """
        cosines: np.ndarray = self._unit_vectors(a) @ self._unit_vectors(b).T
        return cosines

    def index(self, corpus: Path | str | Iterable[str], column: str = "text") -> MemoryIndex:
        """Return an exact search index in memory, of texts or of one file of texts.

        Texts and queries are normalised before encoding; hits contain the texts as given. `column`
        is that of the texts in a file with columns.

        Raises:
            UserError: the file cannot be read.
        """
        if isinstance(corpus, str | Path):
            with open_texts([str(corpus)], Reading(column=column, layout="lines")) as rows:
                corpus = [row.text for row in rows]
        texts = list(corpus)
        require_strings("text", texts)
        plain = list(map(normalise, texts))
        vectors = unit_rows(self.encoder.embed(plain, side="document"))
        return MemoryIndex(texts, vectors, partial(self._unit_vectors, side="query"))

    def _unit_vectors(self, items: TextsOrVectors, side: Side | None = None) -> np.ndarray:
        """Return vectors of length 1; queries are normalised like the texts of an index."""
        vectors: Any = items
        if not isinstance(items, np.ndarray) or items.dtype.kind in "OU":
            texts: Any = [items] if isinstance(items, str) else items
            if side == "query":
                texts = [normalise(text) if isinstance(text, str) else text for text in texts]
            vectors = self.encode(texts, side=side)
            vectors = vectors[0] if isinstance(items, str) else vectors
        return unit_rows(np.atleast_2d(vectors)).reshape(vectors.shape)


def load(
    model: Model = "minilm",
    pooling: PoolingName | None = None,
    device: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    trust_remote_code: bool = False,
    endpoint: str | None = None,
    api_key_env: str | None = None,
) -> Embedder:
    """Load a model (exported as `isospace.load`).

    Args:
        model: minilm, a model folder, a run's folder, or a Hub name (NAME@REVISION); an endpoint,
            such as http://localhost:8080/v1#NAME; or a loaded `SentenceTransformer` or
            `Encoder`, which is not copied.
        pooling: default: the model's own.
        device: default: a GPU if there is one, and unchanged for a loaded model.
        query_prompt: text before every query, such as "query: "; default: the model's own.
        document_prompt: text before every document; default: the model's own.
        trust_remote_code: allow code from the model's folder to run.
        endpoint: the address of a remote endpoint that only the run's file names. Without it, no
            text is sent there.
        api_key_env: the environment variable with the endpoint's key; default: OPENAI_API_KEY for
            api.openai.com.

    Raises:
        UserError: the model cannot be loaded, or has an unknown type.
    """
    consent = current_consent()
    if endpoint is not None:
        consent = replace(consent, named=[endpoint])
    consent = replace(consent, key_env=api_key_env or consent.key_env)
    with trusting_code(trust_remote_code), consenting(consent):
        settings = EncoderSettings(
            pooling=pooling, query_prompt=query_prompt, document_prompt=document_prompt
        )
        return Embedder(as_encoder(model, settings, device))
