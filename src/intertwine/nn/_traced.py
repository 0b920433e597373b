"""A layer's arithmetic as a graph of torch functions that does not need this package."""

from __future__ import annotations

from copy import deepcopy

from torch import nn as torch_nn

from ._layer import Layer


class TracedLayer(Layer):
    """A layer that is no torch module of its own: ``to_plain`` records its ``compute`` as an ``fx.GraphModule``.

    ``compute`` is the map without checks and without branches on the input.
    """

    def to_plain(self) -> torch_nn.Module:
        """A graph of torch functions, with copies of the parameters."""
        from torch.fx import GraphModule, Tracer  # only where it is needed: an import costs time

        tracer = Tracer()
        tracer.traced_func_name = "compute"
        whole = deepcopy(self).eval()
        graph = tracer.trace(whole)
        for node in graph.nodes:
            node.type = None  # annotations are strings here, which the graph's code could not resolve
        return GraphModule(whole, graph, class_name=f"Plain{type(self).__name__}")
