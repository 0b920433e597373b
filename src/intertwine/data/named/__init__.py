"""The datasets with a name, one file each. A new file is found by itself; it calls ``register_dataset``."""
