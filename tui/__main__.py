"""The entry point `trimtab`: hands core.cli the function that opens the dashboard.

Nothing heavy is imported here; reading the cluster begins before Textual is imported.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from core.cli.main import run

if TYPE_CHECKING:
    from core.cli.context import Context


def open_dashboard(context: Context) -> None:
    """Show the dashboard until the user leaves it.

    Raises UnreachableError when the cluster was never reached, UsageError without a terminal.
    """
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


def main() -> None:
    sys.exit(run(open_dashboard))


if __name__ == "__main__":
    main()
