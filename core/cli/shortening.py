"""What `apply --retention` deletes and leaves alone, said before it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from core.cluster.state import ClusterState
from core.errors import UsageError
from core.plan.plan import Plan
from core.plan.shrinking import only_compacted
from core.units import format_duration

NAMED = 3


def deletes(state: ClusterState, plan: Plan, retention_ms: int) -> Iterator[str]:
    """Yield in sentences of which topics a retention deletes records, and which it leaves.

    Raises UsageError where it deletes none of what is copied.
    """
    topics = {move.tp.topic for move in plan if move.receiving}
    compacted = only_compacted(state, topics)
    by_age = sorted(topics.difference(compacted))
    if compacted and not by_age:
        raise UsageError(
            f"--retention shortens nothing: {_named(compacted)} "
            f"{'is' if len(compacted) == 1 else 'are'} only compacted (cleanup.policy=compact).",
            next="Leave it out.",
        )
    if by_age:
        yield (
            f"Records of {_named(by_age)} older than {format_duration(retention_ms / 1000)} are "
            "deleted for good; their retention is put back afterwards."
        )
    if compacted:
        yield f"Only compacted, so no retention shortens what is copied: {_named(compacted)}."


def _named(topics: Sequence[str]) -> str:
    more = len(topics) - NAMED
    return ", ".join(topics[:NAMED]) + (f" and {more} more" if more > 0 else "")
