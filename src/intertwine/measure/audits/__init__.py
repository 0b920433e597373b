"""Audits: many measurements of one network, step by step, with the files they write."""

from . import _surgery_steps as _surgery_steps  # registers its steps
