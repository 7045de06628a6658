"""The numbers beside a chart of load: averages, peaks, growth and quality, and their panel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from core.cluster.metadata import TopicPartition
from core.load.load import Source
from core.load.snapshot.format import HORIZONS, RATES, STATISTICS, LoadSnapshot, Quality
from core.units import format_bytes, format_rate
from tui.drawing.spans import Line, Lines, Span, Tone, bright, dim, plain, right

if TYPE_CHECKING:
    from core.load.windows import LoadHistory


HORIZON_SECONDS = {"5m": 300.0, "1h": 3600.0, "24h": 86400.0}


@dataclass(frozen=True, slots=True)
class Numbers:
    """`rates[(rate, statistic)]` are values for HORIZONS; NaN is unknown."""

    rates: dict[tuple[str, str], tuple[float, ...]]
    size_bytes: float
    growth_bytes_per_s: float
    quality: str


def partition_numbers(snapshot: LoadSnapshot, tp: TopicPartition) -> Numbers | None:
    """Return a partition's numbers as published; None when the snapshot lacks it."""
    row = row_of(snapshot, tp)
    if row is None:
        return None
    rates = {
        (rate, statistic): tuple(
            float(snapshot.rate(rate, horizon, statistic)[row]) for horizon in HORIZONS
        )
        for rate in RATES
        for statistic in STATISTICS
    }
    size = float(snapshot.size_bytes[row])
    return Numbers(
        rates,
        size if size >= 0 else float("nan"),
        float(snapshot.growth_bytes_per_s[row]),
        Quality(int(snapshot.quality[row])).name.lower(),
    )


def broker_numbers(history: LoadHistory) -> Numbers:
    """Return a broker's numbers over its 5-minute windows, up to the newest one.

    A broker's p95 and max are those of its windows: partitions do not peak together, so theirs
    cannot be added.
    """
    rates: dict[tuple[str, str], tuple[float, ...]] = {}
    newest = float(history.starts[-1]) if len(history) else 0.0
    for (rate, statistic), values in history.rates.items():
        if statistic != "avg":
            continue
        finite = np.isfinite(values)
        parts = [
            values[finite & (history.starts > newest - HORIZON_SECONDS[horizon])]
            for horizon in HORIZONS
        ]
        rates[rate, "avg"] = tuple(float(part.mean()) if len(part) else np.nan for part in parts)
        rates[rate, "p95"] = tuple(
            float(np.percentile(part, 95)) if len(part) else np.nan for part in parts
        )
        rates[rate, "max"] = tuple(float(part.max()) if len(part) else np.nan for part in parts)
    sized = np.flatnonzero(np.isfinite(history.size_bytes))
    size = float(history.size_bytes[sized[-1]]) if len(sized) else np.nan
    return Numbers(rates, size, _growth(history), "")


def row_of(snapshot: LoadSnapshot, tp: TopicPartition) -> int | None:
    """Return the row of a partition in a snapshot; rows are sorted by topic and number."""
    if tp.topic not in snapshot.topics:
        return None
    topic = snapshot.topics.index(tp.topic)
    start, stop = np.searchsorted(snapshot.topic_of, (topic, topic + 1))
    at = int(start) + int(np.searchsorted(snapshot.partition[start:stop], tp.partition))
    return at if at < stop and snapshot.partition[at] == tp.partition else None


def _growth(history: LoadHistory) -> float:
    """Return bytes/s between the first and the last known size of the last hour."""
    if not len(history):
        return np.nan
    recent = np.isfinite(history.size_bytes) & (history.starts > history.starts[-1] - 3600)
    at = np.flatnonzero(recent)
    if len(at) < 2:
        return np.nan
    first, last = at[0], at[-1]
    passed = float(history.starts[last] - history.starts[first])
    return float(history.size_bytes[last] - history.size_bytes[first]) / passed


SERIES = {
    "in_bytes_per_s": ("in", Tone.YOURS),
    "out_bytes_per_s": ("out", Tone.LOOK),
    "messages_per_s": ("messages", Tone.YOURS),
    "size_bytes": ("size", Tone.FINE),
}
"""What is drawn of a load: its name and its tone in the chart."""


def numbers_lines(numbers: Numbers | None, width: int, *, brief: bool = False) -> Lines:
    """Return one line for each rate and statistic that is known, over the three horizons."""
    if numbers is None:
        return ((dim("  reading"),),)
    cell = max((width - 15) // 3, 9)
    lines: list[Line] = [(dim(" " * 15), *(dim(right(name, cell)) for name in HORIZONS))]
    last = ""
    for (rate, statistic), values in numbers.rates.items():
        if all(math.isnan(value) for value in values) or (brief and statistic != "avg"):
            continue
        name, _ = SERIES[rate]
        form = partial(format_bytes, unit="/s") if rate == "messages_per_s" else format_rate
        lines.append(
            (
                plain(f"  {name if name != last else '':<9}"),
                dim(f"{statistic:<4}"),
                *(
                    (bright if statistic == "avg" else plain)(right(known_words(v, form), cell))
                    for v in values
                ),
            )
        )
        last = name
    size = known_words(numbers.size_bytes, format_bytes)
    growth = known_words(numbers.growth_bytes_per_s, format_rate)
    lines.append((plain("  size     "), bright(size), dim("   grows "), plain(growth)))
    if numbers.quality:
        tone = Tone.FINE if numbers.quality.startswith("full") else Tone.LOOK
        lines.append((plain("  quality  "), Span(numbers.quality, tone)))
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
        samples = plain(f"{counts.read:,} read, {counts.accepted:,} accepted")
        words = f"{counts.duplicate:,} duplicate, {counts.late:,} late"
        if width >= 76:
            lines.append((dim("  samples  "), samples, dim(f", {words}")))
        else:
            lines += [(dim("  samples  "), samples), (dim(f"           {words}"),)]
    if quarantined:
        lines.append(
            (dim("  set aside "), Span(f"{quarantined:,} in quarantine", Tone.LOOK, bold=True))
        )
        worst = sorted(counts.quarantined.items(), key=lambda item: -item[1])[:3]
        lines += [(dim(f"           {count:,} {why}"),) for why, count in worst]
    lines.append((dim(f"  named    {snapshot.snapshot_id}"),))
    return tuple(lines)


def known_words(value: float, form: Callable[[float], str]) -> str:
    """Return a number in words; a dash when it is unknown."""
    return "–" if math.isnan(value) else form(value)
