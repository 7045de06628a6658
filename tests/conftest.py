"""Fixtures for all tests."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["sandbox_fixtures"]

# A law is no stopwatch: on a busy machine one example may take long.
settings.register_profile("trimtab", deadline=None)
settings.load_profile("trimtab")
