"""Throttle lists as the controller holds them, not as some broker has heard of them.

Kafka tells configs from a broker's copy of the metadata only, which may be behind. What it refuses
it refuses at the controller, in words that hold the whole list: an APPEND of what is no entry,
sent for validation only, changes nothing and is answered with what there is (seen on 4.3.1). It
is refused before anybody looks whether there is such a topic.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from core.cluster.client import ConfigChange, ConfigOp, Fault, Resource
from core.cluster.kafka.admin import Admin
from core.cluster.kafka.topic_configs import alter_configs

NO_ENTRY = "?"
_REFUSALS = ("INVALID_CONFIG", "INVALID_REQUEST")
"""The controllers of KRaft, and those that have ZooKeeper."""
_REFUSAL = re.compile(r"Invalid value \[?(?P<value>[^\]]*?)\]? for configuration")


def list_entries(
    admin: Admin, lists: Collection[tuple[Resource, str]]
) -> dict[tuple[Resource, str], frozenset[str] | Fault]:
    """Return each list's entries; see ClusterClient."""
    found: dict[tuple[Resource, str], frozenset[str] | Fault] = {}
    for name in sorted({name for _, name in lists}):
        resources = [resource for resource, asked in lists if asked == name]
        answers = alter_configs(
            admin,
            [ConfigChange(r, name, ConfigOp.APPEND, NO_ENTRY) for r in resources],
            validate_only=True,
        )
        found |= {(resource, name): entries_of(fault) for resource, fault in answers.items()}
    return found


def entries_of(refusal: Fault | None) -> frozenset[str] | Fault:
    """Return the entries that a refusal tells of, or why it tells of none."""
    if refusal is None:
        return Fault("UNSUPPORTED_VERSION", "an invalid entry was not refused")
    if refusal.name not in _REFUSALS:
        return refusal
    said = _REFUSAL.search(refusal.message)
    entries = {part.strip() for part in said["value"].split(",")} if said else set()
    if NO_ENTRY not in entries:
        return Fault("UNSUPPORTED_VERSION", f"a refusal does not tell: {refusal.message}")
    return frozenset(entries - {NO_ENTRY, ""})
