"""Fields on scattered points: neighbor search, radial functions, convolutions."""
