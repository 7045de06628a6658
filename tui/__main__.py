"""The entry point `trimtab`: hands core.cli the function that opens the dashboard.

Nothing heavy is imported here: Ctrl-C is in hand before anything is, and reading the cluster
begins before Textual is imported.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.cli.common.context import Context


COLLECT_AFTER = 20_000
"""New objects, less those that are gone, until garbage is collected; Python's own is 700."""


def open_dashboard(context: Context) -> None:
    """Show the dashboard until the user leaves it.

    Raises UnreachableError when the cluster was never reached, UsageError without a terminal,
    Abort when a password was asked for and not given, SystemExit when a signal or a lost terminal
    ended it.
    """
    from core.cluster.connect import missing_password
    from tui import terminal
    from tui.shutdown import Shutdown

    terminal.prepare()
    # Imports make much and throw nothing away; `Feed.painted` collects again.
    gc.disable()
    with Shutdown() as ending:
        from tui.feed.feed import Feed

        feed = Feed(context.target, start_load=not context.no_load)
        address = context.target.address
        try:
            missing = None if address is None else missing_password(address)
            if missing is None:
                feed.start()
            from tui.dashboard import run_dashboard

            run_dashboard(context, feed, ending, missing)
        finally:
            feed.stop()


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
    # Most commands are over in half a second, which are imports: they throw nothing away.
    gc.set_threshold(COLLECT_AFTER)
    # Nothing here is linear algebra: its threads take time to begin with, and would be in the way
    # of the dashboard's fork.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from core.cli.main import run

    shown = False

    def show(context: Context) -> None:
        nonlocal shown
        shown = True
        open_dashboard(context)

    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code: int | str | None = run(show)
        if ours:
            signal.signal(signal.SIGINT, stop)
    except KeyboardInterrupt:
        stop()
    except SystemExit as left:
        code = left.code
    if shown:
        from tui.shutdown import end_process

        end_process(code)
    # What goes with the process need not be searched for garbage first: a tenth of most commands.
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
