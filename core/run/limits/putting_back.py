"""How a run's throttles are put back exactly as they were found. Pure.

Lists are subtracted from, and what was unset before is deleted, so that static and default values
show again. What somebody else has changed meanwhile is theirs (KIP-73, KIP-339).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from core.cluster.configs import ConfigChange, ConfigOp, Resource
from core.cluster.faults import Fault
from core.plan.throttle_lists import ALL, entries, joined
from core.run.limits.throttle import (
    LISTS,
    Configs,
    ListIntent,
    RateIntent,
    as_it_stands,
    is_as_found,
    is_ours,
    own_value,
)

READ_BACK_SECONDS = 10.0
"""How long brokers are given to show what has been changed."""


def subtraction(
    intent: ListIntent, pairs: Collection[str], there: frozenset[str], *, unseen: bool = False
) -> list[ConfigChange]:
    """Return what takes our `pairs` out of a list that holds `there`.

    Nothing when they are gone, as a SUBTRACT would make a list that is unset an empty one.
    `unseen` takes them out although they are not there: they may be on their way.
    """
    ours = set(pairs) if unseen else there & set(pairs)
    if not ours or ALL in there:
        return []
    resource, name = Resource.topic(intent.topic), intent.side.list_config
    return [ConfigChange(resource, name, ConfigOp.SUBTRACT, joined(ours))]


def deletion(intent: ListIntent, there: frozenset[str]) -> list[ConfigChange]:
    """Return what unsets a list that holds nothing any more and was not set to nothing before us.

    SUBTRACT of the last pair leaves a list set to nothing. Entries that were there before us and
    are gone somebody has taken out meanwhile, another run perhaps. `there` must be what the
    controller holds at this moment: a DELETE takes whatever has come meanwhile along, and Kafka
    has no conditional one.
    """
    if intent.prior == "" or there:
        return []
    return [ConfigChange(Resource.topic(intent.topic), intent.side.list_config, ConfigOp.DELETE)]


def restore_changes(
    intent: RateIntent, found: Configs, *, unseen: bool = False
) -> list[ConfigChange]:
    """Return what puts a rate back: SET what somebody had set on the broker, else DELETE.

    Nothing when we had kept theirs, or when somebody has changed the rate since we set it.
    `unseen` puts it back although ours does not show.
    """
    answer = found.get(Resource.broker(intent.broker))
    if answer is None or isinstance(answer, Fault):
        return []
    intent = as_it_stands(intent, answer)
    if intent.rate_bytes_per_s is None:
        return []
    if not is_ours(intent, answer) and not (unseen and is_as_found(intent, answer)):
        return []
    resource, name = Resource.broker(intent.broker), intent.side.rate_config
    if intent.dynamic:
        return [ConfigChange(resource, name, ConfigOp.SET, intent.prior)]
    return [ConfigChange(resource, name, ConfigOp.DELETE)]


def still_there(changes: Iterable[ConfigChange], found: Configs) -> tuple[ConfigChange, ...]:
    """Return those putting-back changes that `found` does not show yet (brokers lag a little)."""

    def shows(change: ConfigChange) -> bool:
        answer = found.get(change.resource, {})
        if isinstance(answer, Fault):
            return True
        value = answer.get(change.name)
        own = own_value(value, change.resource.kind)
        match change.op:
            case ConfigOp.DELETE if change.name in LISTS:
                return own is None or bool(entries(own))  # somebody else's, come since
            case ConfigOp.DELETE:
                return own is None
            case ConfigOp.SUBTRACT:
                return not entries(own) & entries(change.value)
            case _:
                return own == change.value

    return tuple(change for change in changes if not shows(change))
