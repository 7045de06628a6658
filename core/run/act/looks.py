"""How often a run looks at its cluster: seldom while nothing can end, often where an end is near.

Each look costs the brokers' processors a little, which producers' slowest messages show.
"""

from __future__ import annotations

LEAST_SECONDS = 0.1
MOST_SECONDS = 2.0
BUSY_MOST_SECONDS = 1.0
"""The most while rates rise second by second, or nothing tells how far copies are."""
BUSY_SECONDS = 3.0
"""How long rates are thought to be on their way after a step."""


def seconds_to_next_look(elapsed_seconds: float, nearest: float | None) -> float:
    """Return how long to wait, `elapsed_seconds` after the last moves were submitted.

    `nearest` is the share, 0 to 1, that has come of the copy that is nearest to its end, None where
    nothing is copied or that is not known. An end is noticed at most a hundredth of the time so far
    late, as long as copies go on as they have; early figures are not relied on for long.
    """
    if nearest is None:
        return min(BUSY_MOST_SECONDS, max(LEAST_SECONDS, elapsed_seconds / 50))
    left = elapsed_seconds * (1 / nearest - 1) if nearest else float("inf")
    wait = min(left / 20, elapsed_seconds / 5)
    return min(MOST_SECONDS, max(LEAST_SECONDS, elapsed_seconds / 100, wait))
