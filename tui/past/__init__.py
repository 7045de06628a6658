"""The past: one moment that Map and Load show, how they come there, and back."""
