"""Fixtures for the tests of the dashboard."""

from __future__ import annotations

from own_home import own_home

__all__ = ["own_home"]
