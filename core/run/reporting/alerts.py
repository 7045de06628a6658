"""Alerts about a run: its end and its stalls, each once.

Pure: it compares what was seen of a run with what is seen now; who shows the run rings and writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from core.run.reporting.views import MoveStatus, RunStatus, RunView
from core.units import format_bytes, format_duration

CALM = timedelta(seconds=60)
"""A stall that comes again sooner is the same one."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Words for a desktop notification; no secrets, nothing that only a colour tells."""

    title: str
    text: str


class NoticeTracker:
    """Follows the newest run; a run that is first seen ended, or stalled, is no news."""

    def __init__(self) -> None:
        self._run = ""
        self._ended = self._stalled = False
        self._stalled_at: datetime | None = None

    def update(self, run: RunView | None) -> Notice | None:
        """Take in how a run stands; return what is new in it."""
        if run is None:
            return None
        ended, why = run.state.ended, stall(run)
        if run.run != self._run:
            self._run, self._ended, self._stalled = run.run, ended, bool(why)
            self._stalled_at = run.last_event_at if why else None
            return None
        if ended != self._ended:
            self._ended = ended
            return _end(run) if ended else None
        is_new = self._stalled_at is None or run.last_event_at - self._stalled_at >= CALM
        news = bool(why) and not self._stalled and is_new
        self._stalled = bool(why)
        if why:
            self._stalled_at = run.last_event_at
        if not news or ended:
            return None
        return Notice(f"trimtab: {run.cluster_name} is stuck", f"run {run.run}: {why}")


def stall(run: RunView) -> str:
    """Return why a run in progress gets nowhere by itself, in words; "" while it does."""
    if run.state is RunStatus.WAITING or run.paused_itself:
        return run.why or "it waits"
    stuck = [move for move in run.moves if move.state is MoveStatus.STUCK]
    if not stuck or any(move.state is MoveStatus.MOVING for move in run.moves):
        return ""
    return f"{stuck[0].tp} {stuck[0].why}" if len(stuck) == 1 else f"{len(stuck):,} moves are stuck"


def _end(run: RunView) -> Notice:
    moved = f"{run.done:,} of {run.partitions:,} done, {format_bytes(run.moved_bytes)}"
    if run.state is RunStatus.DIED:
        text = f"run {run.run}: its process died; {moved}"
    else:
        why = f": {run.why}" if run.why else ""
        took = format_duration(run.elapsed_seconds)
        text = f"run {run.run} {run.state.value}{why}; {moved} in {took}"
    return Notice(f"trimtab: {run.cluster_name}", text)
