"""Moves in flight that no run of this machine is carrying out: adopted for the eye, never touched.

Their progress is told from what successive pictures of the cluster show.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from core.cluster.state import ClusterState, TopicPartition
from core.units import format_bytes, format_duration, format_rate
from tui.widgets.bars import bar, line_bar
from tui.widgets.lines import BLANK, Line, Lines, Span, Tone, bright, dim, fit, left, plain, right
from tui.widgets.plan_diff import change_words
from tui.widgets.run_rows import amount_words, partition_name
from tui.widgets.run_state import joined

RATE_SECONDS = 30.0
STUCK_SECONDS = 60.0
NOTE = "Somebody else's: shown, never cleared, never overridden, never changed."


@dataclass(frozen=True, slots=True)
class ForeignMove:
    """One partition in flight: its target is known, the order that it had before is not."""

    tp: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    total_bytes: int | None
    arrived_bytes: int | None
    since: datetime | None = None
    """When it was first seen in flight."""
    bytes_per_s: float | None = None
    average_bytes_per_s: float | None = None
    idle_seconds: float = 0.0
    """How long no byte has come."""

    @property
    def left_seconds(self) -> float | None:
        rate = self.bytes_per_s or self.average_bytes_per_s
        if not rate or self.total_bytes is None or self.arrived_bytes is None:
            return None
        return max(0, self.total_bytes - self.arrived_bytes) / rate


def foreign_moves(state: ClusterState, ours: Collection[TopicPartition]) -> tuple[ForeignMove, ...]:
    """Return the partitions in flight that are not `ours`."""
    found = []
    moving = np.unique(state.partition_of_replica[state.adding | state.removing])
    for index in moving.tolist():
        row = state.row(index)
        if row.tp in ours:
            continue
        at = state.replica_slice(index)
        sizes = state.size_bytes[at]
        adding = state.adding[at]
        whole = int(state.partition_size_bytes[index])
        arrived = sizes[adding]
        found.append(
            ForeignMove(
                row.tp,
                tuple(b for b in row.replicas if b not in row.adding),
                tuple(b for b in row.replicas if b not in row.removing),
                whole * int(adding.sum()) if whole >= 0 else None,
                int(arrived.sum()) if len(arrived) and (arrived >= 0).all() else None,
            )
        )
    return tuple(found)


class ForeignWatch:
    """Remembers what pictures of the cluster showed of others' moves; forgets those that ended."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, list[tuple[datetime, int]]] = {}
        self._since: dict[TopicPartition, datetime] = {}
        self._last: datetime | None = None

    def take(self, state: ClusterState, ours: Collection[TopicPartition]) -> None:
        """Take a picture in."""
        self._last = at = state.fetched_at
        moves = foreign_moves(state, ours)
        flying = {move.tp for move in moves}
        for gone in self._since.keys() - flying:
            del self._since[gone]
            self._seen.pop(gone, None)
        for move in moves:
            self._since.setdefault(move.tp, at)
            track = self._seen.setdefault(move.tp, [])
            if move.arrived_bytes is not None and (not track or track[-1][1] != move.arrived_bytes):
                track.append((at, move.arrived_bytes))
            while len(track) > 2 and (at - track[1][0]).total_seconds() > RATE_SECONDS:
                del track[0]

    def look(
        self, state: ClusterState, ours: Collection[TopicPartition]
    ) -> tuple[ForeignMove, ...]:
        """Return others' moves with the progress that was seen of them."""
        return tuple(self._told(move) for move in foreign_moves(state, ours))

    def _told(self, move: ForeignMove) -> ForeignMove:
        track, since = self._seen.get(move.tp), self._since.get(move.tp)
        if not track or since is None or self._last is None:
            return replace(move, since=since)
        (begun, first), (newest, last) = track[0], track[-1]
        took = (newest - begun).total_seconds()
        idle = (self._last - newest).total_seconds()
        rate = max(0, last - first) / took if took > 0 else None
        return replace(
            move,
            since=since,
            bytes_per_s=0.0 if idle > RATE_SECONDS else rate,
            average_bytes_per_s=rate,
            idle_seconds=idle,
        )


def foreign_page(moves: Sequence[ForeignMove], width: int, height: int) -> Lines:
    """Return the adopted view: how far others' moves are, and that they are others'."""
    known = [m for m in moves if m.total_bytes is not None and m.arrived_bytes is not None]
    total = sum(m.total_bytes or 0 for m in known)
    arrived = sum(m.arrived_bytes or 0 for m in known)
    left_all = [m.left_seconds for m in moves]
    facts: list[Line] = [
        (Span("◆ NOT OURS", Tone.LOOK, bold=True), bright(f"  {len(moves)} in flight"))
    ]
    if known:
        facts.append((plain(amount_words(arrived, total, " of ")),))
    times = [seconds for seconds in left_all if seconds is not None]
    if times and len(times) == len(moves):
        facts.append((bright(f"{format_duration(max(times))} left"),))
    rates = [m.bytes_per_s for m in moves if m.bytes_per_s is not None]
    if rates:
        facts.append((plain(f"now {format_rate(sum(rates))}"),))
    since = min((m.since for m in moves if m.since), default=None)
    if since is not None:
        facts.append((dim(f"seen since {since.astimezone(UTC):%H:%M:%S}Z"),))
    share = arrived / total if total else 0.0
    lines: list[Line] = [
        joined(facts, width),
        (plain(" "), *line_bar(share, 1.0, width - 2)),
        fit((dim(f"   {NOTE}"),), width),
        BLANK,
        _header(width),
    ]
    return (*lines, *foreign_lines(moves, width, height - len(lines)))


def foreign_lines(moves: Collection[ForeignMove], width: int, height: int) -> Lines:
    """Return one line a move; the last counts those left out."""
    lines: list[Line] = []
    for move in moves:
        if len(lines) == height - 1 and len(moves) > height:
            lines.append(fit((dim(f"  and {len(moves) - len(lines)} more"),), width))
            break
        lines.append(_line(move, width))
    return tuple(lines)


def _widths(width: int) -> tuple[int, int, int]:
    """Return the widths of name, change and bar."""
    if width >= 160:
        return 32, 14, 50
    return (20, 10, 25) if width >= 110 else (17, 8, max(width - 66, 6))


def _header(width: int) -> Line:
    name, change, track = _widths(width)
    columns = left("partition", name) + left("move", change) + left("progress", track)
    words = f"{left('bytes', 15)}{right('now', 9)}{right('left', 9)}"
    return fit((dim(f"  {columns}  {words}"),), width)


def _line(move: ForeignMove, width: int) -> Line:
    name, change, track = _widths(width)
    known = move.total_bytes and move.arrived_bytes is not None
    share = (move.arrived_bytes or 0) / move.total_bytes if move.total_bytes and known else 0.0
    total = move.total_bytes
    whole = f"of {format_bytes(total)}" if total else "bytes not known"
    amount = amount_words(move.arrived_bytes or 0, total) if known and total else whole
    idle = move.idle_seconds >= STUCK_SECONDS
    rate = "" if move.bytes_per_s is None else format_rate(move.bytes_per_s)
    time_left = "" if move.left_seconds is None or idle else format_duration(move.left_seconds)
    said = f"▲ no byte for {format_duration(move.idle_seconds)}" if idle else ""
    return fit(
        (
            plain("  "),
            plain(left(partition_name(move.tp, name - 1), name)),
            plain(left(change_words(move.before, move.after), change - 1) + " "),
            *bar(share, track, Tone.LOOK if idle else Tone.DIM),
            plain("  "),
            plain(left(amount, 15)),
            Span(right(rate, 9), Tone.LOOK if idle else Tone.PLAIN),
            bright(right(time_left, 9)),
            Span(f"  {said}", Tone.LOOK, bold=True),
        ),
        width,
    )
