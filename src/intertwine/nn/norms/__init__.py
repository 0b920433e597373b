"""Normalization and dropout."""
