"""Why a run must not start now: what another run of this machine has left in its cluster.

It would be taken for what was there before, kept or put back, and never go.
"""

from __future__ import annotations

from dataclasses import replace

from core.cluster.connect import Address, connect
from core.errors import RefusedError
from core.run.limits.throttle import Side
from core.run.others.leftovers import left_in_cluster
from core.run.tell.progress import leftovers
from core.run.tell.runs import left_behind, refuse_unreadable, with_throttles
from core.run.tell.view import Leftovers
from core.units import format_duration

_SHOWN = 3


def refuse_beside(cluster_id: str, address: Address) -> None:
    """Raise RefusedError while something of another run's is left in this cluster.

    Raises IncompleteError when a journal that may tell of such cannot be read.
    The cluster is asked only where a journal tells of what an ended run left, which it does ever
    after. Throttles of brokers that are down cannot be cleared either: they do not count.
    """
    if dead := left_behind(cluster_id):
        raise RefusedError(
            f"Run {dead[0]} has died in the middle of its work on this cluster.",
            detail="What it left would be taken for what was there before.",
            next=f"Bring it back first: trimtab runs attach {dead[0]} --yes (to undo what it "
            f"began, ask for that before: trimtab runs cancel {dead[0]} --yes).",
        )
    refuse_unreadable(cluster_id, "has left something")
    ended = [run.history for run in with_throttles(cluster_id) if run.history.ended is not None]
    if not ended:
        return
    connection = connect(address)
    try:
        for history in ended:
            left = replace(leftovers(history), moves=(), copies=())  # others' moves are looked for
            refuse_over(history.run, left_in_cluster(connection.client, left, surely=True))
    finally:
        connection.client.close()


def refuse_over(run: str, left: Leftovers) -> None:
    """Raise RefusedError when a run that has ended left throttles, or a retention lowered."""
    if left.lists or left.rates:
        _refuse_throttles(run, left)
    if left.retention:
        first, more = left.retention[0], len(left.retention) - 1
        others = f" and {more} more topic{'s' * (more > 1)}" if more else ""
        lowered = format_duration(first.retention_ms / 1000)
        raise RefusedError(
            f"Run {run} has left the retention of {first.topic}{others} lowered to {lowered}: "
            "put it back first.",
            detail="It would be taken for what was there before.",
            next="; ".join(one.puts_back for one in left.retention[:_SHOWN])
            + (f"; the others: trimtab runs show {run}" if more >= _SHOWN else ""),
        )


def _refuse_throttles(run: str, left: Leftovers) -> None:
    places = [f"broker {broker}" for broker in sorted({rate.broker for rate in left.rates})]
    places += [f"topic {topic}" for topic in sorted({topic for topic, _, _ in left.lists})]
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    between_dirs = sorted({r.broker for r in left.rates if r.side is Side.LOG_DIRS})
    by_name = "".join(f" broker:{broker}" for broker in between_dirs)
    raise RefusedError(
        f"Run {run} has left throttles in this cluster ({', '.join(places[:_SHOWN])}{more}): "
        f"clear them first, by trimtab throttles clear{by_name}.",
        detail="They would be taken for what was there before.",
    )
