"""How an autopilot stands, as text and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from core.autopilot.log import Entry
from core.autopilot.settings import Mode, describe_limits
from core.autopilot.switch import Switch
from core.cli.common.output import emit, say, write_text
from core.text.tables import text_table
from core.units import format_bytes, format_time

if TYPE_CHECKING:
    from core.autopilot.daemon import AutopilotStatus


def print_status(switches: Sequence[Switch], *, as_json: bool) -> None:
    """Print the status of each of these."""
    from core.autopilot.daemon import read_status

    statuses = [read_status(switch) for switch in switches]
    if as_json:
        emit([status_document(status) for status in statuses])
        return
    if not statuses:
        say("No autopilot here. To see what one would do: trimtab autopilot --mode suggest.")
    for status in statuses:
        write_text(_status_text(status), None)


def entry_line(entry: Entry) -> str:
    """Return one decision by this machine's clock; what else spoke against it below."""
    at = f"{entry.at.astimezone():%Y-%m-%d %H:%M:%S}"
    more = "".join(f"\n{'':31}{reason.text}" for reason in entry.reasons[1:])
    return f"{at}  {entry.what.value:<8}  {entry.text}{more}"


def status_document(autopilot: AutopilotStatus) -> dict[str, Any]:
    """Return one entry of `autopilot status --json`."""
    spent, moves = autopilot.history.spent(datetime.now(UTC))
    return {
        "cluster_id": autopilot.switch.cluster_id,
        "name": autopilot.switch.name,
        "mode": autopilot.switch.mode.value,
        "flying": autopilot.process is not None,
        "pid": autopilot.process.pid if autopilot.process else None,
        "changed_at": format_time(autopilot.switch.changed_at),
        "who": autopilot.switch.who,
        "bytes_in_the_last_hour": round(spent),
        "moves_in_the_last_hour": moves,
        "last": autopilot.last.to_json() if autopilot.last else None,
        "settings": {k: v for k, v in autopilot.switch.settings.to_json().items() if k != "mode"},
    }


def _status_text(autopilot: AutopilotStatus) -> str:
    settings = autopilot.switch.settings
    spent, moves = autopilot.history.spent(datetime.now(UTC))
    if autopilot.process is not None:
        flies = f"running, process {autopilot.process.pid}"
    elif settings.mode is Mode.OFF:
        flies = "not running"
    else:
        flies = "not running: its process has ended; --mode starts it again"
    budget = (
        f"{format_bytes(spent)} of {format_bytes(settings.max_bytes_per_hour)} and "
        f"{moves} of {settings.max_moves_per_hour} partitions in the last hour"
    )
    first, *more = entry_line(autopilot.last).splitlines() if autopilot.last else ["nothing yet"]
    within = describe_limits(settings) | {"budget": budget}
    at = autopilot.switch.changed_at.astimezone()
    rows = [
        ("mode", f"{settings.mode.value}, set by {autopilot.switch.who} at {at:%Y-%m-%d %H:%M:%S}"),
        ("process", flies),
        *within.items(),
        ("last", first),
        *(("", line) for line in more),
    ]
    return text_table((f"autopilot of {autopilot.switch.name}", ""), rows)
