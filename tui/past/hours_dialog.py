"""Asks to which of the kept hours to go; each with what the brokers carried then."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from textual.widgets import Button

from core.errors import TrimtabError
from core.units import counted, format_bytes, format_rate
from tui.dialogs.base import TableDialog
from tui.drawing.spans import (
    Line,
    Lines,
    Span,
    Tone,
    bright,
    dim,
    highlight_line,
    left,
    plain,
    right,
    window,
    wrap_text,
)

if TYPE_CHECKING:
    from core.load.snapshot.kept import Kept, KeptSnapshot

EDGE = 10**6
FRAME = 12
"""Lines of the dialog and around it beside the hours."""


class HoursDialog(TableDialog["KeptSnapshot"]):
    """Returns the hour that is chosen, None when it was left; the newest is first."""

    KEYS: ClassVar[Mapping[str, int]] = {
        **TableDialog.KEYS,
        "pagedown": 24,
        "pageup": -24,
        "g": -EDGE,
        "home": -EDGE,
        "G": EDGE,
        "end": EDGE,
    }

    def __init__(self) -> None:
        super().__init__("Leave it", "Show it")
        self._hours: tuple[KeptSnapshot, ...] | None = None
        self._left_out = 0
        self._problem: TrimtabError | None = None
        self._at = 0

    @property
    def _title(self) -> str:
        return "Go to a published hour"

    def on_mount(self) -> None:
        session = self.dashboard.session
        assert session.state is not None
        cluster_id, place, known = session.state.cluster_id, session.snapshots, session.kept

        def work() -> Kept:
            from core.load.load_paths import root_of
            from core.load.snapshot.kept import read_kept

            return read_kept(root_of(place), cluster_id, known)

        self.dashboard.run_in_background("hours", work, self._take)

    def _take(self, outcome: Kept | TrimtabError) -> None:
        if not self.is_current:
            return
        if isinstance(outcome, TrimtabError):
            self._problem = outcome
        else:
            session = self.dashboard.session
            session.kept, self._left_out = outcome, len(outcome.left_out)
            self._hours = outcome.hours[::-1]
            if (then := session.past_moment) is not None:
                self._at = self._row_of(then.at)
        self.draw()
        button = self.query_one("#yes", Button)
        if not button.disabled:
            button.focus()

    def _row_of(self, moment: datetime) -> int:
        hours = self._hours or ()
        later = sum(hour.published_at > moment for hour in hours)
        return min(later, max(len(hours) - 1, 0))

    @property
    def chosen(self) -> KeptSnapshot | None:
        return self._hours[self._at] if self._hours else None

    def step(self, rows: int) -> None:
        if self._hours:
            self._at = min(max(self._at + rows, 0), len(self._hours) - 1)
            self.draw()

    def table(self, width: int) -> Lines:
        if self._problem is not None:
            words = f"{self._problem.title} {self._problem.next}"
            return tuple((Span(part, Tone.LOOK),) for part in wrap_text(words, width, 3))
        if self._hours is None:
            return ((dim("reading which hours are kept"),),)
        lines: list[Line] = []
        if self._hours:
            heads = f"{'published':<20}{'in':>11}{'out':>11}{'size':>11}{'max/mean in':>13}"
            lines.append((dim(f"  {heads}"),))
        else:
            lines.append((dim("No load has been published for this cluster yet."),))
        for i in window(len(self._hours), max(self.size.height - FRAME, 3), self._at):
            line = _hour_line(self._hours[i], chosen=i == self._at)
            lines.append(highlight_line(line, width) if i == self._at else line)
        if self._left_out:
            what = counted(self._left_out, "snapshot")
            words = f"{what} cannot be read: `trimtab snapshot ls` says why."
            lines += [(Span(part, Tone.LOOK),) for part in wrap_text(words, width, 2)]
        return tuple(lines)


def _hour_line(hour: KeptSnapshot, *, chosen: bool) -> Line:
    at = hour.published_at.astimezone(UTC)
    skew = "" if hour.in_skew is None else f"{hour.in_skew:.1f}×"
    return (
        Span("▸ " if chosen else "  ", Tone.YOURS, bold=True),
        (bright if chosen else plain)(left(f"{at:%a %-d %b %H:%M}Z", 20)),
        plain(right(format_rate(hour.in_bytes_per_s), 11)),
        plain(right(format_rate(hour.out_bytes_per_s), 11)),
        plain(right(format_bytes(hour.size_bytes), 11)),
        dim(right(skew, 13)),
    )
