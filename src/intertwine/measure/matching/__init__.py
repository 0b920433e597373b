"""Which channels of a network correspond to those of the transformed network, or of another network."""
