"""Nonlinearities and tensor products."""
