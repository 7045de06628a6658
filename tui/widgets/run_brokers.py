"""Brokers of a run against their limits: a bar for each broker and side, now and on average."""

from __future__ import annotations

from collections.abc import Sequence

from core.run.reporting.views import BrokerProgress
from core.run.throttles.inflow import FLOOR_BYTES_PER_S
from core.units import UNLIMITED, format_rate
from tui.widgets.bars import bar
from tui.widgets.lines import Line, Lines, Span, Tone, bright, dim, fit, left, right

MEGA = 10**6
UNITS = {"B/s": 1, "kB/s": 10**3, "MB/s": MEGA, "GB/s": 10**9, "TB/s": 10**12}


def broker_lines(brokers: Sequence[BrokerProgress], width: int, height: int) -> Lines:
    """Return brokers against their limits; what is left out is counted on the last line."""
    if not brokers:
        return (fit((dim("  no broker has a part in it yet"),), width),)
    cut = len(brokers) > height
    lines = [_line(broker, width) for broker in brokers[: height - cut]]
    if cut:
        lines.append(fit((dim(f"  and {len(brokers) - len(lines)} more"),), width))
    return tuple(lines)


def _line(broker: BrokerProgress, width: int) -> Line:
    track = min(width // 3, 40) if width >= 100 else max(width // 4, 8)
    limit = broker.limit_bytes_per_s
    now = broker.bytes_per_s or 0.0
    unlimited = limit is None or limit == UNLIMITED
    fraction = 0.0 if unlimited or not limit else now / limit
    tone = Tone.LOOK if broker.why and not now else Tone.PLAIN if now else Tone.DIM
    whole = format_rate(now if unlimited else limit)
    unknown = broker.bytes_per_s is None
    said = "?" if unknown else whole if unlimited else _in_unit_of(whole, now)
    against = said if unlimited else f"{said} / {whole}"
    why = broker.why or ("no limit" if unlimited else "")
    average = broker.average_bytes_per_s
    told = "" if average is None else f"avg {_in_unit_of(whole, average)}"
    if limit == FLOOR_BYTES_PER_S:  # nothing can be compared with that
        against, fraction, tone = "held", 0.0, Tone.DIM
        told = "" if average is None else f"avg {format_rate(average)}"
        why = broker.why
    room = max(10, len(told) + 1)
    return fit(
        (
            bright(f"  {f'b{broker.broker}':<5}"),
            dim(left(broker.side, 10)),
            *bar(fraction, track),
            Span(right(against, 27 - room), tone),
            dim(right(told, room)),
            Span(f"   {why}", Tone.LOOK if tone is Tone.LOOK else Tone.DIM),
        ),
        width,
    )


def _in_unit_of(whole: str, rate: float) -> str:
    """Return a rate as a number in the unit of another one, so that they can be compared."""
    part = rate / UNITS.get(whole.rpartition(" ")[2], MEGA)
    return f"{part:.0f}" if rate == 0 or part >= 9.95 else f"{part:.1f}"
