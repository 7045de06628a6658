"""The Plan: what would change, what speaks against it, how long it takes; applying it."""
