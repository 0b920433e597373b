"""Looking up datasets by name or path."""
