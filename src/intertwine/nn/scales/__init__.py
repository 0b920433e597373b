"""Fields of position and scale: lifting, convolution, pooling."""
