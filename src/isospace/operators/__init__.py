"""Pure functions of tensors: whitening, inverse square roots, similarity, nearest neighbours."""
