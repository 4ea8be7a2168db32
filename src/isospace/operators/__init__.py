"""Pure functions of tensors: whitening and flows, similarity and search, compression, fusion."""
