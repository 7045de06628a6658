"""`trimtab groups`: consumer groups with members, assignments and lag; two polls give a rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from core.cli.common.context import Context
from core.cli.common.options import Command, answer_options
from core.cli.common.output import Answer, emit, say, say_none, write_text
from core.errors import ExitCode, UsageError
from core.patterns import matching, pattern
from core.text.tables import text_table
from core.text.terminal import printable
from core.units import format_duration, parse_duration
from core.watch.groups.lag import (
    GroupView,
    Pace,
    PartitionView,
    build_views,
    fault_text,
    fetch_group_sample,
    member_names,
)

LONGEST_ID = 100
"""Characters of an id in a list on a terminal, as Kafka takes any; --json and -o have all of it."""


@click.command(cls=Command)
@click.argument("regex", required=False)
@click.option(
    "--over", metavar="TIME", help="Observe twice, this time apart, to show rates, like 10s."
)
@answer_options
@click.pass_obj
def groups(context: Context, regex: str | None, over: str | None, answer: Answer) -> int:
    """Describe groups of every type: members, assignments, offsets and lag.

    One line for each group, or in full those whose whole ID matches REGEX. With --over, also rates
    and the time to catch up. Exit code 5 when a broker does not list all of its groups.
    """
    if regex is not None:
        pattern(regex, "The id")
    seconds = None if over is None else parse_duration(over)
    if seconds == 0:
        raise UsageError(
            "--over 0s cannot show a rate.", next="Give a longer time, like --over 10s."
        )
    with context.connected() as connection:
        before = None
        if seconds is not None:
            before = fetch_group_sample(connection.client, connection.clock, regex)
            connection.clock.sleep(seconds)
        now = fetch_group_sample(connection.client, connection.clock, regex)
        known = now.groups or now.lost or (before is not None and before.groups)
        if regex is not None and not known:  # it raises, and names what is near
            ids = [group.id for group in connection.client.describe_groups()]
            matching(regex, "The id", ids, "group")
    for trouble in now.troubles:
        say(trouble)
    left = {group.id for group in now.groups}
    for group in before.groups if before and now.is_complete else ():
        if group.id not in left:
            say(f"Group {printable(group.id)} has been deleted meanwhile.")
    views = build_views(now, before)
    output = answer.output
    if answer.as_json:
        emit([_json(view) for view in views], output)
    elif not views and regex is not None and not now.lost:
        say_none(f"No group that {printable(regex)} matches is there any more.", output)
    elif not views:
        whose = "that you may see" if now.is_complete else "that others list"
        say_none(f"There is no group{f' {whose}' if now.lost else ''}.", output)
    elif regex is None:
        write_text(_lines(views, whole=output is not None), output)
    else:
        write_text("\n".join(_text(view) for view in views), output)
    return ExitCode.INCOMPLETE if now.lost else ExitCode.DONE


def _json(view: GroupView) -> dict[str, Any]:
    group = view.group
    return {
        "id": group.id,
        "state": group.state,
        "protocol": group.protocol,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator,
        "lag": view.lag,
        "lag_is_least": view.is_lower_bound,
        **_rates_json(view),
        "members": [
            {
                "id": member.id,
                "client_id": member.client_id,
                "instance_id": member.instance_id,
                "host": member.host,
                "idle": member.id in view.idle,
                "assignment": [{"topic": t, "partition": p} for t, p in member.assignment],
            }
            for member in group.members
        ],
        "partitions": [
            {
                **p.tp._asdict(),
                "member": p.member,
                "committed": p.committed,
                "end": p.end,
                "lag": p.lag,
                **_rates_json(p),
            }
            for p in view.partitions
        ],
        "unknown": fault_text(group.fault),
        "committed_unknown": fault_text(group.committed_fault),
    }


def _rates_json(of: GroupView | PartitionView) -> dict[str, Any]:
    rates, seconds = of.rates, of.catch_up_seconds
    known = rates is not None and of.pace is not Pace.UNKNOWN
    return {
        "read_per_s": None if rates is None else round(rates.read_per_s, 3),
        "produced_per_s": None if rates is None else round(rates.produced_per_s, 3),
        "catch_up_seconds": None if seconds is None else round(seconds, 3),
        "never": seconds is None if known else None,
    }


def _lines(views: Sequence[GroupView], *, whole: bool) -> str:
    rows = [
        (
            view.group.id if whole else _shorten_id(view.group.id),
            view.group.state,
            view.group.protocol,
            view.group.assignor or "-",
            _members(view),
            _lag(view),
            _catch_up(view),
            view.group.trouble,
        )
        for view in views
    ]
    header = ("GROUP", "STATE", "PROTOCOL", "ASSIGNOR", "MEMBERS", "LAG", "CAUGHT UP", "")
    return text_table(header, rows, right="    >>> ")


def _shorten_id(id: str) -> str:
    return id if len(id) <= LONGEST_ID else f"{id[: LONGEST_ID - 1]}…"


def _text(view: GroupView) -> str:
    group = view.group
    at = "-" if group.coordinator is None else str(group.coordinator)
    assignor = f", {group.assignor}" if group.assignor else ""
    ending = _catch_up(view)
    parts = [
        f"{printable(group.id)}  {group.state}  {group.protocol} protocol{assignor}  "
        f"coordinator {at}  members {_members(view)}  lag {_lag(view)}"
        + (f"  caught up: {ending}" if ending != "-" else "")
        + "\n"
    ]
    if group.trouble:
        parts.append(group.trouble + "\n")
    ids = [member.id for member in group.members]
    names = dict(zip(ids, member_names(group.members), strict=True))
    rows = [
        (
            str(p.tp),
            "-" if p.member is None else names[p.member],
            *(_number(p.committed), _number(p.end), _number(p.lag)),
            "-" if p.rates is None else f"{p.rates.read_per_s:,.1f}",
            "-" if p.rates is None else f"{p.rates.produced_per_s:,.1f}",
            _catch_up(p),
        )
        for p in view.partitions
    ]
    header = ("PARTITION", "MEMBER", "COMMITTED", "END", "LAG", "READ/s", "MADE/s", "CAUGHT UP")
    if rows:
        parts.append(text_table(header, rows, right="  >>>>>>"))
    members = [
        (
            member.client_id,
            member.host,
            "idle" if member.id in view.idle else str(len(member.assignment)),
            member.instance_id or "-",
            member.id,
        )
        for member in group.members
    ]
    if members:
        parts.append(
            text_table(("MEMBER", "HOST", "PARTITIONS", "STATIC ID", "ID"), members, "  >")
        )
    return "".join(parts)


def _members(view: GroupView) -> str:
    count, idle = len(view.group.members), len(view.idle)
    if view.group.fault is not None:
        return "-"
    return f"{count} ({idle} idle)" if idle else str(count)


def _lag(view: GroupView) -> str:
    """Return the messages that are unread, with a `+` where there may be more."""
    return _number(view.lag) + ("+" if view.is_lower_bound and view.lag is not None else "")


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _catch_up(of: GroupView | PartitionView) -> str:
    if of.rates is None or of.pace is Pace.UNKNOWN:
        return "-"
    seconds = of.catch_up_seconds
    if seconds is not None:
        return (
            "keeps up"
            if of.pace is Pace.KEEPS_UP
            else format_duration(seconds)
            if of.lag
            else "now"
        )
    if isinstance(of, GroupView) and 0 < len(of.never) < len(of.partitions):
        return f"never: {len(of.never):,} of {len(of.partitions):,} partitions"
    return "never, at this rate"
