"""Export of models to sentence-transformers and ONNX; every export is verified."""
