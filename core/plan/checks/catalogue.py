"""The catalogue of checks, and the finding that a check raises."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

from core.cluster.metadata import TopicPartition
from core.errors import RefusedError, UsageError


class Severity(IntEnum):
    """ILLEGAL cannot be carried out, UNSAFE only when allowed by its id, UNWISE is only said."""

    UNWISE = 1
    UNSAFE = 2
    ILLEGAL = 3


CATALOGUE: Mapping[str, tuple[Severity, str]] = MappingProxyType(
    {
        "missing-partition": (Severity.ILLEGAL, "the partition does not exist"),
        "empty": (Severity.ILLEGAL, "a partition is left without a replica"),
        "not-a-replica": (Severity.ILLEGAL, "the broker that should give it away has no replica"),
        "same-broker-twice": (Severity.ILLEGAL, "two replicas of a partition on one broker"),
        "unknown-broker": (Severity.ILLEGAL, "the broker does not exist"),
        "too-many-replicas": (Severity.ILLEGAL, "more replicas than brokers"),
        "no-log-dir": (Severity.ILLEGAL, "the broker has no such log dir, or it is offline"),
        "remote-storage": (Severity.ILLEGAL, "a retention deletes what remote storage keeps"),
        "stale": (Severity.ILLEGAL, "the cluster has changed since the plan was made"),
        "dead-broker": (Severity.UNSAFE, "a new replica on a broker that is down"),
        "no-leader": (Severity.UNSAFE, "nobody leads the partition, so nothing can be copied"),
        "foreign-move": (Severity.UNSAFE, "the partition is moving already"),
        "out-of-sync": (Severity.UNSAFE, "a replica of the partition is out of the ISR"),
        "min-isr": (Severity.UNSAFE, "fewer replicas than min.insync.replicas"),
        "min-isr-unknown": (Severity.UNSAFE, "fewer replicas, min.insync.replicas not known"),
        "rf-change": (Severity.UNSAFE, "the number of replicas changes"),
        "rack-spread": (Severity.UNSAFE, "replicas over fewer racks, or less evenly"),
        "disk": (Severity.UNSAFE, "too little free disk where replicas arrive"),
        "capacity": (Severity.UNSAFE, "a broker ends with more than it can take in or send"),
        "log-dirs": (Severity.UNSAFE, "whether the broker has the log dir is not known"),
        "never": (Severity.UNSAFE, "the throttle is below what is produced meanwhile"),
        "unread": (Severity.UNSAFE, "a retention deletes what a group may have yet to read"),
        "cruise-control": (
            Severity.UNSAFE,
            "Cruise Control, or another balancer, works here and may cancel moves",
        ),
        "rack-unknown": (Severity.UNWISE, "a broker without a rack among brokers with racks"),
        "size-unknown": (Severity.UNWISE, "how much is to be copied is not known"),
        "load-unknown": (Severity.UNWISE, "how much is produced meanwhile is not known"),
        "hidden-topics": (Severity.UNWISE, "topics that may not be seen are in no comparison"),
        "disk-fuller": (Severity.UNWISE, "a disk gets rather full"),
        "hotter-broker": (Severity.UNWISE, "a broker ends above its fair share"),
        "leader-skew": (Severity.UNWISE, "preferred leaders end less even"),
    }
)
"""Every check: id → severity and what it looks for, worst first."""

_ORDER = {id: i for i, id in enumerate(CATALOGUE)}
OWN_RUN_CHECKS = frozenset(("stale", "foreign-move"))
"""What is found of a partition that a run is moving when the run itself looks at it."""
ALLOWABLE = frozenset(id for id, (severity, _) in CATALOGUE.items() if severity is Severity.UNSAFE)


REBASE = "Put it on the cluster as it is: trimtab plan rebase PLAN -o NEW."
"""What helps a plan that is stale: each of its partitions would be left as the run comes to it."""
_HELPS: Mapping[str, str] = {
    "stale": REBASE,
    "remote-storage": "Leave --retention out. topics alter --set local.retention.ms=… can help.",
}
"""What to do instead, where only this is illegal."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that speaks against a plan: about which `partitions`, and which `broker` if one."""

    id: str
    severity: Severity
    sentence: str
    partitions: tuple[TopicPartition, ...] = ()
    broker: int | None = None

    @property
    def about(self) -> tuple[str, int | None, tuple[TopicPartition, ...]]:
        """Return what stays the same while only the numbers of its sentence change."""
        return self.id, self.broker, self.partitions


def has_unknowns(findings: Iterable[Finding]) -> bool:
    """Return whether something was not known that a check would have gone by."""
    return any(
        problem.id.endswith("-unknown") or problem.id == "hidden-topics" for problem in findings
    )


def finding(
    id: str, sentence: str, partitions: Iterable[TopicPartition] = (), broker: int | None = None
) -> Finding:
    """Return a finding of the catalogue; raises KeyError for an id that is not in it."""
    return Finding(id, CATALOGUE[id][0], sentence, tuple(sorted(partitions)), broker)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda f: (-f.severity, _ORDER[f.id], f.partitions)))


def parse_allow(text: str | None) -> frozenset[str]:
    """Return the ids of `--allow id,id`; raises UsageError for ids that allow nothing."""
    ids = frozenset(part.strip() for part in (text or "").split(",") if part.strip())
    for id in sorted(ids - ALLOWABLE):
        reason = "cannot be allowed" if id in CATALOGUE else "is no check"
        raise UsageError(
            f"--allow {id}: it {reason}.",
            next=f"These can be allowed: {', '.join(i for i in CATALOGUE if i in ALLOWABLE)}.",
        )
    return ids


def select_refused(findings: Iterable[Finding], allowed: Collection[str]) -> list[Finding]:
    """Return, worst first, the findings that are illegal, or unsafe and not `allowed` by id."""
    return [
        f
        for f in worst_first(findings)
        if f.severity is Severity.ILLEGAL or (f.severity is Severity.UNSAFE and f.id not in allowed)
    ]


def refuse(findings: Iterable[Finding], allowed: Collection[str] = ()) -> None:
    """Raise RefusedError for findings that are illegal, or unsafe and not `allowed` by id."""
    against = select_refused(findings, allowed)
    if not against:
        return
    ids = tuple(dict.fromkeys(f.id for f in against))
    illegal = {f.id for f in against if f.severity is Severity.ILLEGAL}
    helps = _HELPS.get(min(illegal)) if len(illegal) == 1 else None
    raise RefusedError(
        f"Refused by {'a check' if len(ids) == 1 else f'{len(ids)} checks'}: {', '.join(ids)}.",
        detail="\n".join(f"  {f.id}: {f.sentence}" for f in against),
        next=helps
        if helps
        else "Change the plan: Kafka would refuse it."
        if illegal
        else f"Change the plan, or say --allow {','.join(ids)} if you know better.",
        checks=ids,
    )
