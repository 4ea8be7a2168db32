"""Adapt a model to a folder, then search with it in LangChain.

    python adapt_and_serve.py manuals/ "how do I reset the password?" --output adapted

LangChain gets the Markdown files of the folder, a paragraph a document.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

import isospace


class IsospaceEmbeddings(Embeddings):
    """A model of isospace for any vector store of LangChain."""

    def __init__(self, model: str) -> None:
        self.model = isospace.load(model)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector for each document."""
        return self.model.encode_document(texts, normalize_embeddings=True).tolist()

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        return self.model.encode_query(text, normalize_embeddings=True).tolist()


if __name__ == "__main__":
    parser = ArgumentParser(description="Adapt a model to a folder, then search with LangChain.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("question")
    parser.add_argument("--model", default="minilm", help="the base model")
    parser.add_argument("--budget", nargs=2, default=("6", "minutes"))
    parser.add_argument("--output", default="adapted", help="the folder of the run")
    arguments = parser.parse_args()

    number, unit = arguments.budget
    finished = isospace.adapt(
        isospace.AdaptConfig(
            text=isospace.CorpusConfig(corpus=str(arguments.folder)),
            model=arguments.model,
            budget=(float(number), unit),
            output=arguments.output,
        )
    )
    print(finished.verdict)

    store = InMemoryVectorStore(IsospaceEmbeddings(str(finished.model_folder)))
    for path in sorted(arguments.folder.rglob("*.md")):
        store.add_texts(path.read_text(encoding="utf-8").split("\n\n"))
    for document in store.similarity_search(arguments.question, k=3):
        print(document.page_content, "\n")
