"""Text to vector: the encoder, its noise and poolings, how it is loaded and saved."""
