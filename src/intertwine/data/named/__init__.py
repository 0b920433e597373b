"""Named datasets, one file each. Every file here is imported automatically and calls ``register_dataset``."""
