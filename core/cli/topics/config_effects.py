"""What a change of topic configs deletes or breaks, as far as the configs are known. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from core.cluster.configs import (
    MIN_INSYNC,
    REMOTE_STORAGE,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    ConfigValue,
    InheritedConfig,
    is_remote,
)
from core.errors import RefusedError
from core.units import counted, format_bytes, format_duration

POLICY = "cleanup.policy"
RETENTION = ("retention.ms", "retention.bytes")
MIN_ISR = "min-isr"
REMOTE = "remote-storage"
"""The ids under which plans are refused for them, too."""
_IN_MS = {"minutes": 60_000, "hours": 3_600_000}
_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class ConfigEffect:
    """One config of a topic as it is, and as it will be, set or by default; None is not known."""

    name: str
    before: str | None
    after: str | None

    @property
    def words(self) -> str:
        before, after = ("?" if value is None else value for value in (self.before, self.after))
        return f"{self.name} {before} → {after}"


def build_config_effects(
    changes: Iterable[ConfigChange], values: Mapping[str, ConfigValue]
) -> list[ConfigEffect]:
    """Return what becomes of a topic's configs; `values` are all that it has."""
    effects = []
    for change in changes:
        value = values.get(change.name)
        after = before = None if value is None else value.value
        if change.op is ConfigOp.SET:
            after = change.value
        elif value is not None and value.source is ConfigSource.TOPIC:
            after = _inherited_value(value.inherited)
        effects.append(ConfigEffect(change.name, before, after))
    return effects


def _inherited_value(beneath: InheritedConfig | None) -> str | None:
    if beneath is None or beneath.value is None:
        return None
    factor = _IN_MS.get(beneath.name.rpartition(".")[2])
    if factor is None or beneath.value.startswith("-"):
        return beneath.value
    return str(int(beneath.value) * factor)


def deletion_sentences(
    changes: Iterable[ConfigEffect], values: Mapping[str, ConfigValue]
) -> Iterator[str]:
    """Yield in a sentence each what these changes delete for good."""
    of = {change.name: change for change in changes}
    for name in REMOTE_STORAGE:
        if name in of and of[name].before == "true" != of[name].after:
            yield "What is kept in remote storage alone is deleted for good."
    policy = values.get(POLICY)
    now = policy.value if policy is not None and policy.value else "delete"
    to = of.get(POLICY, ConfigEffect(POLICY, now, now)).after or "delete"
    was, will = set(now.split(",")), set(to.split(","))
    if "compact" in will - was:
        yield "All but the newest record of each key are deleted for good."
    if "delete" in will - was:
        yield "What is beyond its retention is deleted for good; now that keeps everything."
    for name in RETENTION if "delete" in will & was else ():
        change = of.get(name)
        if change is not None and _to_limit(change.after, 0.0) < _to_limit(change.before, math.inf):
            after, before = (_kept(name, value) for value in (change.after, change.before))
            yield f"What is beyond {after} is deleted for good; now it keeps {before}."


def refuse_remote(topic: str, values: Mapping[str, ConfigValue]) -> None:
    """Refuse deleting a topic's records that are, or may be, in remote storage, too."""
    if not values:
        why = f"Whether {topic} is kept in remote storage, too, is not known"
    elif is_remote(value.value for name in REMOTE_STORAGE if (value := values.get(name))):
        why = f"{topic} is kept in remote storage"
    else:
        return
    raise RefusedError(
        f"{why}: these configs delete records there as well.",
        next=f"Lower local.retention.ms to free only the brokers, or add --allow {REMOTE}.",
        checks=(REMOTE,),
    )


def _to_limit(value: str | None, unknown: float) -> float:
    """Return how much a retention keeps: -1 is all."""
    if value is None or not _NUMBER.fullmatch(value):
        return unknown
    return int(value) if int(value) >= 0 else math.inf


def _kept(name: str, value: str | None) -> str:
    limit = _to_limit(value, math.nan)
    if math.isnan(limit):
        return "what is not known"
    if math.isinf(limit):
        return "everything"
    return format_duration(limit / 1000) if name == RETENTION[0] else format_bytes(limit)


def refuse_min_isr(
    topic: str, changes: Iterable[ConfigEffect], replicas: int, *, instead: str
) -> None:
    """Refuse a min.insync.replicas that replicas can never reach; `instead` is what to ask for."""
    min_isr = next((change.after for change in changes if change.name == MIN_INSYNC), None)
    if _to_limit(min_isr, 0.0) > replicas:
        have = counted(replicas, "replica")
        raise RefusedError(
            f"{topic} with {have} and {MIN_INSYNC}={min_isr}: every producer that waits for all of "
            "them (acks=all) would fail.",
            next=f"{instead}, or add --allow {MIN_ISR}.",
            checks=(MIN_ISR,),
        )
