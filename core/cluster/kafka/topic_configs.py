"""Configs of topics as confluent-kafka reads them, and configs of topics and brokers altered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from core.cluster.client import ConfigChange, ConfigOp, ConfigValue, Fault, Resource, ResourceKind
from core.cluster.kafka.admin import Admin, settled
from core.cluster.kafka.configs import source

# A broker that is down is waited for, so this is also what a dead one costs.
_BROKER_SECONDS = 4.0


def topic_configs(
    admin: Admin, topics: Collection[Resource], names: Collection[str]
) -> dict[Resource, dict[str, ConfigValue] | Fault]:
    """Return these configs of topics, as the broker knows them that takes their changes, too.

    Another one may know less of what was changed last, and who puts lists back must not take
    what it sees there for what somebody set.
    """
    if not topics:
        return {}
    from confluent_kafka.admin import ConfigResource

    asked = {ConfigResource(_kind(r), r.name): r for r in topics}
    client = admin.client()  # held until all is answered: let go of, it is destroyed
    futures = client.describe_configs(list(asked), request_timeout=admin.seconds)
    answers: dict[Resource, dict[str, ConfigValue] | Fault] = {}
    for resource, future in futures.items():
        entries = settled(future)
        answers[asked[resource]] = (
            entries
            if isinstance(entries, Fault)
            else {
                name: ConfigValue(entry.value, source(entry.source))
                for name, entry in entries.items()
                if name in names
            }
        )
    admin.forget_if_in_vain(answers.values())
    admin.hear_any(answers.values())
    return answers


def alter_configs(
    admin: Admin, changes: Sequence[ConfigChange], *, validate_only: bool = False
) -> dict[Resource, Fault | None]:
    answers: dict[Resource, Fault | None] = {}
    for changes_once in _rounds(changes):
        left = [change for change in changes_once if answers.get(change.resource) is None]
        answers |= _alter(admin, left, validate_only)
    admin.raise_if_nothing(answers.values(), of_brokers=only_brokers(answers))
    return answers


def only_brokers(resources: Iterable[Resource]) -> bool:
    """Return whether no resource is one of which any broker could tell."""
    return all(resource.kind is ResourceKind.BROKER for resource in resources)


def _alter(
    admin: Admin, changes: Sequence[ConfigChange], validate_only: bool
) -> dict[Resource, Fault | None]:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    operations = {op: AlterConfigOpType[op.name] for op in ConfigOp}
    by_resource: dict[Resource, list[Any]] = defaultdict(list)
    for change in changes:
        by_resource[change.resource].append(
            ConfigEntry(
                change.name,
                None if change.op is ConfigOp.DELETE else change.value,
                incremental_operation=operations[change.op],
            )
        )
    client = admin.client()  # held, as above
    pending: dict[Resource, Any] = {}
    for group in _requests(by_resource):
        asked = {
            ConfigResource(_kind(r), r.name, incremental_configs=by_resource[r]): r for r in group
        }
        futures = client.incremental_alter_configs(
            list(asked), request_timeout=_seconds(admin, group), validate_only=validate_only
        )
        pending |= {asked[resource]: future for resource, future in futures.items()}
    answers = {
        resource: answer if isinstance(answer := settled(future), Fault) else None
        for resource, future in pending.items()
    }
    admin.forget_if_in_vain(answers.values())
    admin.hear_any(answers.values())
    return answers


def _kind(resource: Resource) -> Any:
    from confluent_kafka.admin import ResourceType

    return ResourceType.BROKER if resource.kind is ResourceKind.BROKER else ResourceType.TOPIC


def _requests(resources: Iterable[Resource]) -> Iterator[list[Resource]]:
    """Yield what may go together: topics all at once, each broker alone (it answers itself)."""
    topics = []
    for resource in resources:
        if resource.kind is ResourceKind.TOPIC:
            topics.append(resource)
        else:
            yield [resource]
    if topics:
        yield topics


def _seconds(admin: Admin, group: Sequence[Resource]) -> float:
    return _BROKER_SECONDS if group[0].kind is ResourceKind.BROKER else admin.seconds


def _rounds(changes: Sequence[ConfigChange]) -> list[list[ConfigChange]]:
    """Return changes in rounds that name each config once; Kafka refuses it twice in a request."""
    rounds: list[list[ConfigChange]] = []
    seen: dict[tuple[Resource, str], int] = {}
    for change in changes:
        at = seen.get((change.resource, change.name), 0)
        seen[change.resource, change.name] = at + 1
        if at == len(rounds):
            rounds.append([])
        rounds[at].append(change)
    return rounds
