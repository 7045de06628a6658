"""Runs that put replicas into certain log dirs of their brokers: new ones, and those that stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from log_dir_help import ONE, OTHER, T0, T1, TWO, across, here, moving, plan, replica_locations
from run_help import MB, Faulty, Run, Start, ask, cluster, set_config, spend, throttles

from core.cluster.configs import LOG_DIRS_RATE, ConfigChange, ConfigOp, ConfigValue, Resource
from core.cluster.kafka_errors import Fault
from core.cluster.simulation.cluster import SimulatedCluster
from core.plan.copies import Side
from core.plan.plan import ANY, Move
from core.run.engine.move_outcome import CHANGED_ELSEWHERE
from core.run.engine.mover import NOT_YET
from core.run.external.leftovers import fetch_leftovers
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.rates import RateBounds
from core.run.journal.records import Kind
from core.run.reporting.report import report
from core.run.reporting.views import MoveStatus
from core.run.retry_rollback import FollowUp, plan_followup
from core.run.steps import Poll


def rates(client: SimulatedCluster) -> dict[Resource, dict[str, ConfigValue] | Fault]:
    brokers = [Resource.broker(b.id) for b in client.describe_cluster().brokers]
    return client.describe_configs(brokers, [LOG_DIRS_RATE])


def test_a_replica_is_copied_to_another_log_dir_of_its_broker(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    dirs = replica_locations(client, T0)
    run = start(client, plan(client, across(client, T0, [1])))
    run.until(moving)
    assert own_rate(client, 1) == str(5 * MB)
    assert own_rate(client, 2) is None
    began = client.elapsed_seconds
    run.restores(Outcome.DONE)
    assert replica_locations(client, T0) == {1: (OTHER[dirs[1][0]],), 2: dirs[2]}
    assert client.elapsed_seconds - began == pytest.approx(4, abs=2)  # 20 MB at 5 MB/s
    assert not any(record.kind is Kind.REORDERED for record in run.journal.records())


def own_rate(client: SimulatedCluster, broker: int) -> str | None:
    answer = rates(client)[Resource.broker(broker)]
    assert not isinstance(answer, Fault)
    config = answer.get(LOG_DIRS_RATE)
    return config.value or None if config else None


def test_new_replica_is_created_in_the_requested_log_dir_and_copied_once(start: Start) -> None:
    client = cluster({"t": [(1, 2)], "u": [(3, 4)]})
    for path in (ONE, TWO):
        named = Move(T0, (1, 2), (1, 3), None, (ANY, path), (ANY, here(client, T0, 2)))
        back = named.inverse()
        run = start(client, plan(client, named))
        assert run.to_the_end() is Outcome.DONE
        assert replica_locations(client, T0)[3] == (path,)
        kinds = run.kinds
        assert Kind.DIRS_MOVING not in kinds
        assert start(client, plan(client, back)).to_the_end() is Outcome.DONE
        assert replica_locations(client, T0)[2] == (back.log_dirs or ())[1:]


def test_new_replica_created_in_a_different_log_dir_is_copied_once_it_is_in_sync(
    start: Start,
) -> None:
    """A broker that restarts forgets in which log dir a replica was to be made."""
    client = cluster({"t": [(1, 2)]})
    copied = []
    for path in (ONE, TWO):  # one of them is not where the broker makes it by itself
        faulty = Faulty(client)
        asked: list[Any] = []

        def forgetful(real: Any, moves: Any, calls: list[Any] = asked) -> Any:
            calls.append(dict(moves))
            return dict.fromkeys(moves, Fault(NOT_YET)) if len(calls) == 1 else real(moves)

        faulty.replaced["alter_log_dirs"] = forgetful
        named = Move(T0, (1, 2), (1, 3), None, (ANY, path), (ANY, ANY))
        run = start(client, plan(client, named), through=faulty)
        assert run.to_the_end() is Outcome.DONE
        assert replica_locations(client, T0)[3] == (path,)
        assert asked[0] == {(T0, 3): path}
        copied.append(any(record.kind is Kind.DIRS_MOVED for record in run.journal.records()))
        assert start(client, plan(client, named.inverse())).to_the_end() is Outcome.DONE
    assert sorted(copied) == [False, True]


def test_remaining_replica_is_copied_between_log_dirs_only_after_the_reassignment(
    start: Start,
) -> None:
    client = cluster({"t": [(1, 2)]})
    dirs = replica_locations(client, T0)
    both = Move(T0, (1, 2), (1, 3), None, (OTHER[dirs[1][0]], ONE), (dirs[1][0], dirs[2][0]))
    run = start(client, plan(client, both))
    run.until(moving)
    assert T0 not in client.fetch_reassignments()
    assert run.to_the_end() is Outcome.DONE
    assert replica_locations(client, T0) == {1: (OTHER[dirs[1][0]],), 3: (ONE,)}


def test_log_dir_move_of_a_replica_that_is_not_there_yet_is_retried(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    faulty, tries = Faulty(client), []

    def not_yet(real: Any, moves: Any) -> Any:
        tries.append(client.elapsed_seconds)
        return dict.fromkeys(moves, Fault(NOT_YET)) if len(tries) < 4 else real(moves)

    faulty.replaced["alter_log_dirs"] = not_yet
    run = start(client, plan(client, across(client, T0, [1])), through=faulty)
    run.until(lambda step: isinstance(step, Poll) and NOT_YET in step.waiting)
    assert run.to_the_end() is Outcome.DONE
    assert len(tries) == 4
    assert tries[3] - tries[2] > tries[1] - tries[0] >= 1
    intents = [r for r in run.journal.records() if r.kind is Kind.DIRS_MOVING]
    assert len(intents) == 1


def test_log_dir_change_that_a_broker_refuses_fails_only_its_own_move(start: Start) -> None:
    client = cluster({"t": [(1, 2), (2, 1)]})
    faulty, before = Faulty(client), rates(client)

    def refuse_one(real: Any, moves: Any) -> Any:
        offline = {place: Fault("KAFKA_STORAGE_ERROR") for place in moves if place == (T0, 1)}
        return {**real({place: p for place, p in moves.items() if place != (T0, 1)}), **offline}

    faulty.replaced["alter_log_dirs"] = refuse_one
    both = plan(client, across(client, T0, [1, 2]), across(client, T1, [2]))
    dirs = replica_locations(client, T0)
    run = start(client, both, through=faulty)
    assert run.to_the_end() is Outcome.INCOMPLETE
    first, second = run.state.moves
    assert (first.phase, second.phase) == (Phase.FAILED, Phase.DONE)
    assert "KAFKA_STORAGE_ERROR" in first.why
    assert replica_locations(client, T0) == {1: dirs[1], 2: (OTHER[dirs[2][0]],)}
    assert rates(client) == before


def test_cancel_discards_unfinished_log_dir_copies_and_moves_finished_ones_back(
    start: Start,
) -> None:
    """The one replica has been copied while the other, on a slower broker, has not."""
    client = cluster({"t": [(1, 2)]})
    set_config(client, Resource.broker(2), LOG_DIRS_RATE, str(MB))
    dirs = replica_locations(client, T0)
    run = start(client, plan(client, across(client, T0, [1, 2])))
    run.until(moving)
    run.until(lambda _: replica_locations(client, T0)[1] == (OTHER[dirs[1][0]],))
    assert len(replica_locations(client, T0)[2]) == 2
    run.cancel()
    run.restores(Outcome.CANCELLED)
    assert replica_locations(client, T0) == dirs


def test_log_dir_copy_on_a_broker_that_dies_completes_once_it_returns(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    dirs = replica_locations(client, T0)
    run = start(client, plan(client, across(client, T0, [2])))
    run.until(moving)
    client.stop_broker(2)
    run.until(lambda step: isinstance(step, Poll) and "broker 2 is down" in step.waiting)
    client.start_broker(2)
    assert run.to_the_end() is Outcome.DONE
    assert replica_locations(client, T0)[2] == (OTHER[dirs[2][0]],)


def test_follower_out_of_sync_does_not_hold_up_the_log_dir_copy_of_another_replica(
    start: Start,
) -> None:
    client = cluster({"t": [(1, 2)]})
    run = start(client, plan(client, across(client, T0, [1])))
    run.until(moving)
    client.stop_broker(2)
    assert run.to_the_end() is Outcome.DONE


def test_log_dir_copy_that_somebody_else_discards_is_requested_a_second_time(start: Start) -> None:
    """The other log dir is asked for again when the copy to it has gone."""
    client = cluster({"t": [(1, 2)]})
    dirs = replica_locations(client, T0)
    run = start(client, plan(client, across(client, T0, [1])))
    run.until(moving)
    client.alter_log_dirs({(T0, 1): dirs[1][0]})  # which throws ours away
    assert run.to_the_end() is Outcome.DONE
    assert replica_locations(client, T0)[1] == (OTHER[dirs[1][0]],)


@pytest.mark.parametrize("target", [(1, 5), (1, 2, 5)])
def test_log_dir_copy_is_discarded_when_somebody_else_changes_the_move(
    start: Start, target: tuple[int, ...]
) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=400 * MB)
    path = here(client, T0, 1)
    run = start(client, plan(client, across(client, T0, [1])))
    run.until(moving)
    spend(run, 5)
    assert replica_locations(client, T0)[1] == (path, OTHER[path])
    client.alter_reassignments({T0: target})
    run.restores(Outcome.FAILED, 60)
    assert run.state.moves[0].why == CHANGED_ELSEWHERE
    assert replica_locations(client, T0)[1] == (path,)


def test_lower_foreign_log_dir_rate_is_kept_and_a_higher_one_is_put_back_afterwards(
    start: Start,
) -> None:
    client = cluster({"t": [(1, 2)]})
    set_config(client, Resource.broker(1), LOG_DIRS_RATE, str(2 * MB))
    set_config(client, Resource.broker(2), LOG_DIRS_RATE, str(50 * MB))
    run = start(client, plan(client, across(client, T0, [1, 2])))
    run.until(moving)
    assert (own_rate(client, 1), own_rate(client, 2)) == (str(2 * MB), str(5 * MB))
    run.restores(Outcome.DONE)


def test_a_pause_with_the_floor_holds_copies_between_log_dirs(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    run = start(client, plan(client, across(client, T0, [1])))
    run.until(moving)
    ask(run, "pause", floor=True)
    spend(run, 5)
    assert own_rate(client, 1) == "1"
    ask(run, "resume")
    assert run.to_the_end() is Outcome.DONE


def test_progress_of_log_dir_copies_is_shown_in_bytes(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    run = start(client, plan(client, across(client, T0, [1, 2])))
    run.until(moving)
    spend(run, 3)
    view = run.view()
    (m,) = view.moves
    assert m.state is MoveStatus.MOVING
    assert view.total_bytes == 40 * MB
    assert 0 < m.moved_bytes < 40 * MB
    assert dict(m.dir_moves) == dict(run.state.moves[0].move.dir_moves)
    sides = {(b.broker, b.side) for b in view.brokers}
    assert sides == {(1, "log dirs"), (2, "log dirs")}
    run.to_the_end()
    assert run.view().moved_bytes == 40 * MB


def test_rollback_during_or_after_a_run_restores_the_original_log_dirs(
    start: Start,
) -> None:
    client = cluster({"t": [(1, 2), (2, 1)]})
    dirs = {tp: replica_locations(client, tp) for tp in (T0, T1)}
    run = start(
        client, plan(client, across(client, T0, [1]), across(client, T1, [2])), batch_size=1
    )
    run.until(lambda _: run.state.moves[0].phase is Phase.DONE)
    ask(run, "rollback")
    assert run.to_the_end() is Outcome.CANCELLED
    assert {tp: replica_locations(client, tp) for tp in (T0, T1)} == dirs

    done = start(client, plan(client, across(client, T0, [1])))
    assert done.to_the_end() is Outcome.DONE
    again = plan_followup(done.runner.state, FollowUp.ROLLBACK, client.describe_cluster())
    assert not again.left
    assert start(client, again.plan).to_the_end() is Outcome.DONE
    assert replica_locations(client, T0) == dirs[T0]


def test_a_log_dir_that_the_broker_does_not_have_is_refused_before_anything_is_written(
    start: Start,
) -> None:
    client = cluster({"t": [(1, 2)]})
    wrong = Move(T0, (1, 2), (1, 2), None, ("/nowhere", ANY), (ONE, ANY))
    run = start(client, plan(client, wrong))
    assert run.to_the_end() is Outcome.FAILED
    assert "no-log-dir" in run.state.ended_why


def test_log_dir_rates_and_copies_left_by_a_dead_run_are_reported(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    run = start(client, plan(client, across(client, T0, [1])))
    run.until(moving)
    view = run.view(living=False)
    assert view.leftovers is not None
    left = fetch_leftovers(client, view.leftovers)
    (rate,) = left.rates
    assert (rate.broker, rate.side, rate.rate_bytes_per_s) == (1, Side.LOG_DIRS, 5 * MB)
    assert left.moves == (T0,)
    assert f"1:{run.state.moves[0].move.dir_moves[1]},2" in report(run.look(living=False))
    client.alter_log_dirs({(T0, 1): here(client, T0, 1)})
    assert fetch_leftovers(client, view.leftovers).moves == ()


def test_an_adaptive_run_adapts_the_rate_between_log_dirs_too(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    bounds = RateBounds(2 * MB, 20 * MB)
    run = start(client, plan(client, across(client, T0, [1])), auto=bounds)
    run.until(moving)
    assert own_rate(client, 1) == str(2 * MB)  # nothing tells how it fares: it keeps to the least
    run.restores(Outcome.DONE)


def test_log_dir_run_without_a_limit_can_be_given_one_while_it_runs(start: Start) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=900 * MB)
    run = start(client, plan(client, across(client, T0, [1])), rate=-1)
    run.until(moving)
    assert own_rate(client, 1) is None
    ask(run, "throttle", rate_bytes_per_s=300 * MB)
    run.until(lambda _: own_rate(client, 1) == str(300 * MB))
    run.restores(Outcome.DONE)


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
def test_run_whose_log_dir_fails_ends_whatever_is_requested_of_it(
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
    first = run.state.moves[0]
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


def test_cancel_after_the_disk_failed_reports_that_the_log_dir_is_offline(
    start: Start, client: SimulatedCluster
) -> None:
    run = copying(start, client)
    source(client)
    run.cancel()
    assert run.to_the_end(SECONDS) is Outcome.CANCELLED
    (m,) = run.state.moves
    assert (m.phase, m.why) == (Phase.CANCELLED, "cancelled; its log dir on broker 1 is offline")
    assert m.why in run.view().why


def test_run_without_any_request_fails_with_the_storage_error_of_its_lost_disk(
    start: Start, client: SimulatedCluster
) -> None:
    run = copying(start, client)
    source(client)
    assert run.to_the_end(SECONDS) is Outcome.FAILED
    assert "KAFKA_STORAGE_ERROR" in run.state.moves[0].why


@pytest.mark.parametrize("kind", ["cancel", "nothing"])
def test_run_of_a_plan_created_after_the_disk_had_failed_ends_too(
    start: Start, client: SimulatedCluster, kind: str
) -> None:
    path = here(client, T0, 1)
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
    assert throttles(client) == run.found


def test_cancel_leaves_a_copied_replica_in_place_when_its_old_log_dir_is_gone(
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
    assert "stays in" in run.state.moves[0].why


def test_further_cancel_leaves_moves_of_a_broker_that_never_comes_back(
    start: Start, client: SimulatedCluster
) -> None:
    run = copying(start, client)
    client.stop_broker(1)
    run.cancel()
    run.until(lambda step: isinstance(step, Poll) and "broker 1 is down" in step.waiting)
    spend(run, 60)
    assert run.state.ended is None
    run.cancel()
    assert run.to_the_end(SECONDS) is Outcome.INCOMPLETE
    assert run.view().leftovers is not None


def test_new_process_ends_a_run_whose_journal_repeats_the_same_refusals(
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
    run.restart_process()
    assert run.to_the_end(SECONDS) in (Outcome.CANCELLED, Outcome.DONE)


def test_other_moves_continue_when_the_disk_of_one_move_is_gone(
    start: Start, client: SimulatedCluster
) -> None:
    run = copying(start, client, across(client, T0, [1]), across(client, T1, [2]), rate=20 * MB)
    source(client)
    run.to_the_end(SECONDS)
    assert run.state.moves[1].phase is Phase.DONE
