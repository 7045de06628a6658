"""The simulated controller does with assignments what KRaft's does."""

from __future__ import annotations

import pytest

from core.cluster.kafka_errors import Fault
from core.cluster.simulation import controller
from core.cluster.simulation.controller import Registration

ALL = range(10)


def registration(
    replicas: list[int],
    isr: list[int] | None = None,
    leader: int | None = None,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> Registration:
    return Registration(
        tuple(replicas),
        tuple(replicas if isr is None else isr),
        replicas[0] if leader is None else leader,
        adding,
        removing,
    )


@pytest.mark.parametrize(
    ("now", "target", "replicas", "adding", "removing"),
    [
        ([3, 2, 1, 0], (7, 3, 1, 9), (7, 3, 1, 9, 0, 2), (7, 9), (0, 2)),
        ([3, 2, 1], (0, 2, 1), (0, 2, 1, 3), (0,), (3,)),
        ([0, 1, 2], (0, 1, 3), (0, 1, 3, 2), (3,), (2,)),
        ([2, 0, 1], (0, 2, 3), (0, 2, 3, 1), (3,), (1,)),
        ([4, 3, 2], (1, 2, 3, 4, 0), (1, 2, 3, 4, 0), (0, 1), ()),
    ],
)
def test_reassignment_lists_target_replicas_followed_by_the_removed_ones(
    now: list[int],
    target: tuple[int, ...],
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
) -> None:
    moving = controller.reassign(registration(now), target, ALL)
    assert (moving.replicas, moving.adding, moving.removing) == (replicas, adding, removing)
    assert moving.leader == now[0]


def test_repeated_reassignment_to_the_same_target_changes_nothing() -> None:
    once = controller.reassign(registration([0, 1]), (2, 3), ALL)
    assert controller.reassign(once, (2, 3), ALL) == once


def test_an_unrelated_replica_out_of_sync_does_not_hold_a_reassignment_up() -> None:
    moving = controller.reassign(registration([1, 4, 2], [1, 2]), (1, 4, 3), ALL)
    done = controller.expand_isr(moving, 3, ALL)
    assert (done.replicas, done.isr, done.is_in_flight) == ((1, 4, 3), (1, 3), False)


def test_overriding_a_reassignment_in_flight_also_removes_its_first_target() -> None:
    first = controller.reassign(registration([0, 1]), (2, 3), ALL)
    second = controller.reassign(first, (4, 5), ALL)
    assert second.replicas == (4, 5, 0, 1, 2, 3)
    assert second.removing == (0, 1, 2, 3)
    assert second.adding == (4, 5)


@pytest.mark.parametrize(
    ("isr", "replicas", "in_sync"),
    [
        ([0, 1, 2, 3, 4], (3, 4, 5, 0, 1, 2), {0, 1, 2, 3, 4}),
        ([0, 1, 2, 3, 4, 5], (3, 4, 5), {3, 4, 5}),
    ],
)
def test_reassignment_completes_when_all_added_replicas_are_in_sync(
    isr: list[int], replicas: tuple[int, ...], in_sync: set[int]
) -> None:
    moving = controller.reassign(registration([0, 1, 2]), (3, 4, 5), ALL)
    for broker in isr[3:]:
        moving = controller.expand_isr(moving, broker, ALL)
    assert moving.replicas == replicas
    assert set(moving.isr) == in_sync
    assert moving.leader == (3 if replicas == (3, 4, 5) else 0)


@pytest.mark.parametrize(
    ("now", "target"), [([0, 1, 2], (1, 2, 0)), ([2, 3, 0], (2, 3)), ([0, 1, 2], (0, 1, 2))]
)
def test_reassignment_that_copies_nothing_completes_at_once_and_keeps_its_leader(
    now: list[int], target: tuple[int, ...]
) -> None:
    done = controller.reassign(registration(now), target, ALL)
    assert done.replicas == target
    assert not done.is_in_flight
    assert done.leader == now[0]


def test_cancelling_keeps_the_original_replicas_that_were_in_sync_in_the_isr() -> None:
    moving = registration([4, 5, 3, 2, 1], [4, 5, 2], 4, adding=(4, 5))
    back = controller.cancel_reassignment(moving, ALL)
    assert isinstance(back, Registration)
    assert (back.replicas, back.isr, back.leader) == ((3, 2, 1), (2,), 2)


def test_cancelling_into_an_unclean_election_is_refused() -> None:
    moving = registration([4, 5, 3, 2, 1], [4, 5], 4, adding=(4, 5))
    refused = controller.cancel_reassignment(moving, ALL)
    assert isinstance(refused, Fault)
    assert refused.name == "INVALID_REPLICA_ASSIGNMENT"


@pytest.mark.parametrize(
    ("now", "target", "after", "leader"),
    [([3, 2, 1], (0, 2, 1), (2, 1, 3), 3), ([4, 3, 2], (1, 2, 3, 4, 0), (2, 3, 4), 4)],
)
def test_cancelling_changes_the_replica_order_but_not_the_leader(
    now: list[int], target: tuple[int, ...], after: tuple[int, ...], leader: int
) -> None:
    back = controller.cancel_reassignment(controller.reassign(registration(now), target, ALL), ALL)
    assert isinstance(back, Registration)
    assert back.replicas == after
    assert back.leader == leader
    assert not back.is_in_flight


def test_cancelling_without_a_reassignment_reports_no_reassignment() -> None:
    assert controller.cancel_reassignment(registration([0, 1]), ALL) == controller.NO_REASSIGNMENT


@pytest.mark.parametrize(
    ("target", "refused"), [((0, 3), False), ((0, 5), True), ((), True), ((0, 0), True)]
)
def test_reassignment_targets_must_be_distinct_registered_brokers(
    target: tuple[int, ...], refused: bool
) -> None:
    # Broker 3 is fenced: registered, and accepted.
    assert (controller.check_assignment(target, {0, 1, 2, 3}) is not None) is refused


def test_a_lost_leader_is_replaced_in_assignment_order_from_the_isr() -> None:
    now = controller.shrink_isr(registration([1, 2, 3], [1, 3]), 1, {2, 3})
    assert (now.leader, now.isr, now.leader_epoch) == (3, (3,), 1)


def test_partition_has_no_leader_until_its_last_in_sync_replica_is_back() -> None:
    gone = controller.shrink_isr(registration([1, 2], [1]), 1, {2})
    assert (gone.leader, gone.isr) == (controller.NO_LEADER, ())
    back = controller.elect_leader(gone, {1, 2})
    assert (back.leader, back.isr, back.elr) == (1, (1,), ())


def test_replica_that_left_isr_below_min_insync_can_be_elected_from_elr() -> None:
    now = registration([1, 2, 3], [1, 2])
    now = controller.shrink_isr(now, 2, {1}, min_insync=2)
    now = controller.shrink_isr(now, 1, {2}, min_insync=2)
    assert (now.leader, now.isr, now.elr) == (2, (2,), (1,))
    assert controller.expand_isr(now, 1, {1, 2}, min_insync=2).elr == ()


def test_resubmitted_original_replicas_stay_in_flight_until_cancelled() -> None:
    stuck = controller.reassign(controller.reassign(registration([1, 3]), (2, 4), ALL), (1, 3), ALL)
    assert (stuck.replicas, stuck.adding, stuck.removing) == ((1, 3, 2, 4), (2, 4), (2, 4))
    stuck = controller.expand_isr(controller.expand_isr(stuck, 2, ALL), 4, ALL)
    assert stuck.is_in_flight
    back = controller.cancel_reassignment(stuck, ALL)
    assert isinstance(back, Registration)
    assert back.replicas == (1, 3)


@pytest.mark.parametrize(
    ("leader", "isr", "alive", "fault"),
    [
        (2, [1, 2], {1, 2}, None),
        (1, [1, 2], {1, 2}, "ELECTION_NOT_NEEDED"),
        (2, [2], {1, 2}, "PREFERRED_LEADER_NOT_AVAILABLE"),
        (2, [1, 2], {2}, "PREFERRED_LEADER_NOT_AVAILABLE"),
    ],
)
def test_a_preferred_leader_must_be_in_sync_and_alive(
    leader: int, isr: list[int], alive: set[int], fault: str | None
) -> None:
    elected = controller.elect_preferred(registration([1, 2], isr, leader), alive)
    if fault is None:
        assert isinstance(elected, Registration)
        assert elected.leader == 1
    else:
        assert isinstance(elected, Fault)
        assert elected.name == fault
