"""Views of a batch, token ids, edits and perturbations: the input of objectives."""

from isospace.views.view import NO_TARGET as NO_TARGET
from isospace.views.view import Edit as Edit
from isospace.views.view import Ids as Ids
from isospace.views.view import Perturbation as Perturbation
from isospace.views.view import Read as Read
from isospace.views.view import TokenIds as TokenIds
from isospace.views.view import TokenStates as TokenStates
from isospace.views.view import View as View
from isospace.views.view import Views as Views
from isospace.views.view import Vocabulary as Vocabulary
from isospace.views.view import describe_views as describe_views
