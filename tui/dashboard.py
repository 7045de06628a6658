"""Opens the dashboard on this terminal: from an invocation and its settings to the running app."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from click import Abort

from core.cli.common.context import Target
from core.errors import UsageError
from core.settings import Settings, load_settings
from tui import terminal
from tui.actions.key_bindings import ACTIONS
from tui.app import TrimtabApp
from tui.feed.feed import Feed
from tui.screen.services import OpenCluster
from tui.session import MARKED, Session

if TYPE_CHECKING:
    from core.cli.common.context import Context
    from core.passwords import MissingPassword
    from tui.shutdown import Shutdown


def make_session(context: Context) -> Session:
    """Return the session of an invocation, before anything was read."""
    target = context.target
    writable = context.write and not target.read_only and target.address is not None
    reason = "start with --write"
    if target.read_only:
        reason = MARKED
    elif target.address is None:
        reason = "this is a saved document"
    return Session(
        cluster_name=target.label,
        writable=writable,
        read_only_reason=reason,
        read_only_servers=target.read_only_servers,
        cluster_color=target.color,
        address=target.address,
        snapshots=target.snapshots,
        load_enabled=not context.no_load,
    )


class ConfiguredClusters:
    """The clusters of config.toml, and the one that the dashboard was opened with."""

    def __init__(self, context: Context, settings: Settings) -> None:
        self._context = context
        self.here, self.write = context.target.label, context.write
        self.known = self._targets(settings)

    def read(self) -> tuple[Target, ...]:
        self.known = self._targets(load_settings())
        return self.known

    def open(self, label: str) -> OpenCluster:
        target = next((candidate for candidate in self.read() if candidate.label == label), None)
        if target is None:
            raise UsageError(f"config.toml names no cluster {label!r} any more.")
        context = replace(self._context, target=target)
        return OpenCluster(make_session(context), Feed(target, start_load=not context.no_load))

    def _targets(self, settings: Settings) -> tuple[Target, ...]:
        first = self._context.target
        named = tuple(
            Target.of(name, settings, first.timeout_seconds) for name in sorted(settings.clusters)
        )
        return named if first.name in settings.clusters else (first, *named)


def run_dashboard(
    context: Context, feed: Feed, ending: Shutdown, missing: MissingPassword | None
) -> None:
    """Run the dashboard on this terminal; raises what ended it before it showed anything."""
    settings = load_settings()
    known = {action.binding_id for action in ACTIONS}
    if unknown := sorted(settings.keys.keys() - known):
        raise UsageError(
            f"config.toml has a key for {unknown[0]!r}, which is no action.",
            next=f"There are: {', '.join(sorted(known))}.",
        )
    app = TrimtabApp(
        make_session(context),
        feed=feed,
        theme=context.theme or settings.theme,
        ascii_only=context.ascii_only,
        user_keys=settings.keys,
        few_colors=terminal.few_colors(),
        mouse=context.mouse,
        notify_by=settings.notify,
        ending=ending,
        missing=missing,
        clusters=None if context.is_demo else ConfiguredClusters(context, settings),
    )
    # A loop of our own: at the end of its own asyncio waits for threads, however long.
    loop = asyncio.new_event_loop()
    workers = ThreadPoolExecutor(thread_name_prefix="work")
    loop.set_default_executor(workers)
    try:
        app.run(mouse=context.mouse, loop=loop)
    finally:
        app.probe_switch.leave()
        app.save_plan_on_exit()
    _shut_down_workers(workers, ending)
    if app.failure is not None:
        raise app.failure
    if app.aborted:
        raise Abort


def _shut_down_workers(workers: ThreadPoolExecutor, ending: Shutdown) -> None:
    """Give what is being done (a run is started, a file written) its time to be done."""
    end = partial(workers.shutdown, cancel_futures=True)
    waiting = threading.Thread(target=end, name="workers end", daemon=True)
    waiting.start()
    waiting.join(0.7 * ending.seconds_left())
