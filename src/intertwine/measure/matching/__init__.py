"""Which channels of a network correspond to those of the transformed network, or of another network."""

from ._match import Matching as Matching
from ._match import match as match
from ._match import match_networks as match_networks
