"""Which axes of which parameters belong together; networks with permuted channels or moved filters."""

from ._channel_graph import ChannelGraph as ChannelGraph
from ._channel_graph import ChannelGroup as ChannelGroup
from ._channel_graph import channel_graph as channel_graph
from ._permute import permute as permute
from ._transform import transform_network as transform_network
