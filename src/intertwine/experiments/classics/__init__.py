"""Two classics on digits: the gain from convolution, and the gain from equivariance to quarter turns."""
