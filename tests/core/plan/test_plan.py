"""Plan as a value: edits, differences, and the laws they keep."""

from __future__ import annotations

import pytest
from clusters import cluster, tp
from hypothesis import given
from hypothesis import strategies as st
from plan_strategies import BROKERS, assignments, plans, states

from core.plan.plan import ANY, Move, Plan, current_target
from core.plan.verify import VerifyStatus, verify


@given(plans)
def test_inverse_of_inverse_is_the_plan(plan):
    assert plan.inverse().inverse() == plan


@given(plans)
def test_an_inverse_adds_what_was_removed(plan):
    for there, back in zip(plan, plan.inverse(), strict=True):
        assert set(there.adding) == set(back.removing)
        assert set(there.removing) == set(back.adding)


@given(plans)
def test_moves_are_sorted_and_change_something(plan):
    assert [move.tp for move in plan] == sorted(move.tp for move in plan)
    assert all(move.before != move.after or move.dir_moves for move in plan)


@given(states, st.data())
def test_undoing_any_edits_leaves_an_empty_plan(state, data):
    """Base is kept through edits, so putting every partition back is no change at all."""
    plan = Plan()
    for _ in range(data.draw(st.integers(1, 6))):
        partition = state.tp(data.draw(st.integers(0, state.partition_count - 1)))
        plan = plan.with_target(state, partition, data.draw(assignments))
    for move in plan:
        assert move.before == current_target(state, move.tp)
        plan = plan.with_target(state, move.tp, move.before)
    assert plan.moves == ()


@given(states, st.data())
def test_a_move_keeps_place_and_number_of_replicas(state, data):
    index = data.draw(st.integers(0, state.partition_count - 1))
    partition, before = state.tp(index), state.replicas(index)
    place = data.draw(st.integers(0, len(before) - 1))
    free = [b for b in BROKERS if b not in before]
    destination = data.draw(st.sampled_from(free))

    after = Plan().with_move(state, partition, before[place], destination).target(state, partition)

    assert after == (*before[:place], destination, *before[place + 1 :])


@given(states, st.data())
def test_a_leader_edit_moves_no_data(state, data):
    index = data.draw(st.integers(0, state.partition_count - 1))
    partition = state.tp(index)
    broker = data.draw(st.sampled_from(state.replicas(index)))

    plan = Plan().with_leader(state, partition, broker)

    assert plan.target(state, partition)[0] == broker
    assert sorted(plan.target(state, partition)) == sorted(state.replicas(index))
    assert not any(move.moves_data for move in plan)


DIFFERENCES = [
    # before, after, adding, removing, preferred leader, moves data
    ((1, 2, 3), (4, 5, 3), (4, 5), (1, 2), (1, 4), True),
    ((0, 1, 2), (0, 1, 4, 2), (4,), (), (0, 0), True),
    ((2, 3, 0), (2, 3), (), (0,), (2, 2), False),
    ((0, 1, 2), (1, 2, 0), (), (), (0, 1), False),
]


@pytest.mark.parametrize(
    ("before", "after", "adding", "removing", "leaders", "moves_data"), DIFFERENCES
)
def test_move_shows_added_and_removed_replicas_leaders_and_whether_it_moves_data(
    before, after, adding, removing, leaders, moves_data
):
    move = Move(tp("t-0"), before, after)
    assert (move.adding, move.removing) == (adding, removing)
    assert move.preferred_leader == leaders
    assert move.moves_data is moves_data
    assert move.is_reorder is (not adding and not removing)


@pytest.mark.parametrize(("source", "destination"), [(3, 4), (0, 1)])
def test_a_move_needs_a_source_and_a_free_destination(source, destination):
    state = cluster({"t-0": [0, 1]}, brokers=range(5))
    with pytest.raises(ValueError, match="broker"):
        Plan().with_move(state, tp("t-0"), source, destination)


def test_broker_without_a_replica_cannot_become_leader():
    state = cluster({"t-0": [0, 1]}, brokers=range(5))
    with pytest.raises(ValueError, match="holds no replica"):
        Plan().with_leader(state, tp("t-0"), 4)


def test_edit_of_a_partition_in_flight_starts_from_its_reassignment_target():
    state = cluster(
        {"t-0": [3, 0, 1]}, brokers=range(5), adding={"t-0": [3]}, removing={"t-0": [0]}
    )
    plan = Plan().with_move(state, tp("t-0"), 1, 4)
    assert plan.moves[0].before == (3, 1)
    assert plan.moves[0].after == (3, 4)


def test_a_missing_partition_is_a_key_error():
    with pytest.raises(KeyError, match="u-9"):
        Plan().target(cluster({"t-0": [0]}), tp("u-9"))


def test_moves_at_their_target_or_in_flight_do_not_remain():
    held = {"t-0": [3, 2], "t-1": [3, 2, 1], "t-2": [1, 2]}
    state = cluster(held, adding={"t-1": [3]}, removing={"t-1": [1]})
    moves = [Move(tp(f"t-{p}"), (1, 2), (3, 2)) for p in range(4)]
    left = Plan.of(moves).remaining(state)
    assert [move.tp.partition for move in left] == [2, 3]


def test_new_replicas_get_their_log_dirs_and_staying_replicas_change_theirs():
    move = Move(tp("a-0"), (0, 1), (1, 2), None, ("/d2", "/d1"), ("/d1", "/d1"))
    assert (move.adding, move.new_log_dirs, move.dir_moves) == ((2,), {2: "/d1"}, {1: "/d2"})
    assert move.receiving == (2, 1)
    assert move.inverse().new_log_dirs == {0: "/d1"}
    assert move.inverse().dir_moves == {1: "/d1"}


def test_a_replica_that_changes_its_log_dir_only_is_a_move():
    stays = Move(tp("a-0"), (0, 1), (0, 1), None, (ANY, "/d2"), (ANY, "/d1"))
    lies = Move(tp("a-1"), (0, 1), (0, 1), None, (ANY, "/d2"), (ANY, "/d2"))
    assert Plan.of([stays, lies]).moves == (stays,)


def test_another_target_keeps_the_log_dirs_that_still_apply():
    state = cluster({"a-0": [0, 1]}, brokers=range(4))
    plan = Plan.of([Move(tp("a-0"), (0, 1), (0, 2), None, ("/d2", "/d3"), ("/d1", "/d1"))])
    (led,) = plan.with_leader(state, tp("a-0"), 2)
    assert (led.after, led.log_dirs) == ((2, 0), ("/d3", "/d2"))
    (other,) = plan.with_target(state, tp("a-0"), (1, 3))
    assert (other.log_dirs, other.log_dirs_before) == (None, None)


def test_plan_remains_until_every_replica_is_in_its_target_log_dir():
    state = cluster({"a-0": [0, 1]}, size_bytes=1)  # everything is in /data
    there = Move(tp("a-0"), (0, 1), (0, 1), None, (ANY, "/data"), (ANY, "/d1"))
    due = Move(tp("a-0"), (0, 1), (0, 1), None, (ANY, "/d2"), (ANY, "/data"))
    assert not Plan.of([there]).remaining(state)
    assert Plan.of([due]).remaining(state) == Plan.of([due])


STATE = cluster({"t-0": [0, 1], "t-1": [0, 1]}, size_bytes={"t-0": 1})  # t-0 in /data


def test_a_replica_in_another_log_dir_is_not_as_planned() -> None:
    targets = {tp("t-0"): (0, 1)}
    (verification,) = verify(STATE, targets, {tp("t-0"): ("any", "/d2")})
    assert verification.status is VerifyStatus.OTHER_LOG_DIR
    assert verification.sentence == "t-0 lies in /data on broker 1, not in /d2."
    (verification,) = verify(STATE, targets, {tp("t-0"): ("any", "/data")})
    assert verification.status is VerifyStatus.DONE


def test_unknown_log_dir_is_not_taken_for_the_planned_log_dir() -> None:
    (verification,) = verify(STATE, {tp("t-1"): (0, 1)}, {tp("t-1"): ("any", "/d2")})
    assert verification.status is VerifyStatus.OTHER_LOG_DIR
    assert "not known" in verification.sentence


def test_different_replicas_take_precedence_over_log_dirs_in_verify() -> None:
    (verification,) = verify(STATE, {tp("t-0"): (0, 2)}, {tp("t-0"): ("any", "/d2")})
    assert verification.status is VerifyStatus.DIFFERENT
