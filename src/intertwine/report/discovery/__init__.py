"""What was discovered about data, in the terminal and as a page."""
