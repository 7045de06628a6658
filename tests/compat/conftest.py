"""Fixtures for the tests of what earlier versions left."""

from __future__ import annotations

from kept_files import command, home
from own_home import own_home

__all__ = ["command", "home", "own_home"]
