"""The runs that this machine knows, from their journals; ended ones are kept in a summary.

One file beside a cluster's journals. It may be lost or stale at any time: an entry holds only while
the journal has the size and the time of change that it had when it was read.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from core import files, paths
from core.cluster.known_names import display_name
from core.errors import IncompleteError, UsageError
from core.plan.estimate.calibration import Calibration, Lesson, build_calibration
from core.run.journal.journal import SUFFIX, Journal, JournalError, journal_path
from core.run.journal.records import Record
from core.run.journal.replay import fold
from core.run.journal.run_state import RunState
from core.run.reporting import run_calibration as lessons
from core.run.reporting.progress import run_view
from core.run.reporting.run_calibration import lesson_of
from core.run.reporting.views import RunStatus, RunSummary, RunView, summary
from core.text.json_text import parse_json
from core.units import format_time, parse_time

T = TypeVar("T")

FORMAT = 6
NAME = "ended.json"


@dataclass(frozen=True, slots=True)
class RememberedRun:
    """An ended run in one line, whether it left anything in its cluster, and what it teaches."""

    summary: RunSummary
    left: bool
    lesson: Lesson | None = None


class SummaryCache:
    """The ended runs of one folder; what was learnt is on disk after `save`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._entries = _read(self._path)
        self._changed = False

    def stamp(self, journal: Path) -> list[int] | None:
        """Return what tells this content of a journal from another; take it before reading.

        None when the journal is not there any more.
        """
        try:
            stat = journal.stat()
        except OSError:
            return None
        return [stat.st_size, stat.st_mtime_ns, stat.st_ino]

    def find(self, journal: Path) -> RememberedRun | None:
        """Return what is known of a journal that has not changed since."""
        entry = self._entries.get(journal.name)
        try:
            if not isinstance(entry, dict) or entry["stamp"] != self.stamp(journal):
                return None
            lesson = entry["lesson"] and lessons.from_json(entry["lesson"])
            return RememberedRun(_from_json(entry["summary"]), bool(entry["left"]), lesson)
        except (UsageError, KeyError, TypeError, ValueError):
            return None  # it is read from its journal, which says what is wrong

    def learn(self, journal: Path, stamp: list[int] | None, known: RememberedRun) -> None:
        """Remember an ended run as it was at `stamp`."""
        entry = {
            "stamp": stamp,
            "summary": summary_to_json(known.summary),
            "left": known.left,
            "lesson": known.lesson and lessons.to_json(known.lesson),
        }
        self._entries[journal.name] = entry
        self._changed = True

    def save(self) -> None:
        """Write down what was learnt; on a disk that takes none it is learnt anew the next time."""
        if self._changed:
            there = {path.name for path in self._path.parent.glob(f"*{SUFFIX}")}
            entries = {name: entry for name, entry in self._entries.items() if name in there}
            document = {"format": FORMAT, "runs": entries}
            with suppress(OSError):
                files.write_text(self._path, json.dumps(document, separators=(",", ":")))
                self._path.chmod(0o600)
            self._changed = False


def _read(path: Path) -> dict[str, Any]:
    try:
        document = parse_json(path.read_text(encoding="utf-8"))
        if document["format"] == FORMAT and isinstance(document["runs"], dict):
            return dict(document["runs"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing is remembered
    return {}


def summary_to_json(summary: RunSummary) -> dict[str, Any]:
    return asdict(summary) | {
        "state": summary.state.value,
        "started_at": format_time(summary.started_at),
        "ended_at": format_time(summary.ended_at) if summary.ended_at else None,
    }


def _from_json(document: Mapping[str, Any]) -> RunSummary:
    ended_at = document["ended_at"]
    times = {
        "state": RunStatus(document["state"]),
        "started_at": parse_time(document["started_at"]),
        "ended_at": parse_time(ended_at) if ended_at else None,
    }
    return RunSummary(**(dict(document) | times))


log = logging.getLogger(__name__)

STARTING_SECONDS = 30.0
"""A run that has not said its process yet is taken for starting so long."""


@dataclass(frozen=True, slots=True)
class RunReading:
    """One look at a journal: the view, and what it was made from."""

    view: RunView
    records: tuple[Record, ...]
    state: RunState


@dataclass(frozen=True, slots=True)
class KnownRun:
    """One of our runs that may have throttles set; `living` whether its process is there."""

    state: RunState
    living: bool

    @property
    def says(self) -> str:
        if self.state.ended is not None:
            doing = "which gave up"
        else:
            doing = "in progress" if self.living else "whose process has died"
        return f"set by run {self.state.run_id}, {doing}"


def read_run(cluster_id: str, run: str) -> RunView:
    """Return a run as its journal tells it; raises JournalError when it cannot be read."""
    return read_journal(cluster_id, run).view


def read_journal(cluster_id: str, run: str) -> RunReading:
    """Return one look at a run's journal; raises JournalError when it cannot be read."""
    path = journal_path(cluster_id, run)
    with Journal.open(path) as journal, _whole(path):
        state = fold(records := journal.records())
        if state.ended is not None:
            living = True
        elif state.process is not None:
            living = state.process.alive
        else:
            living = time.time() - path.stat().st_mtime < STARTING_SECONDS
        if not living:
            # It may have ended well since it was read; what a dead process wrote is final.
            state = fold(records := journal.records())
        state.cluster_name = display_name(state.cluster_id, state.cluster_name)
        samples, pending = journal.samples(), journal.requests(state.last_request)
        view = run_view(records, samples, living=living, run=state, pending=pending)
    return RunReading(view, records, state)


DAMAGED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError)
"""What values raise that are not what a run has written."""


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Raise JournalError for what records lead to that SQLite takes for whole, and are not."""
    try:
        yield
    except DAMAGED as error:
        log.debug("reading %s", path, exc_info=True)
        why = f"{type(error).__name__}: {error}"
        raise JournalError(f"The journal {path} is damaged ({why}).") from error


def refuse_damaged(read: Callable[[RunReading], T]) -> Callable[[RunReading], T]:
    """Have what tells of a run raise JournalError for records that are whole, and say nonsense."""

    @wraps(read)
    def checked(look: RunReading) -> T:
        with _whole(Path(f"{look.view.run}{SUFFIX}")):
            return read(look)

    return checked


def list_runs(cluster_id: str) -> tuple[RunSummary, ...]:
    """Return the runs of a cluster that this machine knows, newest first.

    Journals that cannot be read are left out: `unreadable` names them.
    """
    return tuple(known.summary for known in _readable_runs(cluster_id))


def calibration(cluster_id: str) -> Calibration:
    """Return what the runs of a cluster that this machine knows teach about estimates."""
    return build_calibration(known.lesson for known in _readable_runs(cluster_id) if known.lesson)


def _readable_runs(cluster_id: str) -> list[RememberedRun]:
    runs = [known for known in _all(cluster_id) if isinstance(known, RememberedRun)]
    return sorted(runs, key=lambda known: known.summary.started_at, reverse=True)


def unreadable(cluster_id: str) -> tuple[str, ...]:
    """Return in words what is wrong with each journal that cannot be read."""
    return tuple(wrong.title for wrong in _all(cluster_id) if isinstance(wrong, JournalError))


def refuse_unreadable(cluster_id: str, what: str) -> None:
    """Raise IncompleteError when a journal cannot be read; `what` is not known then."""
    if wrong := unreadable(cluster_id):
        raise IncompleteError(
            f"{wrong[0]} Whether it {what} is not known.",
            next="Mend or move that journal away first; nothing was changed.",
        )


def _all(cluster_id: str) -> list[RememberedRun | JournalError]:
    """Return each run in one line, or why not; one that has ended is read only once."""
    summaries = SummaryCache(paths.runs_dir(cluster_id))
    runs_or_errors: list[RememberedRun | JournalError] = []
    for path in _journals(cluster_id):
        known = summaries.find(path)
        try:
            runs_or_errors.append(known or _read_run(summaries, path, cluster_id))
        except JournalError as error:
            with suppress(JournalError), Journal.open(path) as journal:
                if not journal.records():
                    continue  # its process died before it wrote what was asked: it did nothing
            runs_or_errors.append(error)
    summaries.save()
    return runs_or_errors


def _read_run(summaries: SummaryCache, path: Path, cluster_id: str) -> RememberedRun:
    stamp = summaries.stamp(path)
    look = read_journal(cluster_id, path.name.removesuffix(SUFFIX))
    with _whole(path):
        known = RememberedRun(
            summary(look.view),
            left=bool(look.view.leftovers),
            lesson=lesson_of(look.records, look.state),
        )
    if look.state.ended is not None:
        summaries.learn(path, stamp, known)
    return known


def clusters_with_runs() -> tuple[str, ...]:
    """Return the folder names of clusters that have journals here."""
    root = paths.runs_dir("any").parent
    return tuple(sorted(folder.name for folder in root.iterdir())) if root.is_dir() else ()


def runs_named(cluster_id: str, name: str) -> tuple[str, ...]:
    """Return the ids of runs that `name` names: the one that is it, else those that contain it."""
    runs = [path.name.removesuffix(SUFFIX) for path in _journals(cluster_id)]
    return (name,) if name in runs else tuple(run for run in runs if name in run)


def find_run(cluster_id: str, name: str) -> str:
    """Return the id of the one run that `name` names; raises UsageError otherwise."""
    matching = runs_named(cluster_id, name)
    if len(matching) == 1:
        return matching[0]
    what = "No run here matches" if not matching else f"{len(matching):,} runs here match"
    known = ", ".join((matching or runs_named(cluster_id, ""))[-5:]) or "none"
    raise UsageError(f"{what} {name!r}.", next=f"There are: {known}.")


def with_throttles(cluster_id: str) -> tuple[KnownRun, ...]:
    """Return the runs that may have throttles or lowered retention there, and whether they live.

    Journals that cannot be read are left out: `unreadable` names them.
    """
    return tuple(
        KnownRun(look.state, living=not look.view.state.ended)
        for look in _read_runs_except(cluster_id, lambda ended: not ended.left)
        if not look.view.state.ended or look.view.leftovers
    )


def unfinished(cluster_id: str) -> tuple[str, ...]:
    """Return the runs in progress, also those whose process has died before they were done."""
    living = [run.run for run in list_runs(cluster_id) if not run.state.ended]
    return (*living, *left_behind(cluster_id))


def left_behind(cluster_id: str) -> tuple[str, ...]:
    """Return the runs whose process has died before they were done with the cluster.

    Journals that cannot be read are left out: `unreadable` names them.
    """
    return tuple(
        look.view.run
        for look in _read_runs_except(cluster_id, lambda ended: True)  # also if it left something
        if look.view.state is RunStatus.DIED and look.state.preflight
    )


def _read_runs_except(
    cluster_id: str, passed_over: Callable[[RememberedRun], bool]
) -> Iterator[RunReading]:
    """Read the runs of a cluster, but for those known to have ended that are passed over."""
    summaries = SummaryCache(paths.runs_dir(cluster_id))
    for path in _journals(cluster_id):
        if (ended := summaries.find(path)) and passed_over(ended):
            continue
        with suppress(JournalError):
            yield read_journal(cluster_id, path.name.removesuffix(SUFFIX))


def _journals(cluster_id: str) -> list[Path]:
    return sorted(paths.runs_dir(cluster_id).glob(f"*{SUFFIX}"))
