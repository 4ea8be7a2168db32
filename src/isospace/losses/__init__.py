"""Losses as pure functions of tensors; they need torch alone.

Use them in any trainer: `from isospace.losses import info_nce`. Each docstring has the formula and
the source. Unless it names other shapes, vectors are (batch, dim), scores of lists (list, n), and a
loss is a scalar, the mean over the batch or the lists. `temperature` divides cosines, and `eps` is
added to variances. A teacher's score is NaN for a text that is not in the list. The objectives of
`isospace.objectives` add losses up.
"""

from isospace.losses.contrastive import (
    angular_margin as angular_margin,
    cell_cross_entropy as cell_cross_entropy,
    contrastive_tension as contrastive_tension,
    diagonal_cross_entropy as diagonal_cross_entropy,
    group_cross_entropy as group_cross_entropy,
    group_logits as group_logits,
    hardened_noise as hardened_noise,
    info_nce as info_nce,
    masking_triplet as masking_triplet,
    mixed_cosines as mixed_cosines,
    multi_positive as multi_positive,
    negative_weights as negative_weights,
    neighbour_nt_xent as neighbour_nt_xent,
    nt_xent as nt_xent,
    off_dropout as off_dropout,
    pair_layout as pair_layout,
    softmax_divergence as softmax_divergence,
    weighted_cross_entropy as weighted_cross_entropy,
    with_clean_negatives as with_clean_negatives,
)
from isospace.losses.correlation import (
    barlow_twins as barlow_twins,
    decorrelation as decorrelation,
    dimension_contrast as dimension_contrast,
    identity_distance as identity_distance,
    self_contrast as self_contrast,
    shared_variance as shared_variance,
    shuffled_group_whitening as shuffled_group_whitening,
    variance_hinge as variance_hinge,
)
from isospace.losses.detection import (
    replace_words as replace_words,
    replacement_detection as replacement_detection,
    token_information as token_information,
)
from isospace.losses.ranking import (
    list_mle as list_mle,
    list_net as list_net,
    margin_mse as margin_mse,
    ranking_divergence as ranking_divergence,
)
