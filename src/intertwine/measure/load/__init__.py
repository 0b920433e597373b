"""Networks and weights from code and from files that anybody may have written."""

from ._network import Network as Network
from ._network import load_network as load_network
