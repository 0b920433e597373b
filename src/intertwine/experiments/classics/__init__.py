"""Two classics on digits: what convolution gains, and what commuting with quarter turns gains."""
