"""Others' moves are shown with their progress, known to be others', and never changed."""

from __future__ import annotations

import json

import pytest
from cli_help import SLOW, Here
from run_help import MB, Faulty, Start, cluster, set_config, submitted
from waiting import eventually

from core.cli.runs import external as foreign
from core.cluster.configs import LOG_DIRS_RATE, Resource
from core.cluster.log_dirs import BrokerLogs
from core.cluster.metadata import TopicPartition
from core.cluster.observer import fetch_cluster_state
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import ExitCode
from core.plan.plan import log_dir_of
from core.run.external.clearing import plan_clearing
from core.run.external.moves import ForeignWatch, foreign_moves
from core.run.external.throttles import Throttle, fetch_throttles
from core.run.journal.move_state import Outcome

TP = TopicPartition("t", 0)


def test_foreign_move_has_its_partition_replicas_and_total_bytes() -> None:
    client = cluster({"t": [(1, 2), (1, 2)]}, size_bytes=1000 * MB)
    client.alter_reassignments({TP: (3, 2)})
    (move,) = foreign_moves(fetch_cluster_state(client), ())
    assert (move.tp, set(move.before), move.after) == (TP, {1, 2}, (3, 2))
    assert move.total_bytes == 1000 * MB
    assert not move.endless
    assert not foreign_moves(fetch_cluster_state(client), {TP}), "what is ours is not theirs"


def test_foreign_move_overridden_so_that_it_never_ends_is_recognized() -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=1000 * MB)
    client.alter_reassignments({TP: (3, 2)})
    client.alter_reassignments({TP: (2, 1)})
    (move,) = foreign_moves(fetch_cluster_state(client), ())
    assert move.endless
    assert "only a cancel ends it" in foreign._table([move])


def test_foreign_move_rate_is_computed_from_successive_snapshots() -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=1000 * MB)
    client.alter_reassignments({TP: (3, 2)})
    watch = ForeignWatch()
    for _ in range(3):
        client.clock.sleep(0.5)
        watch.look(fetch_cluster_state(client), ())
    (move,) = watch.look(fetch_cluster_state(client), ())
    assert move.bytes_per_s
    assert move.left_seconds


def copying_within() -> tuple[SimulatedCluster, str, str]:
    """Return a cluster of which broker 2 copies its replica to its other log dir, both named."""
    client = cluster({"t": [(1, 2)]}, size_bytes=1000 * MB)
    state = fetch_cluster_state(client)
    now = log_dir_of(state, TP, 2)
    other = next(log_dir.path for log_dir in state.broker_by_id[2].log_dirs if log_dir.path != now)
    set_config(client, Resource.broker(2), LOG_DIRS_RATE, str(MB))
    client.alter_log_dirs({(TP, 2): other})
    assert now is not None
    return client, now, other


def test_copy_to_a_different_log_dir_is_a_foreign_move_too() -> None:
    client, now, other = copying_within()
    (move,) = foreign_moves(fetch_cluster_state(client), ())
    assert (move.tp, move.broker, move.log_dir_before, move.log_dir) == (TP, 2, now, other)
    assert move.before == move.after == (1, 2)
    assert move.total_bytes == 1000 * MB
    assert not foreign_moves(fetch_cluster_state(client), {TP}), "what is ours is not theirs"
    table = foreign._table([move])
    assert f"broker 2: {now} → {other}" in table


def test_foreign_log_dir_copy_rate_is_separate_from_the_rate_between_brokers() -> None:
    client, _, _ = copying_within()
    client.alter_reassignments({TP: (3, 2)})
    watch = ForeignWatch()
    for _ in range(3):
        client.clock.sleep(0.5)
        watch.look(fetch_cluster_state(client), ())
    between, within = watch.look(fetch_cluster_state(client), ())
    assert (between.broker, within.broker) == (None, 2)
    assert within.bytes_per_s
    assert between.bytes_per_s
    assert between.bytes_per_s > within.bytes_per_s
    assert within.left_seconds


def test_log_dir_throttle_is_needed_while_a_foreign_log_dir_copy_is_in_flight() -> None:
    client, _, _ = copying_within()

    def rate() -> Throttle:
        (throttle,) = fetch_throttles(client, client.describe_cluster(), []).throttles
        return throttle

    assert (rate().needed, rate().why.partition("; ")[2]) == (
        True,
        "the broker copies 1 replica between its log dirs",
    )
    client.clock.sleep(2000)
    assert (rate().needed, rate().why.partition("; ")[2]) == (False, "the broker moves nothing")


def test_log_dir_throttle_is_needed_if_the_broker_does_not_describe_its_log_dirs() -> None:
    client, _, _ = copying_within()
    silent = Faulty(client)
    silent.replaced["describe_log_dirs"] = lambda real, brokers: tuple(
        BrokerLogs(broker, error="CLUSTER_AUTHORIZATION_FAILED") for broker in brokers
    )
    (rate,) = fetch_throttles(silent, client.describe_cluster(), []).throttles  # type: ignore[arg-type]
    assert rate.needed
    assert rate.why.endswith("; whether the broker copies between its log dirs is not known")
    ((_, kept),) = plan_clearing(silent, client.describe_cluster(), []).kept  # type: ignore[arg-type]
    assert kept == "it is for moves between log dirs: name the broker to clear it"


@pytest.mark.parametrize(
    ("target", "refused"),
    [((1, 3), True), ((2, 1), False), ((3, 2), False)],
    ids=["leaves", "re-ordered", "another replica"],
)
def test_plan_that_would_end_a_foreign_log_dir_copy_is_refused_at_preflight(
    target: tuple[int, ...], refused: bool, start: Start
) -> None:
    client, _, _ = copying_within()
    run = start(client, {("t", 0): target})
    if refused:
        assert run.to_the_end() is Outcome.FAILED
        assert "on the way to another log dir already" in run.view().why
    else:
        run.until(submitted)


def foreign_move(here: Here) -> tuple[TopicPartition, tuple[int, ...]]:
    """Move the largest partition as somebody else would; return it and how it was."""
    state = fetch_cluster_state(here.client)
    row = state.row(int(state.partition_size_bytes.argmax()))
    free = next(b.id for b in state.brokers if b.id not in row.replicas)
    assert here.client.alter_reassignments({row.tp: (*row.replicas[:-1], free)})
    return row.tp, row.replicas


def external_moves(here: Here) -> list[object]:
    moves: list[object] = json.loads(here("runs", "show", "foreign", "--json")[1])["moves"]
    return moves


def test_foreign_moves_are_listed_shown_and_followed_to_their_end(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert external_moves(here) == []
    tp, before = foreign_move(here)
    assert "runs show foreign" in here("runs", "ls")[2]
    code, out, err = here("runs", "show", "foreign")
    assert code == ExitCode.DONE
    assert str(tp) in out
    assert "unknown" in err
    document = json.loads(here("runs", "show", "foreign", "--json")[1])
    assert document["moves"][0]["before_unordered"] == sorted(before)
    looks: list[int] = []

    def sleep(seconds: float) -> None:
        looks.append(1)
        if len(looks) == 2:
            here.client.cancel_reassignments([tp])
            here.client.alter_reassignments({tp: before})
            eventually(lambda: not here.client.fetch_reassignments())

    monkeypatch.setattr(foreign.time, "sleep", sleep)
    code, out, _ = here("runs", "attach", "--foreign", "--json")
    assert code == ExitCode.DONE
    assert not json.loads(out.splitlines()[-1])["moves"]


def test_move_of_a_run_of_this_machine_is_not_foreign(here: Here) -> None:
    run = json.loads(here("apply", here.plan(skip=100), *SLOW)[1])["run"]
    eventually(lambda: bool(here.client.fetch_reassignments()))
    assert external_moves(here) == []
    assert here("runs", "cancel", run, "--yes")[0] == ExitCode.DONE
