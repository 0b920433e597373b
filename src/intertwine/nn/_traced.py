"""Layers that export as a graph of torch functions, which does not need this package."""

from __future__ import annotations

from copy import deepcopy

from torch import nn as torch_nn

from ._layer import Layer


class TracedLayer(Layer):
    """A layer without a torch counterpart: ``to_plain`` records its ``compute`` as an ``fx.GraphModule``.

    ``compute`` is the map without checks and without branches that depend on the input.
    """

    traced_method = "compute"

    def to_plain(self) -> torch_nn.Module:
        """A graph of torch functions, with copies of the parameters."""
        from torch.fx import GraphModule, Tracer  # imported here because it is slow to import

        tracer = Tracer()
        tracer.traced_func_name = self.traced_method
        layer = deepcopy(self).eval()
        graph = tracer.trace(layer)
        for node in graph.nodes:
            node.type = None  # our annotations are strings, which the generated code could not resolve
        return GraphModule(layer, graph, class_name=f"Plain{type(self).__name__}")
