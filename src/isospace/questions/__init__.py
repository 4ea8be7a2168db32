"""Generated queries: a language model writes them for passages of a corpus, as training pairs."""
