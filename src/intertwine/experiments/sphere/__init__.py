"""Digits on the sphere (Cohen, Geiger, Köhler & Welling 2018)."""
