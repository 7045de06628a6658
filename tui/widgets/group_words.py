"""Numbers of consumer groups as words, the same in the list and in what one group reads."""

from __future__ import annotations

from core.units import format_duration
from core.watch.groups.lag import GroupView, Pace, PartitionView
from tui.widgets.lines import Line, Span, Tone, dim, plain

SETTLED = ("stable", "empty", "")
_STATES = {
    "preparing_rebalancing": "rebalancing",
    "completing_rebalancing": "rebalancing",
    "unknown": "not known",
}


def state_words(state: str) -> str:
    """Return a group's state as people say it."""
    return _STATES.get(state, state.replace("_", " "))


def number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def lag_words(of: GroupView) -> str:
    """Return the messages that are unread, with a `+` where there may be more."""
    return number(of.lag) + ("+" if of.is_least and of.lag is not None else "")


def rate(per_s: float) -> str:
    """Return messages a second, with a digit after the point where there are few; `4.86M` fits."""
    if per_s >= 1e6:
        return f"{per_s / 1e6:,.2f}M"
    return f"{per_s:,.1f}" if 0 < per_s < 10 else f"{per_s:,.0f}"


def pace_words(of: GroupView | PartitionView) -> Line:
    """Return when its lag is gone, or that it grows."""
    rates = of.rates
    match of.pace:
        case Pace.NO_LAG:
            return (Span("√", Tone.FINE),)
        case Pace.KEEPS_UP:
            return (Span("√", Tone.FINE), dim(" keeps up"))
        case Pace.CATCHES_UP if of.catch_up_seconds is not None:
            return (plain(f"in {format_duration(of.catch_up_seconds)}"),)
        case Pace.STAYS:
            return (plain(f"{format_duration(_behind_seconds(of))} behind"),)
        case Pace.STUCK | Pace.FALLS_BEHIND if some := _some_never(of):
            return (Span(f"▲ never: {some}", Tone.LOOK, bold=True),)
        case Pace.FALLS_BEHIND if rates is not None:
            grows = rate(rates.produced_per_s - rates.read_per_s)
            return (Span(f"▲ never, +{grows}/s", Tone.LOOK, bold=True),)
        case Pace.STUCK:
            return (Span("▲ nothing is read", Tone.LOOK, bold=True),)
    return (dim("-"),)


def _behind_seconds(of: GroupView | PartitionView) -> float:
    """Return how long ago was produced what is read now, at the rates of those that stay behind."""
    partitions = of.partitions if isinstance(of, GroupView) else ()
    staying = [p for p in partitions if p.pace is Pace.STAYS]
    return max((p.lag or 0) / p.rates.produced_per_s for p in staying or (of,) if p.rates)


def _some_never(of: GroupView | PartitionView) -> str:
    """Return how many of a group's partitions never catch up; "" where all do, or none."""
    if not isinstance(of, GroupView) or len(of.never) in (0, len(of.partitions)):
        return ""
    return f"{len(of.never):,} of {len(of.partitions):,}"
