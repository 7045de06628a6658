"""Fixtures for all tests."""

from __future__ import annotations

import gc
import signal

from hypothesis import settings

pytest_plugins = ["object_store", "sandbox_fixtures"]

# A law is no stopwatch: on a busy machine one example may take long. What decides over a change
# plays the same examples each time; `make laws` looks for new ones.
settings.register_profile("trimtab", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("new", deadline=None, max_examples=500)
settings.register_profile("long", deadline=None, max_examples=10_000)
settings.load_profile("trimtab")

# Where tests run in the background (`make test &`, some CI), a shell has Ctrl-C ignored, and
# every command under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same of a hang-up under nohup; the tests themselves go on. Only what is ignored is inherited.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_collection_finish() -> None:
    """Have the garbage collector look seldom, and at nothing that was imported: it took a tenth."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)
