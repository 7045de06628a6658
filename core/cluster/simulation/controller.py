"""Kafka's controller for one partition: assignment, reassignment, ISR and leader.

Pure functions from one Registration to the next, after KRaft's PartitionChangeBuilder,
PartitionReassignmentReplicas and PartitionReassignmentRevert (Kafka 4.x).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from core.cluster.kafka_errors import Fault
from core.cluster.metadata import NO_LEADER

NO_REASSIGNMENT = Fault("NO_REASSIGNMENT_IN_PROGRESS", "No partition reassignment is in progress.")
UNKNOWN_PARTITION = Fault(
    "UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition."
)


@dataclass(frozen=True, slots=True)
class Registration:
    """One partition as the metadata log has it; replicas in assignment order."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    leader_epoch: int = 0
    elr: tuple[int, ...] = ()
    """Out of the ISR while it was below min.insync.replicas, hence complete (KIP-966)."""

    @property
    def is_in_flight(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas if b not in self.removing)


Change = Callable[[Registration, Collection[int]], Registration | Fault]
"""One partition, given who is alive, to what it becomes or why it cannot."""


def check_assignment(target: Sequence[int], registered: Collection[int]) -> Fault | None:
    """Return why a target assignment is invalid; a fenced broker is registered, hence valid."""
    prefix = "The manual partition assignment includes"
    if not target:
        return Fault("INVALID_REPLICA_ASSIGNMENT", f"{prefix} an empty replica list.")
    for broker in sorted(set(target)):
        if target.count(broker) > 1:
            return Fault(
                "INVALID_REPLICA_ASSIGNMENT", f"{prefix} the broker {broker} more than once."
            )
        if broker not in registered:
            return Fault(
                "INVALID_REPLICA_ASSIGNMENT",
                f"{prefix} broker {broker}, but no such broker is registered.",
            )
    return None


def reassign(now: Registration, target: tuple[int, ...], alive: Collection[int]) -> Registration:
    """Return the partition with `target` in flight, or done when there is nothing to copy.

    Like the controller it leaves adding and removing as they were when the new target has none,
    so that the same target twice changes nothing.
    """
    adding = tuple(sorted(set(target) - set(now.replicas))) or now.adding
    removing = tuple(sorted(set(now.replicas) - set(target))) or now.removing
    replicas = target + tuple(sorted(set(now.replicas) - set(target)))
    moving = replace(now, replicas=replicas, adding=adding, removing=removing)
    return _complete_reassignment(now, moving, alive)


def elect_leader(now: Registration, alive: Collection[int]) -> Registration:
    """Return the partition with its leader kept while it may lead, else the first that may."""
    return _bump_epoch(now, _with_leader(now, alive))


def cancel_reassignment(now: Registration, alive: Collection[int]) -> Registration | Fault:
    """Return the partition with its reassignment cancelled: replicas minus adding, in order.

    Refused when none of the reverted replicas is in sync: that were an unclean election.
    """
    if not now.is_in_flight:
        return NO_REASSIGNMENT
    isr = tuple(b for b in now.isr if b not in now.adding)
    if not isr:
        return Fault(
            "INVALID_REPLICA_ASSIGNMENT",
            "Unable to revert partition assignment because it would require an unclean "
            "leader election.",
        )
    replicas = tuple(b for b in now.replicas if b not in now.adding)
    back = replace(now, replicas=replicas, isr=isr, adding=(), removing=())
    return _bump_epoch(now, _with_leader(back, alive))


def shrink_isr(
    now: Registration, broker: int, alive: Collection[int], min_insync: int = 1
) -> Registration:
    """Return the partition with `broker` out of the ISR, even if nothing is left in it."""
    if broker not in now.isr:
        return elect_leader(now, alive)
    isr = tuple(b for b in now.isr if b != broker)
    elr = (*now.elr, broker) if len(isr) < min_insync else now.elr
    return _bump_epoch(now, _with_leader(replace(now, isr=isr, elr=elr), alive))


def expand_isr(
    now: Registration, broker: int, alive: Collection[int], min_insync: int = 1
) -> Registration:
    """Return the partition with `broker` in the ISR, which may complete a reassignment."""
    if broker in now.isr or broker not in now.replicas:
        return now
    isr = (*now.isr, broker)
    elr = () if len(isr) >= min_insync else tuple(b for b in now.elr if b != broker)
    return _complete_reassignment(now, replace(now, isr=isr, elr=elr), alive)


def _complete_reassignment(
    before: Registration, now: Registration, alive: Collection[int]
) -> Registration:
    """Return the partition with a reassignment completed if what it adds is in sync.

    Another replica that is out of sync does not hold it up (4.3.1). A broker that is adding and
    removing at once (the original submitted again in flight) never is in: such a reassignment
    ends by cancelling only.
    """
    target = now.target
    isr = tuple(b for b in now.isr if b in target)
    if now.is_in_flight and isr and set(now.adding) <= set(isr):
        now = replace(now, replicas=target, isr=isr, adding=(), removing=())
    return _bump_epoch(before, _with_leader(now, alive))


def _with_leader(now: Registration, alive: Collection[int]) -> Registration:
    def may_lead(broker: int) -> bool:
        return broker in now.isr and broker in alive

    if may_lead(now.leader):
        return now
    leader = next((b for b in now.replicas if may_lead(b)), NO_LEADER)
    if leader == NO_LEADER:
        leader = next((b for b in now.replicas if b in now.elr and b in alive), NO_LEADER)
    if leader == NO_LEADER or leader in now.isr:
        return replace(now, leader=leader)
    return replace(now, leader=leader, isr=(leader,), elr=tuple(b for b in now.elr if b != leader))


def _bump_epoch(before: Registration, now: Registration) -> Registration:
    """Return the partition with a new leader epoch if it has a new leader or lost a replica."""
    bump = now.leader != before.leader or not set(before.replicas) <= set(now.replicas)
    return replace(now, leader_epoch=before.leader_epoch + bump)


def elect_preferred(now: Registration, alive: Collection[int]) -> Registration | Fault:
    """Return the partition led by its first replica."""
    preferred = now.replicas[0]
    if now.leader == preferred:
        return Fault("ELECTION_NOT_NEEDED", "Leader election not needed for topic partition.")
    if preferred not in now.isr or preferred not in alive:
        return Fault(
            "PREFERRED_LEADER_NOT_AVAILABLE",
            "The preferred leader was not available.",
        )
    return replace(now, leader=preferred, leader_epoch=now.leader_epoch + 1)


def elect_unclean(now: Registration, alive: Collection[int]) -> Registration | Fault:
    """Return a partition without a leader led by a live replica, which alone is in sync then."""
    if now.leader != NO_LEADER:
        return Fault("ELECTION_NOT_NEEDED", "Leader election not needed for topic partition.")
    leader = next((b for b in now.replicas if b in alive), NO_LEADER)
    if leader == NO_LEADER:
        return Fault(
            "ELIGIBLE_LEADERS_NOT_AVAILABLE",
            "Eligible topic partition leaders are not available.",
        )
    epoch = now.leader_epoch + 1
    return replace(now, leader=leader, isr=(leader,), elr=(), leader_epoch=epoch)
