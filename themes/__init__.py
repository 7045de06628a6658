"""Themes: data only."""
