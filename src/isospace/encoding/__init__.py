"""A corpus to a folder of vectors: streamed, in shards, resumable, by several workers."""
