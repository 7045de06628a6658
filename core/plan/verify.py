"""Is the cluster as a plan says? Compares targets with one picture of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.plan.plan import ANY, log_dir_of
from core.units import id_list

_NONE: Mapping[TopicPartition, tuple[str, ...]] = MappingProxyType({})


class VerifyStatus(Enum):
    """How a partition stands to its target; the value is its word in documents."""

    DONE = "done"
    MISSING = "missing"
    DIFFERENT = "different"
    OUT_OF_SYNC = "out-of-sync"
    MOVING = "moving"
    OTHER_LOG_DIR = "other-log-dir"


@dataclass(frozen=True, slots=True)
class Verification:
    """One partition: the replicas and log dirs it should have, those it has, and the ISR."""

    tp: TopicPartition
    expected: tuple[int, ...]
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    status: VerifyStatus
    expected_log_dirs: tuple[str, ...] | None = None
    log_dirs: tuple[str | None, ...] = ()

    @property
    def sentence(self) -> str:
        now, target = id_list(self.replicas), id_list(self.expected)
        match self.status:
            case VerifyStatus.DONE:
                where = " in the log dirs asked for," if self.expected_log_dirs else ","
                return f"{self.tp} is on {target}{where} all in sync."
            case VerifyStatus.MISSING:
                return f"{self.tp} does not exist."
            case VerifyStatus.DIFFERENT:
                return f"{self.tp} is on {now}, not on {target}."
            case VerifyStatus.OUT_OF_SYNC:
                late = tuple(b for b in self.replicas if b not in self.isr)
                return f"{self.tp} is on {target}, and {id_list(late)} not in sync."
            case VerifyStatus.MOVING:
                return f"{self.tp} is moving: {now} now, {target} wanted."
            case VerifyStatus.OTHER_LOG_DIR:
                broker, path, log_dir = self._misplaced[0]
                known = f"lies in {log_dir}" if log_dir else "lies in a log dir that is not known"
                return f"{self.tp} {known} on broker {broker}, not in {path}."

    @property
    def _misplaced(self) -> list[tuple[int, str, str | None]]:
        """Return the replicas that are not in their log dir: broker, the wanted one, its own."""
        held = dict(zip(self.replicas, self.log_dirs, strict=False))
        targets = zip(self.expected, self.expected_log_dirs or (), strict=False)
        return [(b, p, held.get(b)) for b, p in targets if p not in (ANY, held.get(b))]


def verify(
    state: ClusterState,
    targets: Mapping[TopicPartition, tuple[int, ...]],
    log_dirs: Mapping[TopicPartition, tuple[str, ...]] = _NONE,
) -> tuple[Verification, ...]:
    """Return how each target stands: what is not done first, then by topic and partition.

    Done is: no reassignment in flight, the replicas of the target in its order, all in the ISR,
    and each in the log dir that `log_dirs` asks for.
    """
    checks = (_verified(state, tp, expected, log_dirs.get(tp)) for tp, expected in targets.items())
    return tuple(sorted(checks, key=lambda v: (v.status is VerifyStatus.DONE, v.tp)))


def _verified(
    state: ClusterState,
    tp: TopicPartition,
    expected: tuple[int, ...],
    log_dirs: tuple[str, ...] | None,
) -> Verification:
    index = state.find(tp)
    if index is None:
        return Verification(tp, expected, (), (), VerifyStatus.MISSING, log_dirs)
    row = state.row(index)
    if row.adding or row.removing:
        status = VerifyStatus.MOVING
    elif row.replicas != expected:
        status = VerifyStatus.DIFFERENT
    elif not set(expected) <= set(row.isr):
        status = VerifyStatus.OUT_OF_SYNC
    else:
        status = VerifyStatus.DONE
    held = tuple(log_dir_of(state, tp, b) for b in row.replicas) if log_dirs else ()
    check = Verification(tp, expected, row.replicas, row.isr, status, log_dirs, held)
    if status is VerifyStatus.DONE and check._misplaced:
        return replace(check, status=VerifyStatus.OTHER_LOG_DIR)
    return check
