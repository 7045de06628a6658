"""The run's own process, in this one: what its journal says of its start and of its death."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_help import MB, Faulty, Start, cluster, plan_of, throttles

from core.cluster.connect import Address, Connection
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import RefusedError, UnreachableError
from core.run import service
from core.run.audit import AuditError
from core.run.record.journal import Journal
from core.run.record.records import Kind
from core.run.service import RunOptions, start_run
from core.run.tell.events import end
from core.run.tell.report import report
from core.run.tell.runs import list_runs, read_journal
from core.run.tell.view import RunState

SOMEWHERE = Address("sim:none")


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Faulty:
    """A simulated cluster that every address leads to."""
    client = Faulty(cluster({"t": [(1, 2)]}))

    def connect(address: Address) -> Connection:
        through: Any = client
        return Connection(through, client.client.clock, address)

    monkeypatch.setattr(service, "connect", connect)
    monkeypatch.setattr(SimulatedCluster, "close", lambda self: None)
    return client


def test_a_run_is_created_by_the_clock_that_it_lives_by(
    connected: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A demo may live faster than the wall clock: elapsed times would be off."""
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    client = connected.client
    client.clock.sleep(1000)
    journals: list[Path] = []
    monkeypatch.setattr(service, "spawn", lambda path, lock: journals.append(path))
    monkeypatch.setattr(service, "await_start", lambda path, cluster_id: None)
    plan = plan_of(client, {("t", 0): (1, 3)})
    start_run(SOMEWHERE, client.describe().cluster_id, plan, RunOptions(5 * MB), None)
    with Journal.open(journals[0]) as journal:
        assert journal.records()[0].at == client.now


def test_a_bug_that_ends_the_process_is_in_the_journal_in_one_sentence(
    connected: Faulty, start: Start
) -> None:
    run = start(connected.client, plan_of(connected.client, {("t", 0): (1, 3)}))
    calls: list[int] = []

    def breaks(real: Any) -> Any:
        calls.append(1)
        if len(calls) < 12:
            return real()
        raise KeyError("leader_epoch\nand a second line")

    connected.replaced["reassignments"] = breaks
    with pytest.raises(KeyError):
        service.serve(run.path)
    look = read_journal(connected.client.describe().cluster_id, run.path.stem)
    view = look.view
    assert view.state is RunState.DIED
    assert view.why.startswith("its process stopped on an error of its own (KeyError: ")
    assert "\n" not in view.why
    assert "run-" in view.why, "where its log is"
    assert view.leftovers is not None
    assert view.leftovers.rates
    assert view.events[-1].text == view.why
    assert view.why in report(look)
    assert end(view)["why"] == view.why
    assert throttles(connected.client)


def test_an_error_that_no_step_expects_is_in_the_journal_too(
    connected: Faulty, start: Start
) -> None:
    run = start(connected.client, plan_of(connected.client, {("t", 0): (1, 3)}))
    run.until(lambda _: run.runner.history.preflight)

    def dies(real: Any) -> Any:
        raise service.TrimtabError("Something else is wrong.")

    connected.replaced["reassignments"] = dies
    with pytest.raises(service.TrimtabError):
        service.serve(run.path)
    assert "Something else is wrong" in run.view(living=False).why
    assert run.journal.records()[-1].kind is Kind.CRASHED


def test_a_run_that_could_not_begin_has_failed(
    connected: Faulty, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(connected.client, plan_of(connected.client, {("t", 0): (1, 3)}))

    def nobody(address: Address) -> Connection:
        raise UnreachableError("Nothing answers there.")

    monkeypatch.setattr(service, "connect", nobody)
    assert service.serve(run.path) == UnreachableError.exit_code
    view = run.view()
    assert (view.state, view.why) == (RunState.FAILED, "Nothing answers there.")
    assert view.elapsed_seconds == 0


def test_no_run_starts_unaudited(
    connected: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    (tmp_path / "data" / "audit.jsonl").mkdir(parents=True)  # which cannot be written to
    spawned: list[Path] = []
    monkeypatch.setattr(service, "spawn", lambda path, lock: spawned.append(path))
    client = connected.client
    plan = plan_of(client, {("t", 0): (1, 3)})
    cluster_id = client.describe().cluster_id
    with pytest.raises(AuditError):
        start_run(SOMEWHERE, cluster_id, plan, RunOptions(5 * MB), None)
    assert not spawned
    assert not list_runs(cluster_id)


def test_no_run_starts_beside_one_that_died_in_the_middle(
    connected: Faulty, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connected.client
    plan = plan_of(client, {("t", 0): (1, 3)})
    cluster_id = client.describe().cluster_id
    monkeypatch.setattr(service, "spawn", lambda path, lock: None)
    monkeypatch.setattr(service, "await_start", lambda path, cluster_id: None)

    def begin() -> str:
        return start_run(SOMEWHERE, cluster_id, plan, RunOptions(5 * MB), None)

    dead = start(client, plan)
    dead.journal.write(client.now, Kind.STARTED, {"pid": 2**30, "pid_started": "once"})
    assert begin(), "it had not begun: it left nothing"
    dead.until(lambda _: dead.runner.history.preflight)
    with pytest.raises(RefusedError, match="has died in the middle") as raised:
        begin()
    assert f"trimtab runs attach {dead.path.stem} --yes" in raised.value.next
    dead.to_the_end()
    assert begin()
