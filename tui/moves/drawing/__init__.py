"""Runs as lines."""
