"""A model that leaves isospace: sentence-transformers, ONNX and Hugging Face, each read back."""
