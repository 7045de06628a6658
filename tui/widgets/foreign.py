"""Moves in flight that no run of this machine is carrying out: shown, never touched."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from core.cluster.state import ClusterState, TopicPartition
from core.units import format_bytes
from tui.widgets.bars import bar
from tui.widgets.lines import Line, Lines, Span, Tone, dim, fit, left, plain, right
from tui.widgets.plan_diff import change_words


@dataclass(frozen=True, slots=True)
class ForeignMove:
    """One partition in flight: its target is known, the order that it had before is not."""

    tp: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    total_bytes: int | None
    arrived_bytes: int | None


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


def foreign_lines(moves: Collection[ForeignMove], width: int, height: int) -> Lines:
    """Return one line a move; the last counts those left out."""
    track = max(min(width // 4, 30), 8)
    lines: list[Line] = []
    for move in moves:
        if len(lines) == height - 1 and len(moves) > height:
            lines.append(fit((dim(f"  and {len(moves) - len(lines)} more"),), width))
            break
        known = move.total_bytes and move.arrived_bytes is not None
        share = (move.arrived_bytes or 0) / move.total_bytes if move.total_bytes and known else 0.0
        amount = f"{share:.0%} of {format_bytes(move.total_bytes)}" if known else "bytes not known"
        lines.append(
            fit(
                (
                    plain("  "),
                    Span(left(str(move.tp), 24) + " "),
                    plain(left(change_words(move.before, move.after), 9) + " "),
                    *bar(share, track, Tone.YOURS),
                    plain(right(amount, 18)),
                ),
                width,
            )
        )
    return tuple(lines)
