"""The toy with prompts of its own, and its vectors as sentence-transformers makes them."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from toy import write_toy_model

from isospace.evaluation.pairs import PromptedEncoders

E5 = {"query": "query: ", "passage": "passage: "}
BGE = {"query": "the text of each sentence: "}
GEMMA = {"query": "task: search result | query: ", "document": "title: none | text: "}
KINDS = {"e5": E5, "bge": BGE, "gemma": GEMMA}


@dataclass
class Prompted:
    """A model folder, and the prompts of queries and documents that it means."""

    folder: Path
    query: str
    document: str

    @cached_property
    def model(self):
        """As sentence-transformers loads it."""
        return load_again(self.folder)

    def vectors(self, texts, prompt):
        """(text, dim) of texts after a prompt."""
        return self.model.encode(list(texts), prompt=prompt, show_progress_bar=False)

    def queries(self, texts):
        return self.vectors(texts, self.query)

    def documents(self, texts):
        return self.vectors(texts, self.document)

    def plain(self, texts):
        return self.vectors(texts, "")

    @property
    def encode(self):
        """Of sentence-transformers, with sides."""
        return PromptedEncoders(self.queries, self.documents, self.plain)


def load_again(folder):
    """A folder as sentence-transformers loads it."""
    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def write_prompted(folder, prompts, default=None, include_prompt=True):
    """Save a toy that reads 200 tokens; its vectors are the mean over tokens."""
    plain = load_again(write_toy_model(folder / "bert", max_position_embeddings=256))
    plain.max_seq_length = 200
    model = SentenceTransformer(
        modules=[plain[0], Pooling(32, "mean", include_prompt=include_prompt)],
        device="cpu",
        prompts=prompts,
        default_prompt_name=default,
    )
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    document = prompts.get("document") or prompts.get("passage") or ""
    return Prompted(folder / "model", prompts["query"], document)
