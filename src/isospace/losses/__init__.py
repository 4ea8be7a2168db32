"""Losses as pure functions of tensors; they need torch alone.

A loss returns a scalar, the mean over the batch, unless its docstring names a shape. Use them in
any trainer: `from isospace.losses import info_nce`. Each docstring has the formula, the shapes and
the source. The objectives of `isospace.objectives` add them up.
"""

from isospace.losses.contrastive import (
    angular_margin,
    cell_cross_entropy,
    contrastive_tension,
    diagonal_cross_entropy,
    group_cross_entropy,
    group_logits,
    hardened_noise,
    info_nce,
    masking_triplet,
    mix,
    mixed_cosines,
    multi_positive,
    negative_weights,
    neighbour_nt_xent,
    nt_xent,
    off_dropout,
    pair_layout,
    softmax_divergence,
    weighted_cross_entropy,
    with_clean_negatives,
)
from isospace.losses.correlation import (
    barlow_twins,
    decorrelation,
    dimension_contrast,
    identity_distance,
    self_contrast,
    shared_variance,
    shuffled_group_whitening,
    variance_hinge,
)
from isospace.losses.detection import replace_words, replacement_detection, token_information
from isospace.losses.ranking import list_mle, list_net, margin_mse, ranking_divergence

__all__ = [
    "angular_margin",
    "barlow_twins",
    "cell_cross_entropy",
    "contrastive_tension",
    "decorrelation",
    "diagonal_cross_entropy",
    "dimension_contrast",
    "group_cross_entropy",
    "group_logits",
    "hardened_noise",
    "identity_distance",
    "info_nce",
    "list_mle",
    "list_net",
    "margin_mse",
    "masking_triplet",
    "mix",
    "mixed_cosines",
    "multi_positive",
    "negative_weights",
    "neighbour_nt_xent",
    "nt_xent",
    "off_dropout",
    "pair_layout",
    "ranking_divergence",
    "replace_words",
    "replacement_detection",
    "self_contrast",
    "shared_variance",
    "shuffled_group_whitening",
    "softmax_divergence",
    "token_information",
    "variance_hinge",
    "weighted_cross_entropy",
    "with_clean_negatives",
]
