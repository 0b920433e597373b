"""The files of a run: its record, its metrics and its checkpoints."""
