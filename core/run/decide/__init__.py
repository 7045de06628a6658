"""What to do next: a table of rules over the record and what is seen. Pure; does nothing."""
