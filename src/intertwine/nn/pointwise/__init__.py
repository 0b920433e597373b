"""The fast path for layers that map each point by itself: linear layers and 1 × 1 convolutions."""
