"""The panel beside the Load screen's chart: the numbers, and what they are made of."""

from __future__ import annotations

import math
from collections.abc import Callable

from core.load.snapshot.format import HORIZONS, LoadSnapshot, Source
from core.units import format_bytes, format_rate
from tui.load_numbers import Numbers
from tui.widgets.lines import Line, Lines, Span, Tone, bright, dim, fit, plain, right

RATE_NAMES = {
    "in_bytes_per_s": "in",
    "out_bytes_per_s": "out",
    "messages_per_s": "messages",
}


def numbers_lines(numbers: Numbers | None, width: int, *, brief: bool = False) -> Lines:
    """Return one line for each rate and statistic that is known, over the three horizons."""
    if numbers is None:
        return (fit((dim("  reading"),), width),)
    cell = max((width - 15) // 3, 9)
    head = (dim(" " * 15), *(dim(right(horizon, cell)) for horizon in HORIZONS))
    lines = [fit(head, width)]
    last = ""
    for (rate, statistic), values in numbers.rates.items():
        if all(math.isnan(value) for value in values) or (brief and statistic != "avg"):
            continue
        name = RATE_NAMES[rate]
        form = _count if rate == "messages_per_s" else format_rate
        lines.append(
            fit(
                (
                    plain(f"  {name if name != last else '':<9}"),
                    dim(f"{statistic:<4}"),
                    *(
                        (bright if statistic == "avg" else plain)(right(known_words(v, form), cell))
                        for v in values
                    ),
                ),
                width,
            )
        )
        last = name
    size = known_words(numbers.size_bytes, format_bytes)
    growth = known_words(numbers.growth_bytes_per_s, format_rate)
    lines.append(fit((plain("  size     "), bright(size), dim("   grows "), plain(growth)), width))
    if numbers.quality:
        tone = Tone.FINE if numbers.quality.startswith("full") else Tone.LOOK
        lines.append(fit((plain("  quality  "), Span(numbers.quality, tone)), width))
    return tuple(lines)


def snapshot_lines(snapshot: LoadSnapshot, age: str, width: int) -> Lines:
    """Return who published it, how old it is, and what became of the samples."""
    counts = snapshot.counts
    quarantined = sum(counts.quarantined.values())
    source = {
        Source.SPARK: "Spark",
        Source.SIMULATED: "simulated",
        Source.LIVE: "the collector's last interval",
        Source.DOCUMENT: "a saved document",
    }[snapshot.source]
    lines: list[Line] = [
        (dim("  from     "), plain(source), dim(f", {age}" if age else "")),
    ]
    if counts.read:
        lines.append(
            (
                dim("  samples  "),
                plain(f"{counts.read:,} read, {counts.accepted:,} accepted"),
                dim(f", {counts.duplicate:,} duplicate, {counts.late:,} late")
                if width >= 76
                else plain(""),
            )
        )
        if width < 76:
            words = f"{counts.duplicate:,} duplicate, {counts.late:,} late"
            lines.append((dim(f"           {words}"),))
    if quarantined:
        lines.append(
            (dim("  set aside "), Span(f"{quarantined:,} in quarantine", Tone.LOOK, bold=True))
        )
        worst = sorted(counts.quarantined.items(), key=lambda item: -item[1])[:3]
        lines += [(dim(f"           {count:,} {why}"),) for why, count in worst]
    lines.append((dim(f"  named    {snapshot.snapshot_id}"),))
    return tuple(fit(line, width) for line in lines)


def _count(value: float) -> str:
    return format_bytes(value, unit="/s")


def known_words(value: float, form: Callable[[float], str]) -> str:
    """Return a number in words; a dash when it is unknown."""
    return "–" if math.isnan(value) else form(value)
