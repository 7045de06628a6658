"""What fails for a while is told once, and the feed's threads go on when it is over."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event as Flag
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from clusters import NOON, cluster
from flags import Script, begin_run, end_run, nothing
from object_store import ObjectStore

from core.autopilot import daemon as background
from core.autopilot import switch
from core.cli.common.context import Target
from core.cluster.access.hidden_topics import HiddenTopics
from core.cluster.connect import Address, Connection
from core.cluster.documents import cluster_document as document
from core.cluster.log_dirs import BrokerLogs
from core.cluster.state import ClusterState
from core.errors import TrimtabError, UnreachableError
from core.load import load_paths as layout
from core.load import load_source as locate
from core.load.load import Source
from core.load.snapshot.format import LoadSnapshot, Quality
from core.load.snapshot.writer import write_snapshot
from core.load.store import Root, StorePath
from core.plan.estimate.calibration import Calibration, Speed
from core.run.journal.journal import JournalError
from core.run.reporting import runs
from tui.feed.events import (
    CalibrationChanged,
    Event,
    GroupsChanged,
    PictureChanged,
    RunChanged,
    Trouble,
)
from tui.feed.feed import Feed
from tui.feed.watchers import watch_autopilot, watch_groups, watch_runs
from tui.session import Freshness

STATE = cluster({"t-0": [1, 2], "t-1": [2, 1]})
FULL = JournalError("The journal cannot be read.", next="Free space on that disk.")


def titles(events: list[Event]) -> list[str]:
    return [e.error.title if isinstance(e, Trouble) else type(e).__name__ for e in events]


# -- the cluster -----------------------------------------------------------------------------------


class Slow:
    """A cluster by its own clock: its second look takes long, its third fails after as long."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.described = 0

    def monotonic(self) -> float:
        return self.seconds

    def describe_cluster(self) -> ClusterState:
        self.described += 1
        if self.described in (2, 3):
            self.seconds += 26.0
        if self.described == 3:
            raise UnreachableError("No broker answers.")
        return STATE

    def ping(self) -> None: ...

    def describe_log_dirs(self, brokers: Iterable[int]) -> tuple[BrokerLogs, ...]:
        return tuple(map(BrokerLogs, brokers))

    def describe_configs(self, *resources: object) -> dict[Any, Any]:
        return {}

    def close(self) -> None: ...


def feed_of(there: Any, monkeypatch: pytest.MonkeyPatch, wait: Callable[[float], bool]) -> Feed:
    """Return a feed of a cluster whose map is painted; `wait` is how it waits for the user."""
    monkeypatch.setattr("tui.feed.feed.connect", lambda address: Connection(there, there, address))
    feed = Feed(Target(address=Address("sim:none")), monotonic=there.monotonic)
    feed._painted.set()
    flag: Any = SimpleNamespace(wait=wait, clear=nothing)
    feed._refresh_flag = flag
    return feed


def test_cluster_age_counts_from_its_metadata_and_lost_cluster_is_lost_until_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = Slow()
    log: list[tuple[float, str, float | None]] = []
    silent: list[float] = []
    """How long after each picture its cluster counts as silent."""

    def wait(seconds: float) -> bool:
        """Pass by the cluster's clock; while the cluster is lost the user asks after a second."""
        if there.described == 4:
            feed._stopped.set()
        is_lost = log[-1][1] == "ClusterLost"
        there.seconds += 1.0 if is_lost else seconds
        return is_lost

    def deliver(event: Event) -> None:
        seen = event.metadata_age if isinstance(event, PictureChanged) else None
        age = None if seen is None else seen.age(there.seconds)
        log.append((there.seconds, type(event).__name__, age))
        if seen is not None and seen.due is not None:
            silent.append(round(seen.due + seen.patience_seconds - there.seconds, 2))

    feed = feed_of(there, monkeypatch, wait)
    feed.attach(deliver)
    feed._read_cluster()
    assert log == [
        (0.0, "Connected", None),
        (0.0, "PictureChanged", 0.0),
        (0.05, "PictureChanged", 0.05),  # sizes
        (27.0, "PictureChanged", 26.0),
        (57.0, "ClusterLost", None),
        (58.0, "PictureChanged", 0.0),
    ]
    assert silent == [30.05, 4.45, 4.5, 4.5], "sizes may take long the first time"


class Large(Slow):
    """A cluster whose description always takes two seconds; it is away from 30 s to 40 s."""

    def describe_cluster(self) -> ClusterState:
        self.seconds += 2.0
        self.ping()
        return STATE

    def ping(self) -> None:
        if 30.0 <= self.seconds < 40.0:
            raise UnreachableError("No broker answers.")


def test_a_cluster_that_is_seldom_described_is_pinged_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = Large()
    log: list[tuple[str, float]] = []

    def wait(seconds: float) -> bool:
        there.seconds += seconds
        if there.seconds > 60:
            feed._stopped.set()
        return False

    feed = feed_of(there, monkeypatch, wait)
    feed.attach(lambda event: log.append((type(event).__name__, there.seconds)))
    feed._read_cluster()
    lost = [at for name, at in log if name == "ClusterLost"]
    pictures = [at for name, at in log if name == "PictureChanged"]
    assert 30.0 <= lost[0] <= 31.0
    assert max(b - a for a, b in itertools.pairwise(lost)) <= 4.0
    assert 40.0 <= next(at for at in pictures if at > 30) <= 44.0
    assert max(b - a for a, b in itertools.pairwise(pictures[2:])) >= 18.0, (
        "not described more often"
    )


def test_hidden_reassignments_are_reported_once_until_they_are_shown() -> None:
    hidden = replace(STATE, moves_unknown="This user may not list them.")
    feed, seen = Feed(Target(address=Address("sim:none"))), list[Event]()
    feed.attach(seen.append)
    for state in (hidden, hidden, STATE, hidden):
        feed._take(state, Freshness(0.0, 1.0))
    trouble = "What is in flight is not shown: This user may not list them."
    assert titles(seen) == ["PictureChanged", trouble, *["PictureChanged"] * 3, trouble]


def test_hidden_topics_are_reported_once_and_when_their_number_changes() -> None:
    seen, feed = list[Event](), Feed(Target(address=Address("sim:none")))
    feed.attach(seen.append)
    for topics in (None, 1, 1, 2, None, 0, 2):
        hidden = None if topics is None else HiddenTopics(topics)
        feed._take(replace(STATE, hidden=hidden), Freshness(0.0, 1.0))
    troubles = [event.error.title for event in seen if isinstance(event, Trouble)]
    assert [title.split()[0] for title in troubles] == ["1", "2", "2"]


# -- load ------------------------------------------------------------------------------------------


def publish(root: Root, number: int = 1, at: datetime = NOON, *, rate: float = 1e6) -> None:
    snapshot = LoadSnapshot(
        cluster_id=STATE.cluster_id,
        snapshot_id=f"0001-{number:08}",
        source=Source.SPARK,
        published_at=at,
        window_end=at,
        topics=("t",),
        topic_of=STATE.topic_of,
        partition=STATE.partition,
        rates={("5m", "in_bytes_per_s", "avg"): np.full(2, rate)},
        size_bytes=np.full(2, 10**9),
        growth_bytes_per_s=np.full(2, np.nan),
        quality=np.full(2, Quality.FULL, np.int8),
        method=np.zeros(2, np.int8),
    )
    write_snapshot(root, snapshot)


@pytest.mark.parametrize("foreign", [None, "published"])
def test_cluster_is_recorded_even_if_its_load_is_published_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, foreign: str | None
) -> None:
    if foreign is not None:
        foreign = str(tmp_path / foreign)
        publish(Path(foreign))
    begun: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        "core.load.daemon.start_load", lambda *words: begun.append(("load", *words[1:]))
    )
    monkeypatch.setattr(
        "core.watch.timeline.daemon.start_recording",
        lambda *words: begun.append(("recorder", *words[1:])),
    )
    feed = Feed(Target(address=Address("h:9092"), snapshots=foreign))
    feed._picture.take_state(STATE, Freshness(0.0, 1.0))
    feed._state_known.set()
    feed._stopped = Script(nothing)
    feed._guard(feed._read_load)
    recorder = ("recorder", STATE.cluster_id, foreign)
    assert begun == ([recorder] if foreign else [("load", STATE.cluster_id), recorder])


def load_followed(root: Root, *actions: Callable[[], Any]) -> list[Event]:
    """Return what is told while a load root is followed."""
    place = root.address if isinstance(root, StorePath) else str(root)
    feed = Feed(Target(address=Address("sim:none"), snapshots=place), start_load=False)
    feed._picture.take_state(STATE, Freshness(0.0, 1.0))
    feed._state_known.set()
    feed._stopped = Script(*actions)
    seen: list[Event] = []
    feed.attach(seen.append)
    feed._guard(feed._read_load)
    return seen


def test_load_is_shown_once_a_damaged_snapshot_is_replaced(tmp_path: Path) -> None:
    current = layout.current(tmp_path, STATE.cluster_id)
    current.parent.mkdir(parents=True)
    current.write_text("{")
    seen = load_followed(tmp_path, nothing, lambda: (current.unlink(), publish(tmp_path)), nothing)
    assert titles(seen) == ["CURRENT.json is not JSON.", "PictureChanged"]
    assert isinstance(seen[0], Trouble)
    assert seen[0].error.next == layout.REPAIR


def test_load_in_an_object_store_is_followed_and_each_trouble_is_reported_once(
    s3: ObjectStore,
) -> None:
    root = s3.bucket("followed")
    with ExitStack() as refusing:
        seen = load_followed(
            root,
            nothing,
            lambda: publish(root),
            lambda: refusing.enter_context(s3.refusing()),
            nothing,
            lambda: (refusing.close(), publish(root, 2, NOON + timedelta(minutes=1))),
            nothing,
        )
    assert titles(seen) == [
        f"There is no snapshot of cluster {STATE.cluster_id} in {root}.",
        "PictureChanged",
        f"The object store refuses access to {layout.current(root, STATE.cluster_id)}.",
        "PictureChanged",
    ]


def test_first_snapshot_with_sizes_only_is_not_shown_as_load(tmp_path: Path) -> None:
    publish(tmp_path, rate=np.nan)
    seen = load_followed(tmp_path, nothing, lambda: publish(tmp_path, 2), nothing)
    assert titles(seen) == ["PictureChanged"]
    assert isinstance(seen[0], PictureChanged)
    assert seen[0].load.in_bytes_per_s.tolist() == [1e6, 1e6]


def test_load_with_unreadable_files_is_reported_and_shown_once_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path)
    real, lost = locate.newest_snapshot, [True]

    def newest(*arguments: Any) -> LoadSnapshot | None:
        if lost[0]:
            raise OSError(5, "Input/output error", "/mnt/load/partitions.arrow")
        return real(*arguments)

    monkeypatch.setattr(locate, "newest_snapshot", newest)
    seen = load_followed(tmp_path, nothing, lambda: lost.__setitem__(0, False), nothing)
    assert titles(seen) == [
        "Load cannot be read: /mnt/load/partitions.arrow: Input/output error.",
        "PictureChanged",
    ]
    assert isinstance(seen[1], PictureChanged)
    assert seen[1].load.source is Source.SPARK


# -- runs, groups, the autopilot -------------------------------------------------------------------


def test_run_is_followed_to_its_end_though_its_journal_was_unreadable_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    begin_run(STATE.cluster_id)
    real, full = runs.read_run, [False]

    def read_run(cluster_id: str, run: str) -> Any:
        if full[0]:
            raise FULL
        return real(cluster_id, run)

    def fill(now: bool) -> Callable[[], None]:
        return lambda: full.__setitem__(0, now)

    def ends() -> None:
        end_run(STATE.cluster_id)
        full[0] = False

    monkeypatch.setattr(runs, "read_run", read_run)
    seen: list[Event] = []
    watch_runs(lambda: STATE, seen.append, Script(fill(True), nothing, ends, fill(True), nothing))
    assert titles(seen) == ["RunChanged", FULL.title, "RunChanged", FULL.title]
    assert isinstance(seen[2], RunChanged)
    assert seen[2].run is not None
    assert seen[2].run.state.value == "done"


def test_calibration_is_reported_though_the_newest_run_was_unreadable_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    begin_run(STATE.cluster_id)
    real, answers = runs.read_run, [FULL]

    def read_run(cluster_id: str, run: str) -> Any:
        if answers:
            raise answers.pop()
        return real(cluster_id, run)

    monkeypatch.setattr(runs, "read_run", read_run)
    monkeypatch.setattr(
        runs, "calibration", lambda cluster: Calibration(speed=Speed(1, 1e6, 1e6, 1e6))
    )
    seen: list[Event] = []
    watch_runs(lambda: STATE, seen.append, Script(nothing))
    assert [type(event) for event in seen] == [Trouble, RunChanged, CalibrationChanged]


def test_groups_are_still_followed_after_failed_reads_reported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    odd = TrimtabError("The coordinator is loading.")
    answers: list[TrimtabError | None] = [odd, odd, None, odd]

    def read_groups(client: Any, before: Any) -> tuple[()]:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return ()

    monkeypatch.setattr(document, "fetch_document_groups", read_groups)
    running = Flag()
    running.set()
    there: Any = None
    connection = Connection(there, there, Address("sim:none"))
    seen: list[Event] = []
    watch_groups(lambda: connection, seen.append, running, Script(nothing, nothing, nothing))
    assert titles(seen) == [odd.title, GroupsChanged.__name__, odd.title]


def test_autopilot_is_still_followed_after_its_state_could_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    path = switch.switch_file(STATE.cluster_id)
    path.parent.mkdir(parents=True)
    path.write_text("{")
    answers = [OSError(5, "Input/output error", "switch.json")]

    def is_running(cluster_id: str) -> bool:
        if answers:
            raise answers.pop()
        return False

    monkeypatch.setattr(background, "is_running", is_running)
    seen: list[Event] = []
    watch_autopilot(lambda: STATE, seen.append, Script(nothing))
    assert len(seen) == 2
    assert titles(seen)[0].startswith("The autopilot cannot be read: switch.json: Input/output")
