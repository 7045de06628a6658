"""Text as it is written: for terminals, as JSON, as tables."""
