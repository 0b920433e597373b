"""Networks and weights from code and from files that anybody may have written."""

from ._exported import load_exported as load_exported
from ._network import Network as Network
from ._network import load_network as load_network
from ._weights import load_weights_into as load_weights_into
