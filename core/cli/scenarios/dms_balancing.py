"""Partition balancing: automatic, by hand, and the throttle that a deadline needs."""

from __future__ import annotations

from collections.abc import Iterator

from core.cli.scenarios import by_hand, throttled, throttles
from core.cli.scenarios.scenario import Scenario, Step
from core.cli.scenarios.stage import Stage


def play(stage: Stage) -> Iterator[Step]:
    if not stage.short:
        yield from throttles.estimated(stage)
    yield from by_hand.refused(stage)
    yield from by_hand.added_and_removed(stage)
    yield from by_hand.cancelled(stage)
    yield from throttled.carried_out(stage)


SCENARIO = Scenario(
    "dms-balancing",
    "Topics balanced, replicas added and removed by hand; three throttles for a deadline.",
    (0, 1, 2, 3),
    0,
    play,
)
