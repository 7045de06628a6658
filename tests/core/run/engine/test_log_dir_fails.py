"""Runs between log dirs of which one fails: whatever is asked of them, they end, all given back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from log_dir_help import OTHER, T0, T1, across, here, moving, plan, replica_locations
from run_help import MB, Run, Start, ask, cluster, spend, throttles

from core.cluster.configs import LOG_DIRS_RATE, ConfigChange, ConfigOp, Resource
from core.cluster.simulation.cluster import SimulatedCluster
from core.plan.plan import ANY, Move
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind
from core.run.steps import Poll

SLOW = ConfigChange(Resource.broker(2), LOG_DIRS_RATE, ConfigOp.SET, str(MB))
SECONDS = 60.0
"""How long a run may go on after all that it wants has been answered for good."""


@pytest.fixture
def client() -> SimulatedCluster:
    return cluster({"t": [(1, 2), (2, 1)]}, size_bytes=400 * MB, in_bytes_per_s=1000.0)


def copying(start: Start, client: SimulatedCluster, *moves: Move, rate: int = MB) -> Run:
    """Return a run that copies t-0 to the other log dir of broker 1, half a minute in."""
    run = start(client, plan(client, *(moves or (across(client, T0, [1]),))), rate=rate)
    run.until(moving)
    spend(run, 30)
    return run


Fails = Callable[[SimulatedCluster], None]


def source(client: SimulatedCluster) -> None:
    client.fill_disk(1, here(client, T0, 1))


def destination(client: SimulatedCluster) -> None:
    client.fill_disk(1, OTHER[here(client, T0, 1)])


def taken_out(client: SimulatedCluster) -> None:
    """The disk fails, is taken out of `log.dirs`, and the broker comes back without it."""
    path = here(client, T0, 1)
    client.fill_disk(1, path)
    client.advance(10)
    client.stop_broker(1)
    client.remove_disk(1, path)
    client.start_broker(1)


@pytest.mark.parametrize("fails", [source, destination, taken_out])
@pytest.mark.parametrize("late", [False, True], ids=["before it is asked", "after"])
@pytest.mark.parametrize("kind", ["cancel", "retarget", "rollback", "pause", "nothing"])
def test_a_run_whose_log_dir_fails_ends_whatever_is_asked_of_it(
    start: Start, client: SimulatedCluster, fails: Fails, late: bool, kind: str
) -> None:
    before = throttles(client)
    run = copying(start, client)
    asked = {"move": 0, "after": [3, 2], "allow": ["out-of-sync"]} if kind == "retarget" else {}
    for step in (ask, fails) if late else (fails, ask):
        if step is fails:
            fails(client)
        elif kind != "nothing":
            ask(run, kind, **asked)
    run.to_the_end(SECONDS + (450 if kind == "retarget" else 0))
    first = run.runner.state.moves[0]
    assert first.phase.ended
    if kind == "retarget" and first.replaced:
        assert run.replicas()["t-0"] == (3, 2)
    assert throttles(client) == before
    assert (
        not any(len(dirs) > 1 for b, dirs in replica_locations(client, T0).items())
        or fails is taken_out
    )
    dir_records = [
        r for r in run.journal.records() if r.kind in (Kind.DIRS_MOVING, Kind.DIRS_MOVED)
    ]
    assert len(dir_records) <= 6


def test_a_cancel_after_its_disk_failed_says_what_became_of_it(
    start: Start, client: SimulatedCluster
) -> None:
    run = copying(start, client)
    source(client)
    run.cancel()
    assert run.to_the_end(SECONDS) is Outcome.CANCELLED
    (m,) = run.runner.state.moves
    assert (m.phase, m.why) == (Phase.CANCELLED, "cancelled; its log dir on broker 1 is offline")
    assert m.why in run.view().why


def test_a_run_that_nobody_asks_hears_that_the_disk_is_gone_and_fails(
    start: Start, client: SimulatedCluster
) -> None:
    run = copying(start, client)
    source(client)
    assert run.to_the_end(SECONDS) is Outcome.FAILED
    assert "KAFKA_STORAGE_ERROR" in run.runner.state.moves[0].why


@pytest.mark.parametrize("kind", ["cancel", "nothing"])
def test_a_plan_made_after_the_disk_had_failed_ends_too(
    start: Start, client: SimulatedCluster, kind: str
) -> None:
    before, path = throttles(client), here(client, T0, 1)
    source(client)
    client.advance(10)
    blind = Move(T0, (1, 2), (1, 2), None, (OTHER[path], ANY), (ANY, ANY))
    run = start(client, plan(client, blind), allow=("out-of-sync", "log-dir-unknown"))
    for _ in range(6):
        run.runner.advance()
    if kind == "cancel":
        run.cancel()
    expected = Outcome.CANCELLED if kind == "cancel" else Outcome.FAILED
    assert run.to_the_end(SECONDS) is expected
    assert throttles(client) == before


def test_what_had_arrived_stays_where_its_way_back_is_gone(
    start: Start, client: SimulatedCluster
) -> None:
    """The one replica has changed its log dir, the other not yet, when the old disk is lost."""
    both = across(client, T0, [1, 2])
    client.alter_configs([SLOW])
    run = start(client, plan(client, both), rate=20 * MB)
    was = here(client, T0, 1)
    run.until(lambda _: here(client, T0, 1) == OTHER[was], 120)
    client.stop_broker(1)
    client.remove_disk(1, was)
    client.start_broker(1)
    run.cancel()
    assert run.to_the_end(SECONDS) is Outcome.CANCELLED
    assert {b: dirs[0] for b, dirs in replica_locations(client, T0).items()} == {
        1: OTHER[was],
        2: both.base_log_dirs[2],
    }
    assert "stays in" in run.runner.state.moves[0].why


def test_a_further_cancel_leaves_what_waits_for_a_broker_that_never_returns(
    start: Start, client: SimulatedCluster
) -> None:
    run = copying(start, client)
    client.stop_broker(1)
    run.cancel()
    run.until(lambda step: isinstance(step, Poll) and "broker 1 is down" in step.waiting)
    spend(run, 60)
    assert run.runner.state.ended is None
    run.cancel()
    assert run.to_the_end(SECONDS) is Outcome.INCOMPLETE
    assert run.view().leftovers is not None


def test_a_journal_that_has_looped_is_ended_by_a_process_of_now(
    start: Start, client: SimulatedCluster
) -> None:
    """Refusals of the way back that earlier processes wrote down over and over."""
    run = copying(start, client)
    path = here(client, T0, 1)
    taken_out(client)
    run.cancel()
    run.runner.advance()
    for _ in range(50):
        now = client.now
        run.journal.write(now, Kind.DIRS_MOVING, {"replicas": [[0, 1, path]]})
        why = "refused: its replica on broker 1 is not moved (LOG_DIR_NOT_FOUND)"
        run.journal.write(now, Kind.DIRS_MOVED, {"replicas": [], "refused": [[0, 1, why]]})
    run.again()
    assert run.to_the_end(SECONDS) in (Outcome.CANCELLED, Outcome.DONE)


def test_other_moves_go_on_beside_one_whose_disk_is_gone(
    start: Start, client: SimulatedCluster
) -> None:
    run = copying(start, client, across(client, T0, [1]), across(client, T1, [2]), rate=20 * MB)
    source(client)
    run.to_the_end(SECONDS)
    assert run.runner.state.moves[1].phase is Phase.DONE
