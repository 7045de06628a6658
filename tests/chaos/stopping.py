"""Ends a part of chaos in order when it is told to stop, so that nothing is left running."""

from __future__ import annotations

import signal
from typing import Any

STOPPED = 130


def stops_in_order() -> None:
    """Leave by an exception on SIGTERM, SIGHUP and Ctrl-C; a second one changes nothing."""

    def stop(number: int, frame: Any) -> None:
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(one, signal.SIG_IGN)
        raise SystemExit(STOPPED)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
