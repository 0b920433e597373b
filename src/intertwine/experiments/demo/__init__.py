"""The four verbs on embedded digits, in minutes and without downloads."""
