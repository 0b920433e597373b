"""The four verbs on embedded digits, in minutes, with nothing to download."""
