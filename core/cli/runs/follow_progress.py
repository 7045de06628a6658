"""Follows a run to its end: a progress bar, or events as JSON lines; Ctrl-C detaches."""

from __future__ import annotations

import signal
import sys
from typing import IO, TYPE_CHECKING

import click

from core.cli.common.foreground import exit_on_signals
from core.cli.common.output import CLEAR, discard_output, emit_line, say
from core.errors import ExitCode
from core.run.reporting.alerts import Notice, NoticeTracker
from core.run.reporting.documents import follow
from core.run.reporting.report import brings_back, headline, left_lines
from core.run.reporting.views import RunStatus, RunView
from core.settings import load_settings
from core.text.terminal import notice_sequence, printable
from core.units import format_bytes, format_duration, format_rate

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

STEPS = 1000
EXITS = {
    RunStatus.DONE: ExitCode.DONE,
    RunStatus.FAILED: ExitCode.FAILED,
    RunStatus.CANCELLED: ExitCode.INCOMPLETE,
    RunStatus.ROLLED_BACK: ExitCode.INCOMPLETE,
    RunStatus.INCOMPLETE: ExitCode.INCOMPLETE,
    RunStatus.DIED: ExitCode.INCOMPLETE,
}
DETACHED = 128 + signal.SIGINT
READER_GONE = 128 + signal.SIGPIPE
"""As a shell tells of whoever writes to a pipe that nobody reads: the run's end is not known."""


def follow_run(cluster_id: str, run: str, *, as_json: bool) -> int:
    """Follow a run to its end and return its exit code; Ctrl-C or a closed pipe lets go of it."""
    try:
        return (
            _follow_with_events(cluster_id, run) if as_json else _follow_with_bar(cluster_id, run)
        )
    except KeyboardInterrupt:
        say("")
        code = DETACHED
    except BrokenPipeError:
        discard_output()
        code = READER_GONE
    say(f"Detached; the run continues. Follow it again: trimtab runs attach {run}")
    say(f"Cancel it: trimtab runs cancel {run}")
    return code


def _follow_with_events(cluster_id: str, run: str) -> int:
    state = RunStatus.STARTING
    for view, events in follow(cluster_id, run):
        state = view.state
        for event in events:
            emit_line(event)
    return EXITS[state]


def _follow_with_bar(cluster_id: str, run: str) -> int:
    shown, progress = 0, ""
    stream = sys.stderr
    last: RunView | None = None
    notices = NoticeTracker()
    bar: ProgressBar[int] = click.progressbar(
        length=STEPS,
        file=stream,
        bar_template="%(bar)s %(info)s",
        width=30,
        show_percent=False,
        show_eta=False,
        show_pos=False,
        item_show_func=lambda _: progress,
        fill_char="█",
        empty_char="·",
    )
    with exit_on_signals(signal.SIGHUP, signal.SIGTERM):
        try:
            for view, _ in follow(cluster_id, run):
                for event in view.events[shown:]:
                    clear = CLEAR if stream.isatty() else ""
                    line = f"{event.at:%H:%M:%S}  {printable(event.text)}"
                    click.echo(f"{clear}{line}", file=stream)  # noqa: TID251 - over the bar
                shown, progress = len(view.events), _progress_text(view)
                bar.pos = round(STEPS * _share_done(view))
                bar.render_progress()
                notify_terminal(notices.update(view), stream)
                last = view
        finally:
            # A bar hides the cursor as it is drawn: whatever ends this shows it again.
            bar.render_finish()
    assert last is not None, "follow yields at least once"
    say(headline(last) + (f"\n{last.why}" if last.why else ""))
    if last.leftovers is not None:
        say("\n".join(left_lines(last.leftovers)))
    if last.state is RunStatus.DIED:
        say(brings_back(run))
    return EXITS[last.state]


def notify_terminal(notice: Notice | None, stream: IO[str]) -> None:
    """Ring, and have a terminal tell the desktop, as far as the user wants it."""
    if notice is None or not stream.isatty():
        return
    by = load_settings().notify
    words = ("\a" if by.bell else "") + (
        notice_sequence(notice.title, notice.text) if by.desktop else ""
    )
    click.echo(words, file=stream, nl=False)  # noqa: TID251 - sequences of our own


def _share_done(view: RunView) -> float:
    if view.total_bytes:
        return view.moved_bytes / view.total_bytes
    return view.done / view.partitions if view.moves else 1.0


def _progress_text(view: RunView) -> str:
    parts = [f"{view.done:,} of {view.partitions:,} done"]
    if view.total_bytes:
        parts.append(f"{format_bytes(view.moved_bytes)} of {format_bytes(view.total_bytes)}")
    if view.bytes_per_s is not None:
        parts.append(format_rate(view.bytes_per_s))
    if view.left_seconds is not None:
        parts.append(f"{format_duration(view.left_seconds)} left")
    if view.state in (RunStatus.WAITING, RunStatus.CANCELLING):
        parts.append(view.state.value)
    return ", ".join(parts)
