"""Views of a batch, token ids, edits and perturbations: the input of objectives."""

from isospace.views.view import (
    NO_TARGET as NO_TARGET,
    Edit as Edit,
    Ids as Ids,
    Perturbation as Perturbation,
    Read as Read,
    TokenIds as TokenIds,
    TokenStates as TokenStates,
    View as View,
    Views as Views,
    Vocabulary as Vocabulary,
)
