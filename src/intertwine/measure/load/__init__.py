"""Networks and weights from code and from untrusted files."""
