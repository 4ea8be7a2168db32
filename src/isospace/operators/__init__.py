"""Pure functions of tensors: whitening, inverse roots, similarity, nearest neighbours."""
