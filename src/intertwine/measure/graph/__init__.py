"""Which axes of which parameters belong together, and networks with their channels permuted or their filters moved."""

from ._channel_graph import ChannelGraph as ChannelGraph
from ._channel_graph import Group as Group
from ._channel_graph import Site as Site
from ._channel_graph import Untraced as Untraced
from ._channel_graph import channel_graph as channel_graph
from ._permute import permute as permute
from ._permute import random_permutations as random_permutations
from ._permute import require_preserved as require_preserved
from ._transform import transform_network as transform_network
