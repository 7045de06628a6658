"""The entry point `trimtab`: hands core.cli the function that opens the dashboard.

Nothing heavy is imported here: Ctrl-C is in hand before anything is, and reading the cluster
begins before Textual is imported.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.cli.context import Context


def open_dashboard(context: Context) -> None:
    """Show the dashboard until the user leaves it.

    Raises UnreachableError when the cluster was never reached, UsageError without a terminal.
    """
    import gc

    from tui import terminal

    terminal.prepare()
    # Imports make much and throw nothing away; `Feed.painted` collects again.
    gc.disable()
    # Nothing here is linear algebra: its threads would only be in the way of the feed's fork.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from tui.feed import Feed

    feed = Feed(context.target, start_load=not context.no_load)
    feed.start()
    from tui.dashboard import run_dashboard

    run_dashboard(context, feed)


def stop(*_: object) -> None:
    """End at once: while Python imports or leaves, an exception would end as a traceback."""
    try:
        os.write(2, b"\ntrimtab: stopped.\n")
    finally:  # whether stderr is there or not
        os._exit(128 + signal.SIGINT)


def main() -> None:
    # Who started us may have Ctrl-C ignored (nohup, a shell's background): then it stays so.
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, stop)
    from core.cli.main import run

    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run(open_dashboard)
        if ours:
            signal.signal(signal.SIGINT, stop)
    except KeyboardInterrupt:
        stop()
    sys.exit(code)


if __name__ == "__main__":
    main()
