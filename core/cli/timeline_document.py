"""An event of a timeline as JSON, for who looks back and who looks on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.units import format_time

if TYPE_CHECKING:
    from core.watch.timeline.events import Event, Kind


def event_document(event: Event) -> dict[str, Any]:
    """Return what `--json` prints of an event, of what was recorded and as it is."""
    from core.watch.timeline.events import Logged
    from core.watch.timeline.words import told

    return {
        "at": format_time(event.at),
        "kinds": kind_name(event.kind).split("|"),
        "topic": event.topic,
        "partition": event.partition,
        "brokers": sorted(event.brokers),
        "text": told(event),
        "log": event.after.file if isinstance(event.after, Logged) else None,
    }


def kind_name(kind: Kind) -> str:
    """Return the kinds' names, with | between them."""
    return str(kind.name).lower()
