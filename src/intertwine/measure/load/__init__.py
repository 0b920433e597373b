"""Networks and weights from code and from untrusted files."""

from ._network import Network as Network
from ._network import load_network as load_network
