"""Numbers of consumer groups as words, the same in the list and in what one group reads."""

from __future__ import annotations

from core.units import format_duration
from core.watch.groups import GroupView, PartitionView
from tui.group_view import Pace, pace_of
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


def rate(per_s: float) -> str:
    """Return messages a second, with a digit after the point where there are few."""
    return f"{per_s:,.1f}" if 0 < per_s < 10 else f"{per_s:,.0f}"


def pace_words(of: GroupView | PartitionView) -> Line:
    """Return when its lag is gone, or that it grows."""
    lag, rates = of.lag, of.rates
    match pace_of(of):
        case Pace.NO_LAG:
            return (Span("√", Tone.FINE),)
        case Pace.KEEPS_UP:
            return (Span("√", Tone.FINE), dim(" keeps up"))
        case Pace.CATCHES_UP if rates is not None and lag is not None:
            return (plain(f"in {format_duration(rates.catch_up_seconds(lag))}"),)
        case Pace.FALLS_BEHIND if rates is not None:
            grows = rate(rates.produced_per_s - rates.read_per_s)
            return (Span(f"▲ never, +{grows}/s", Tone.LOOK, bold=True),)
        case Pace.STAYS if rates is not None and lag is not None:
            behind = format_duration(lag / rates.produced_per_s)
            return (plain(f"{behind} behind"),)
        case Pace.STUCK:
            return (Span("▲ nothing is read", Tone.LOOK, bold=True),)
    return (dim("-"),)
