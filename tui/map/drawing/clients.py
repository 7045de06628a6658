"""Client health on the map: verdicts, a sentence for one broker, a number for each.

Pure: a probe's report goes in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.load.view.verdicts import Verdict, Weight
from core.units import format_duration
from tui.drawing.canvas import Row
from tui.drawing.spans import Line, Span, Tone, dim
from tui.map.drawing.topic_rows import Grid

if TYPE_CHECKING:
    from core.cluster.state import ClusterState
    from core.watch.client_health.health_detector import BrokerHealth
    from core.watch.client_health.report import ProbeReport


def client_verdicts(report: ProbeReport, state: ClusterState) -> tuple[Verdict, ...]:
    """Return a verdict for each live broker whose clients suffer, the worst first."""
    from core.watch.client_health.health_detector import Health, format_milliseconds

    dead = {broker.id for broker in state.brokers if not broker.alive}
    verdicts = []
    for entry in report.brokers:
        if entry.lasts_seconds is None or entry.broker in dead:
            continue
        name = f"b{entry.broker}"
        if entry.health is Health.SLOW:
            worst = max(entry.produce.p99_ms or 0.0, entry.fetch.p99_ms or 0.0)
            words = f"{name} slow for clients: p99 {format_milliseconds(worst)}"
            short, weight = f"{name} slow", Weight.LOOK
        else:
            why = entry.errors[-1] if entry.errors else entry.health.value
            words, short, weight = f"clients of {name}: {why}", f"{name} fails clients", Weight.ACT
        id = f"clients-{entry.broker}"
        verdicts.append(Verdict(id, weight, words, short, broker=entry.broker))
    return tuple(sorted(verdicts, key=lambda verdict: verdict.weight))


def client_words(entry: BrokerHealth) -> Line:
    """Return what clients feel at one broker in a line."""
    from core.watch.client_health.health_detector import Health, format_milliseconds

    match entry.health:
        case Health.WAITING:
            return (dim("clients: nothing heard yet"),)
        case Health.FAILING | Health.DOWN:
            errors = ", ".join(entry.errors) or entry.health.value
            words = f"clients: {errors} for {format_duration(entry.lasts_seconds)}"
            return (Span(words, Tone.ACT, True),)
    tone = Tone.LOOK if entry.health is Health.SLOW else Tone.PLAIN
    parts = [dim("clients p50/p99  ")]
    for what, wait in (("produce", entry.produce), ("fetch", entry.fetch)):
        times = f"{format_milliseconds(wait.p50_ms)}/{format_milliseconds(wait.p99_ms)}  "
        parts += [dim(f"{what} "), Span(times, tone)]
    return tuple(parts)


def client_words_short(entry: BrokerHealth) -> Line:
    """Return the same where there is little room: p99 alone."""
    from core.watch.client_health.health_detector import Health, format_milliseconds

    if entry.health not in (Health.FINE, Health.SLOW):
        tone = Tone.DIM if entry.health is Health.WAITING else Tone.ACT
        return (Span(f"clients {entry.health.value}", tone),)
    tone = Tone.LOOK if entry.health is Health.SLOW else Tone.PLAIN
    produce, fetch = (format_milliseconds(of.p99_ms) for of in (entry.produce, entry.fetch))
    return (dim("p99  "), Span(f"produce {produce}  fetch {fetch}", tone))


def client_number(entry: BrokerHealth) -> tuple[float | None, str]:
    """Return the larger p99 of one broker in ms, and its role; None for one that fails."""
    from core.watch.client_health.health_detector import Health

    if entry.health in (Health.FAILING, Health.DOWN):
        return None, "act"
    known = [wait.p99_ms for wait in (entry.produce, entry.fetch) if wait.p99_ms is not None]
    return max(known, default=None), "look" if entry.health is Health.SLOW else "text"


TITLE = "clients p99 ms"


def draw_clients(row: Row, grid: Grid, report: ProbeReport) -> None:
    """Draw it; a broker that is not probed yet has nothing."""
    model, columns, brush = grid.model, grid.columns, grid.brush
    row.put(columns.name_at, TITLE[: columns.cells_at - 2], brush.style("text"))
    for column, broker in enumerate(model.state.brokers):
        at, entry = columns.at(column), report.of(broker.id)
        if at is None or entry is None:
            continue
        value, role = client_number(entry)
        suffers = role != "text"
        text = ("✗" if suffers else "") if value is None else _format_ms(value)
        if len(text) > columns.digits and not suffers and column != model.column:
            text = ""  # numbers that touch cannot be told apart
        if len(text) > columns.cell:
            text = "▲" if suffers else ""
        row.put_right(at + columns.cell, text, brush.style(role, bold=suffers))


def _format_ms(milliseconds: float) -> str:
    """Return it in at most four characters: `0.8`, `12`, `310`, `4.1k` from ten seconds on."""
    if milliseconds < 9.95:
        return f"{milliseconds:.1f}"
    return f"{milliseconds:.0f}" if milliseconds < 9999.5 else f"{milliseconds / 1000:.0f}k"
