"""Tuning of symmetrized networks, with the original network as the teacher."""
