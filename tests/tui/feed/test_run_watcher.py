"""The feed follows the newest run, reading others only as one is added, and consumer groups."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest
from clusters import NOON
from flags import Script, begin_run, end_run, nothing
from simulated import small_spec

from core.cluster.connect import Address, Connection
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import AccessDeniedError, TrimtabError, UnreachableError
from core.plan.estimate.calibration import Calibration, Speed
from core.run.reporting import runs
from tui.feed.events import CalibrationChanged, Event, RunChanged, Trouble
from tui.feed.watchers import watch_groups, watch_runs


def test_the_newest_run_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    state = SimulatedCluster(small_spec({"t": [(1, 2)]}), seed=1).describe_cluster()
    listed: list[str] = []
    real = runs.list_runs
    monkeypatch.setattr(
        runs, "list_runs", lambda cluster: (listed.append(cluster), real(cluster))[1]
    )

    seen: list[RunChanged] = []
    watch_runs(
        lambda: state,
        seen.append,  # type: ignore[arg-type]
        Script(
            lambda: begin_run(state.cluster_id, NOON + timedelta(minutes=1)),
            lambda: begin_run(state.cluster_id),  # an older one, by its cluster's clock
            lambda: end_run(state.cluster_id, "0101-120100"),
            nothing,
            lambda: begin_run(state.cluster_id, NOON + timedelta(minutes=2)),
            nothing,
        ),
    )
    run_states = [event.run and (event.run.run, event.run.state.value) for event in seen]
    assert run_states == [
        None,
        ("0101-120100", "starting"),
        ("0101-120100", "done"),
        ("0101-120200", "starting"),
    ]
    assert len(listed) == 3


def test_damaged_journal_is_reported_once_and_does_not_count_as_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    state = SimulatedCluster(small_spec({"t": [(1, 2)]}), seed=1).describe_cluster()
    path = runs.journal_path(state.cluster_id, "0101-120000")
    path.parent.mkdir(parents=True)
    path.write_text("?")
    seen: list[Event] = []
    watch_runs(lambda: state, seen.append, Script(nothing, nothing, nothing))
    none, damaged = seen
    assert isinstance(none, RunChanged)
    assert none.run is None
    assert isinstance(damaged, Trouble)
    assert str(path) in damaged.error.title


def test_calibration_is_reported_when_a_run_ends_and_only_if_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    state = SimulatedCluster(small_spec({"t": [(1, 2)]}), seed=1).describe_cluster()
    taught = [Calibration(), Calibration(speed=Speed(1, 1e6, 1e6, 1e6))]
    asked: list[str] = []

    def calibration(cluster: str) -> Calibration:
        asked.append(cluster)
        return taught[min(len(asked), 2) - 1]

    monkeypatch.setattr(runs, "calibration", calibration)

    seen: list[Event] = []
    begin, end = (partial(call, state.cluster_id) for call in (begin_run, end_run))
    script = Script(begin, nothing, end, nothing, nothing)
    watch_runs(lambda: state, seen.append, script)
    calibrations = [event.calibration for event in seen if isinstance(event, CalibrationChanged)]
    assert calibrations == [taught[1]]
    assert len(asked) == 2


def test_denied_access_to_groups_is_reported_once_until_it_is_granted() -> None:
    cluster: Any = SimulatedCluster(small_spec({"t": [(1, 2)]}), seed=1)
    listed = cluster.describe_groups

    def answer(error: TrimtabError | None) -> None:
        def groups(**_: object) -> object:
            if error is not None:
                raise error
            return listed()

        cluster.describe_groups = groups

    denied = AccessDeniedError("This user may not list groups.", next="Ask for the rights.")
    lost = UnreachableError("No broker answers.")
    running = Flag()
    running.set()
    seen: list[Event] = []
    answer(denied)
    watch_groups(
        lambda: Connection(cluster, cluster.clock, Address("sim:none")),
        seen.append,
        running,
        Script(*(lambda e=e: answer(e) for e in (denied, lost, denied, None, denied))),
    )
    event_titles = [e.error.title if isinstance(e, Trouble) else type(e).__name__ for e in seen]
    not_shown = "Consumer groups and their lag are not shown: This user may not list groups."
    assert event_titles == [not_shown, "GroupsChanged", not_shown]
    assert isinstance(seen[0], Trouble)
    assert seen[0].error.next == "Ask for the rights."
