"""Which rights (ACLs) each use of a cluster takes, and which of them a user has.

This table is the only one: the documentation is made from it, `doctor --acls` asks by it, and tests
play commands of each use on a real broker with exactly these rights.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class ResourceType(Enum):
    """What a right is on, and how kafka-acls is told of all of them."""

    CLUSTER = ("the cluster", "--cluster")
    TOPIC = ("topics", "--topic '*'")
    GROUP = ("groups", "--group '*'")

    def __init__(self, plural: str, option: str) -> None:
        self.plural = plural
        self.option = option


class Right(NamedTuple):
    """An operation of Kafka's on resources of a kind, like DESCRIBE on topics."""

    resource: ResourceType
    operation: str

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource.plural}"


CLUSTER, TOPIC, GROUP = ResourceType


@dataclass(frozen=True, slots=True)
class Use:
    """What somebody does with a cluster, and the rights that it takes."""

    what: str
    rights: tuple[Right, ...]
    only_on: str = ""
    """The topics that are enough, where it is not all of them."""


_READ = (
    Right(CLUSTER, "DESCRIBE"),
    Right(CLUSTER, "DESCRIBE_CONFIGS"),
    Right(TOPIC, "DESCRIBE"),
    Right(TOPIC, "DESCRIBE_CONFIGS"),
    Right(GROUP, "DESCRIBE"),
)
USES: Mapping[str, Use] = {
    "read": Use("The dashboard, show, plans, groups, the timeline and the collector", _READ),
    "run": Use(
        "apply, runs, throttles clear, elect and the autopilot",
        (
            *_READ,
            Right(CLUSTER, "ALTER"),
            Right(CLUSTER, "ALTER_CONFIGS"),
            Right(TOPIC, "ALTER_CONFIGS"),
        ),
    ),
    "verify": Use("replicas verify", (*_READ, Right(TOPIC, "READ"))),
    "topics": Use(
        "topics create, alter and delete",
        (*_READ, *(Right(TOPIC, o) for o in ("CREATE", "ALTER", "ALTER_CONFIGS", "DELETE"))),
    ),
    "probe": Use(
        "probe",
        (*_READ, *(Right(TOPIC, o) for o in ("CREATE", "READ", "WRITE", "ALTER", "DELETE"))),
        only_on="__trimtab_probe",
    ),
}


@dataclass(frozen=True, slots=True)
class GrantedRights:
    """The operations that a user may do, as brokers tell them (KIP-430).

    Of topics and groups by name; those that this user may not describe are not among them. None
    where brokers do not tell.
    """

    principal: str
    cluster: frozenset[str] | None
    topics: Mapping[str, frozenset[str]] | None
    groups: Mapping[str, frozenset[str]] | None
    hidden_topics: bool = False
    """Whether brokers hold topics that this user may not describe."""

    def missing_on(self, right: Right) -> tuple[str, ...] | None:
        """Return on which resources a right is missing, "" for one that has no name.

        None where it is not known: brokers do not tell, or there is none to tell it of.
        """
        if right.resource is CLUSTER:
            if self.cluster is None:
                return None
            if "DESCRIBE" not in self.cluster and right.operation != "DESCRIBE":
                return None  # without it brokers tell of no other
            return () if right.operation in self.cluster else ("",)
        of = self.topics if right.resource is TOPIC else self.groups
        if of is None:
            return None
        if right == Right(TOPIC, "DESCRIBE") and self.hidden_topics:
            return ("",)
        missing = tuple(
            name for name, operations in sorted(of.items()) if right.operation not in operations
        )
        return missing if of else None


def acl_commands(rights: Iterable[Right], principal: str, bootstrap: str) -> Sequence[str]:
    """Return the `kafka-acls` commands that allow these rights, one a kind of resource."""
    by_resource: dict[ResourceType, list[str]] = {}
    for right in rights:
        by_resource.setdefault(right.resource, []).append(right.operation)
    head = f"kafka-acls --bootstrap-server {bootstrap} --command-config admin.properties --add"
    return [
        " ".join(
            (
                head,
                f"--allow-principal {shlex.quote(principal)}",
                *(f"--operation {_cli_name(operation)}" for operation in operations),
                resource.option,
            )
        )
        for resource, operations in by_resource.items()
    ]


def _cli_name(operation: str) -> str:
    return "".join(word.capitalize() for word in operation.split("_"))
