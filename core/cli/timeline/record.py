"""`trimtab timeline --record`: records a cluster in the foreground; an event as JSON."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

from core import paths
from core.cli.common.context import Context
from core.cli.common.foreground import required_lease
from core.cli.common.output import emit_line, print_lines, say, say_warnings
from core.cluster.known_names import own_name
from core.daemons.process import stop_signals
from core.errors import RefusedError, TrimtabError
from core.load import load_paths as layout
from core.text.terminal import printable
from core.units import format_time
from core.watch.timeline.daemon import ROLE
from core.watch.timeline.events import Event, Kind, LogNote
from core.watch.timeline.recorder import record_cluster
from core.watch.timeline.store import Timeline
from core.watch.timeline.text import format_event


def event_document(event: Event) -> dict[str, Any]:
    """Return what `--json` prints of an event, of what was recorded and as it is."""
    return {
        "at": format_time(event.at),
        "kinds": kind_name(event.kind).split("|"),
        "topic": event.topic,
        "partition": event.partition,
        "brokers": sorted(event.brokers),
        "text": format_event(event),
        "log": event.after.file if isinstance(event.after, LogNote) else None,
    }


def kind_name(kind: Kind) -> str:
    """Return the kinds' names as documents have them, with | between them: a gap is `unseen`."""
    return str(kind.name).lower().replace("gap", "unseen")


def record_here(context: Context, as_json: bool) -> None:
    printing = threading.Lock()

    def report(what: list[Event] | TrimtabError) -> None:
        with printing:  # a line is whole, whichever thread has seen what it tells of
            _print(what, as_json)

    say_warnings()
    root = paths.load_root()
    busy = RefusedError(
        "A dashboard or another command is already recording this cluster.",
        next="See `trimtab timeline`.",
    )
    with context.connected() as connection:
        cluster_id = connection.client.describe_cluster().cluster_id
        layout.mark(root)
        with required_lease(root, cluster_id, ROLE, busy):
            stop = stop_signals()
            with closing(Timeline.write(paths.timeline_file(cluster_id))) as timeline:
                say(f"Recording {own_name(cluster_id)} in {timeline.path}; Ctrl-C ends it.")
                record_cluster(
                    *(connection, cluster_id, timeline, context.target.snapshots),
                    keep_on=lambda: not stop.is_set(),
                    report=report,
                )


def _print(what: list[Event] | TrimtabError, as_json: bool) -> None:
    if isinstance(what, TrimtabError):
        say(f"trimtab: {what.title} Trying again.")
    elif as_json:
        for event in what:
            emit_line(event_document(event))
    else:
        print_lines(
            "\n".join(f"{e.at.astimezone():%H:%M:%S}  {printable(format_event(e))}" for e in what)
        )
