"""The fast path for layers that act at every point on its own: linear layers and 1 x 1 convolutions."""
