"""Batches as pure functions of the seed."""
