"""Filters from free weights: blocks between pairs of summands, and the expansion that assembles them."""
