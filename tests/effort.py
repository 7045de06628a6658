"""How much work something is, whoever else has the processor: beside a loop that stays the same.

Processor seconds alone are no measure where others share caches and cores: they stretch, the loop's
as much as the work's.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def effort(work: Callable[[], object], times: int = 3) -> float:
    """Return the processor time of `work`, the least of some, in passes of a million steps."""
    return min(_seconds(work) / _seconds(_a_million_steps) for _ in range(times))


def _a_million_steps() -> int:
    total = 0
    for number in range(1_000_000):
        total += number & 3
    return total


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
