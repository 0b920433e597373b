"""Pooling, blurring and upsampling."""
