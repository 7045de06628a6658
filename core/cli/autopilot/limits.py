"""The options of `trimtab autopilot`: which cluster, and the limits of its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from core.autopilot import switch as switches
from core.autopilot.settings import AutopilotSettings, Hours
from core.autopilot.switch import Switch
from core.cli.common.context import Context
from core.errors import UnreachableError, UsageError
from core.settings import servers
from core.units import parse_duration, parse_size

NONE = "none"


def parse_limits(settings: AutopilotSettings, given: Mapping[str, str | None]) -> AutopilotSettings:
    """Return settings with what was said on the command line; raises UsageError."""
    fields: dict[str, Any] = {}
    for name, text in given.items():
        if text is not None:
            field, parse = _FIELDS[name]
            fields[field] = parse(text, "--" + name.replace("_", "-"))
    return replace(settings, **fields)


def find_switches(context: Context) -> list[Switch]:
    """Return the switches that are meant: of the cluster that was named, else all of them.

    Known ones are found by name or by any of their brokers; only for none of these is the cluster
    asked who it is. Raises UnreachableError, naming the known ones, when it does not answer then.
    """
    address = context.target.address
    known = list(switches.read_all())
    if address is None:
        return known
    addressed = servers(address.bootstrap)
    named = [
        switch
        for switch in known
        if switch.name == context.target.name or addressed & servers(switch.address.bootstrap)
    ]
    if named or not known:
        return named
    try:
        cluster_id = context.fetch_cluster_id()
    except UnreachableError as error:
        there = ", ".join(f"{switch.name} ({switch.address.bootstrap})" for switch in known)
        raise UnreachableError(
            error.title,
            detail=f"No autopilot is known by that address. There are: {there}.",
            next="Give -b HOST:PORT of one of these. To stop all: trimtab autopilot --mode off.",
        ) from error
    return [switch for switch in known if switch.cluster_id == cluster_id]


def metrics_while_running(before: Switch, place: str | None) -> str | None:
    """Return where its process publishes metrics; raises UsageError where another place is meant.

    It takes one as it starts.
    """
    if place not in (None, before.metrics):
        now = f"its metrics on {before.metrics}" if before.metrics else "no metrics"
        raise UsageError(
            f"The autopilot of {before.name} is running and publishes {now}.",
            next="Turn it off first, then start it with --metrics.",
        )
    return before.metrics


def _percent(text: str, option: str) -> float:
    return _number(text.removesuffix("%"), option, 1, 90, "a percentage between 1 and 90") / 100


def _seconds(text: str, _: str) -> float:
    return parse_duration(text)


def _bytes(text: str, _: str) -> float:
    return float("inf") if text == NONE else float(parse_size(text))


def _count(text: str, option: str) -> int:
    return round(_number(text, option, 1, 1e9, "a number of partitions from 1", whole=True))


def _benefit(text: str, option: str) -> float:
    return _number(text, option, 0, 1e6, "a number from 0, like 0.25")


def _number(
    text: str, option: str, minimum: float, maximum: float, what: str, *, whole: bool = False
) -> float:
    try:
        number = float(int(text)) if whole else float(text)
    except ValueError:
        number = float("nan")
    if not minimum <= number <= maximum:
        raise UsageError(f"{option} {text}: it must be {what}.")
    return number


def _hours(text: str, option: str) -> Hours:
    return Hours() if text.strip().lower() == NONE else Hours.parse(text, option)


def _pattern(text: str, _: str) -> str | None:
    return None if text == NONE else text


_FIELDS: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "start_band": ("start_band", _percent),
    "band": ("aim_band", _percent),
    "lasting": ("min_imbalance_seconds", _seconds),
    "cool_down": ("cool_down_seconds", _seconds),
    "max_bytes": ("max_bytes_per_hour", _bytes),
    "max_moves": ("max_moves_per_hour", _count),
    "min_benefit": ("min_benefit", _benefit),
    "avoid": ("avoid", _hours),
    "only": ("only", _hours),
    "topics": ("topics", _pattern),
    "keep": ("keep", _pattern),
}
"""Options by their parameters: the field that they set, and how they are read."""
