"""Figures as pictures: plots, panels of images, bases of kernels."""
