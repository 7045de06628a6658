"""The run's own process, in this one: what its journal says of its start and of its death."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_help import (
    MB,
    Faulty,
    Run,
    Start,
    cluster,
    plan_of,
    refusing,
    set_config,
    submitted,
    throttles,
)

from core import paths
from core.cluster.configs import LEADER_RATE, ConfigSource, Resource
from core.cluster.connect import Address, Connection
from core.cluster.kafka_errors import Fault
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import IncompleteError, RefusedError, UnreachableError, UsageError
from core.plan.copies import Side
from core.run import launch, service
from core.run.audit import AuditError
from core.run.external import leftovers as beside
from core.run.external.clearing import clear, plan_clearing
from core.run.journal.journal import Journal
from core.run.journal.move_state import Outcome
from core.run.journal.records import Kind
from core.run.journal.throttle_values import RateIntent
from core.run.launch import start_run
from core.run.options import RunOptions, create_journal
from core.run.reporting.documents import end
from core.run.reporting.report import report
from core.run.reporting.runs import list_runs, read_journal, with_throttles
from core.run.reporting.views import Leftovers, RunStatus
from core.run.steps import Poll

SOMEWHERE = Address("sim:none")


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Faulty:
    """A simulated cluster that every address leads to."""
    client = Faulty(cluster({"t": [(1, 2)]}))

    def connect(address: Address) -> Connection:
        through: Any = client
        return Connection(through, client.client.clock, address)

    for module in (launch, service, beside):
        monkeypatch.setattr(module, "connect", connect)
    monkeypatch.setattr(SimulatedCluster, "close", lambda self: None)
    return client


def test_creation_time_of_a_run_is_taken_from_the_clusters_clock(
    connected: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A demo may live faster than the wall clock: elapsed times would be off."""
    client = connected.client
    client.clock.sleep(1000)
    journals: list[Path] = []
    monkeypatch.setattr(launch, "spawn", lambda path, lock, address: journals.append(path))
    monkeypatch.setattr(launch, "await_start", lambda path, cluster_id: None)
    plan = plan_of(client, {("t", 0): (1, 3)})
    start_run(SOMEWHERE, client.describe_cluster().cluster_id, plan, RunOptions(5 * MB), None)
    with Journal.open(journals[0]) as journal:
        assert journal.records()[0].at == client.now


def test_a_bug_that_ends_the_process_is_in_the_journal_in_one_sentence(
    connected: Faulty, start: Start
) -> None:
    run = start(connected.client, {("t", 0): (1, 3)})
    calls: list[int] = []

    def breaks(real: Any) -> Any:
        calls.append(1)
        if len(calls) < 12:
            return real()
        raise KeyError("leader_epoch\nand a second line")

    connected.replaced["fetch_reassignments"] = breaks
    with pytest.raises(KeyError):
        service.serve(run.path)
    look = read_journal(connected.client.describe_cluster().cluster_id, run.path.stem)
    view = look.view
    assert view.state is RunStatus.DIED
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
    run = start(connected.client, {("t", 0): (1, 3)})
    run.until(lambda _: run.state.preflight)

    def dies(real: Any) -> Any:
        raise service.TrimtabError("Something else is wrong.")

    connected.replaced["fetch_reassignments"] = dies
    with pytest.raises(service.TrimtabError):
        service.serve(run.path)
    assert "Something else is wrong" in run.view(living=False).why
    assert run.journal.records()[-1].kind is Kind.CRASHED


def test_a_run_that_could_not_begin_has_failed(
    connected: Faulty, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(connected.client, {("t", 0): (1, 3)})

    def nobody(address: Address) -> Connection:
        raise UnreachableError("Nothing answers there.")

    monkeypatch.setattr(service, "connect", nobody)
    assert service.serve(run.path) == UnreachableError.exit_code
    view = run.view()
    assert (view.state, view.why) == (RunStatus.FAILED, "Nothing answers there.")
    assert view.elapsed_seconds == 0


def test_no_run_starts_if_the_audit_file_cannot_be_written(
    connected: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths.audit_file().mkdir(parents=True)  # which cannot be written to
    spawned: list[Path] = []
    monkeypatch.setattr(launch, "spawn", lambda path, lock, address: spawned.append(path))
    client = connected.client
    plan = plan_of(client, {("t", 0): (1, 3)})
    cluster_id = client.describe_cluster().cluster_id
    with pytest.raises(AuditError):
        start_run(SOMEWHERE, cluster_id, plan, RunOptions(5 * MB), None)
    assert not spawned
    assert not list_runs(cluster_id)


@pytest.mark.parametrize("configured", [False, True])
def test_no_run_starts_if_its_metrics_file_cannot_be_written(
    connected: Faulty, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, configured: bool
) -> None:
    place = str(tmp_path / "gone" / "run.prom")
    if configured:
        paths.config_dir().mkdir(parents=True)
        lines = ("[clusters.prod]", f'bootstrap = "{SOMEWHERE.bootstrap}"', f'metrics = "{place}"')
        paths.config_file().write_text("\n".join(lines))
    spawned: list[Path] = []
    monkeypatch.setattr(launch, "spawn", lambda path, lock, address: spawned.append(path))
    client = connected.client
    cluster_id, plan = client.describe_cluster().cluster_id, plan_of(client, {("t", 0): (1, 3)})
    options = RunOptions(5 * MB, metrics=None if configured else place)
    with pytest.raises(UsageError, match="Metrics cannot be written"):
        start_run(SOMEWHERE, cluster_id, plan, options, None)
    assert not spawned
    assert not list_runs(cluster_id)


def test_a_run_whose_process_cannot_be_started_leaves_no_journal(
    connected: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:

    def spawn(*_: Any) -> None:
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(launch, "spawn", spawn)
    client = connected.client
    cluster_id, plan = client.describe_cluster().cluster_id, plan_of(client, {("t", 0): (1, 3)})
    with pytest.raises(OSError, match="no more processes"):
        start_run(SOMEWHERE, cluster_id, plan, RunOptions(5 * MB), None)
    assert not list_runs(cluster_id)


@pytest.fixture
def begin(connected: Faulty, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Start a run as `apply` does, but for its process."""
    client = connected.client
    monkeypatch.setattr(launch, "spawn", lambda path, lock, address: None)
    monkeypatch.setattr(launch, "await_start", lambda path, cluster_id: None)

    def begins() -> str:
        plan, cluster_id = plan_of(client, {("t", 0): (1, 4)}), client.describe_cluster().cluster_id
        return start_run(SOMEWHERE, cluster_id, plan, RunOptions(5 * MB), None)

    return begins


def test_no_run_starts_after_another_has_died_in_the_middle(
    connected: Faulty, start: Start, begin: Callable[[], str]
) -> None:
    client = connected.client
    dead = start(client, {("t", 0): (1, 3)})
    dead.journal.write(client.now, Kind.STARTED, {"pid": 2**30, "pid_started": "once"})
    assert begin(), "it had not begun: it left nothing"
    dead.until(lambda _: dead.runner.state.preflight)
    with pytest.raises(RefusedError, match="has died in the middle") as raised:
        begin()
    assert f"trimtab runs attach {dead.path.stem} --yes" in raised.value.next
    dead.to_the_end()
    assert begin()


def test_no_run_starts_if_the_journal_of_another_cannot_be_read(
    connected: Faulty, start: Start, begin: Callable[[], str]
) -> None:
    """It may have died in the middle of its work."""
    run = start(connected.client, {("t", 0): (1, 3)})
    run.until(lambda step: isinstance(step, Poll))
    run.journal.close()
    run.path.write_text("not a journal at all")
    with pytest.raises(IncompleteError, match="damaged") as raised:
        begin()
    assert raised.value.title.endswith("Whether it has left something is not known.")
    assert "move that journal away" in raised.value.next
    run.path.unlink()
    assert begin()


@pytest.fixture
def gave_up(connected: Faulty, start: Start) -> Run:
    """A run that was cancelled while broker 2 was down: that broker's rate is left."""
    client = connected.client
    run = start(client, {("t", 0): (1, 3)})
    run.until(lambda step: isinstance(step, Poll))
    client.stop_broker(2)
    run.until(lambda step: isinstance(step, Poll) and "a cancel leaves it" in step.waiting)
    run.cancel()
    assert run.to_the_end(60) is Outcome.INCOMPLETE
    return run


def test_new_run_is_refused_until_throttles_of_an_ended_run_are_cleared(
    connected: Faulty, gave_up: Run, begin: Callable[[], str]
) -> None:
    client = connected.client
    client.start_broker(2)
    with pytest.raises(RefusedError) as raised:
        begin()
    assert raised.value.title == (
        f"Run {gave_up.path.stem} has left throttles in this cluster (broker 2): "
        "clear them first, by trimtab throttles clear."
    )
    state = client.describe_cluster()
    clearing = plan_clearing(client, state, with_throttles(state.cluster_id))
    assert clear(client, client.clock, clearing) == {}
    assert begin()


def test_leftovers_on_a_broker_that_is_down_do_not_block_a_new_run(
    gave_up: Run, begin: Callable[[], str]
) -> None:
    assert begin(), "it cannot be cleared either"


def test_leftover_rate_changed_externally_does_not_block_a_new_run(
    connected: Faulty, gave_up: Run, begin: Callable[[], str]
) -> None:
    connected.client.start_broker(2)
    set_config(connected.client, Resource.broker(2), LEADER_RATE, "7000000")
    assert begin()


def test_leftover_list_blocks_a_new_run_only_if_its_topic_can_be_read(
    connected: Faulty, start: Start, begin: Callable[[], str]
) -> None:
    client, t = connected.client, Resource.topic("t")
    refused = Fault("TOPIC_AUTHORIZATION_FAILED", "no")

    run = start(client, {("t", 0): (1, 3)}, through=connected)
    run.until(lambda step: isinstance(step, Poll))
    connected.replaced["alter_configs"] = refusing(t)
    run.until(lambda _: "a cancel leaves it" in run.view().why)
    run.cancel()
    assert run.to_the_end(60) is Outcome.INCOMPLETE
    with pytest.raises(RefusedError, match=r"left throttles in this cluster \(topic t\)"):
        begin()
    connected.replaced["describe_configs"] = lambda real, resources, names=None: {
        r: refused if r == t else answer for r, answer in real(resources, names).items()
    }
    assert begin()


@pytest.mark.parametrize(
    ("own", "remedy"),
    [("604800000", "--set retention.ms=604800000"), (None, "--unset retention.ms")],
)
def test_new_run_is_refused_until_a_leftover_lowered_retention_is_restored(
    connected: Faulty, start: Start, begin: Callable[[], str], own: str | None, remedy: str
) -> None:
    client, t = connected.client, Resource.topic("t")
    if own:
        set_config(client, t, "retention.ms", own)

    run = start(client, {("t", 0): (1, 3)}, through=connected, retention_ms=3_600_000)
    run.until(submitted)
    connected.replaced["alter_configs"] = refusing(t, "retention.ms")
    run.until(lambda _: "the retention of t cannot be put back" in run.view().why)
    run.cancel()
    assert run.to_the_end(60) is Outcome.INCOMPLETE
    assert "retention of t: 1 h 00 m" in report(run.look())
    connected.replaced.clear()
    with pytest.raises(RefusedError) as raised:
        begin()
    assert raised.value.title == (
        f"Run {run.path.stem} has left the retention of t lowered to 1 h 00 m: put it back first."
    )
    assert raised.value.next == f"trimtab topics alter t {remedy}"
    set_config(client, t, "retention.ms", own or "7200000")
    assert begin()


def test_refusal_for_a_leftover_log_dir_rate_suggests_clearing_its_broker() -> None:
    rates = [
        RateIntent(broker, side, None, ConfigSource.DEFAULT, 5 * MB)
        for broker in (7, 8)
        for side in (Side.FOLLOWER, Side.LOG_DIRS)
    ]
    left = Leftovers(lists=(("t", "leader", ("0:1",)), ("u", "leader", ("0:1",))), rates=(*rates,))
    with pytest.raises(RefusedError) as raised:
        beside.refuse_leftovers("0101-120000", left)
    assert raised.value.title == (
        "Run 0101-120000 has left throttles in this cluster (broker 7, broker 8, topic t and 1 "
        "more): clear them first, by trimtab throttles clear broker:7 broker:8."
    )


def test_no_cluster_call_is_sent_if_no_ended_run_left_anything(
    connected: Faulty, start: Start, begin: Callable[[], str]
) -> None:
    client = connected.client
    assert start(client, {("t", 0): (1, 3)}).to_the_end() is Outcome.DONE
    connected.calls.clear()
    assert begin()
    assert set(connected.calls) <= {"close"}


@pytest.mark.parametrize(
    ("flag", "elsewhere", "timeout"),
    [
        (None, None, 7.0),
        (3.0, None, 3.0),
        (7.0, None, 7.0),
        (3.0, Address("sim:moved"), 3.0),
        (3.0, Address("sim:moved", timeout_seconds=5.0), 5.0),
        (None, Address("sim:moved", timeout_seconds=5.0), 5.0),
    ],
)
def test_run_uses_cluster_settings_of_config_toml_unless_a_flag_overrides_them(
    flag: float | None,
    elsewhere: Address | None,
    timeout: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A flag's timeout goes before config.toml's, also of a process that takes the run up again."""
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text(
        'balancer_topics = ["ours"]\n[clusters.a]\nbootstrap = "sim:none,sim:moved"\n'
        'in_capacity = "80MB/s"\ntimeout = "7s"\n'
    )
    client = cluster({"t": [(1, 2)]})
    plan = plan_of(client, {("t", 0): (1, 3)})
    address = Address("sim:none", timeout_seconds=flag)
    options = RunOptions(MB, cluster_name="a")
    journal = create_journal(address, plan.cluster_id, plan, options, None, at=client.now)
    journal.close()
    asked: list[Address] = []

    def connect(address: Address) -> Connection:
        asked.append(address)
        raise UnreachableError("Nothing answers.")

    monkeypatch.setattr(service, "connect", connect)
    service.serve(journal.path, elsewhere)
    assert [(a.capacity.in_bytes_per_s, a.timeout_seconds) for a in asked] == [(80e6, timeout)]
    assert asked[0].balancer_topics == {"ours"}
    paths.config_file().write_text("")
    service.serve(journal.path, elsewhere)
    own = None if flag == 7.0 else flag  # what is config.toml's is read each time
    assert asked[-1].timeout_seconds == ((elsewhere and elsewhere.timeout_seconds) or own)
