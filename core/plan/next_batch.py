"""When the next batch of a run may begin, and which of its moves, while others are in flight.

Pure. It is let in before the one before has wholly ended, so that no broker idles (docs/runs.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from core.cluster.quota import SLOT_SECONDS, SLOTS
from core.plan.batches import MOST_MOVES

WINDOW_SECONDS = SLOTS * SLOT_SECONDS
"""How long a batch flies alone at least: one quota window."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A move that is in flight or about to be, as far as the next batch's start concerns it.

    `extra_bytes` is what each of its `destinations` will hold of it.
    """

    batch: int
    long: bool = False
    destinations: tuple[int, ...] = ()
    extra_bytes: int = 0


def may_start(
    batch: Sequence[Flight],
    flying: Collection[Flight],
    since_submission_seconds: float,
    *,
    most_moves: int = MOST_MOVES,
    most_extra_bytes: int | None = None,
) -> bool:
    """Return whether the next batch may be submitted while `flying` is not done yet.

    At most one earlier batch may still be in flight, long moves not counted; it must have been
    for a quota window; and together they stay within twice `most_moves`, and no destination
    holds more than `most_extra_bytes`.
    """
    if not flying:
        return True
    if since_submission_seconds < WINDOW_SECONDS:
        return False
    if len({flight.batch for flight in flying if not flight.long}) > 1:
        return False
    if len(flying) + len(batch) > 2 * most_moves:
        return False
    if most_extra_bytes is None:
        return True
    held = _arriving(flying)
    comes = _arriving(batch)
    return all(
        held.get(b, 0) == 0 or held[b] + size <= most_extra_bytes for b, size in comes.items()
    )


def fitting(
    batch: Sequence[Flight], flying: Collection[Flight], most_extra_bytes: int | None
) -> list[int]:
    """Return which of a batch may begin now, by their places, so that no destination holds more.

    One that is larger by itself begins where its destinations receive nothing else.
    """
    if most_extra_bytes is None:
        return list(range(len(batch)))
    held = _arriving(flying)
    found = []
    for place, flight in enumerate(batch):
        there = [held.get(broker, 0) for broker in flight.destinations]
        if all(not size or size + flight.extra_bytes <= most_extra_bytes for size in there):
            found.append(place)
            for broker, size in zip(flight.destinations, there, strict=True):
                held[broker] = size + flight.extra_bytes
    return found


def _arriving(flights: Iterable[Flight]) -> dict[int, int]:
    found: defaultdict[int, int] = defaultdict(int)
    for flight in flights:
        for broker in flight.destinations:
            found[broker] += flight.extra_bytes
    return found
