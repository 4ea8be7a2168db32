"""Export of models to sentence-transformers, ONNX and Hugging Face; every export is verified."""
