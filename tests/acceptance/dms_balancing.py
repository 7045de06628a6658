"""Partition balancing: automatic, by hand, and the throttle that a deadline needs."""

from __future__ import annotations

from collections.abc import Iterator

from tests.acceptance import dms_automatic as automatic
from tests.acceptance import dms_by_hand as by_hand
from tests.acceptance import dms_throttle_estimates as throttles
from tests.acceptance import dms_throttled_runs as throttled
from tests.acceptance import dms_warnings
from tests.acceptance.scenario import Scenario, Step
from tests.acceptance.stage import Stage


def play(stage: Stage) -> Iterator[Step]:
    if not stage.short:
        yield from throttles.estimated(stage)
    yield from automatic.balanced(stage)
    yield from by_hand.refused(stage)
    yield from dms_warnings.check_warnings(stage)
    yield from by_hand.added_and_removed(stage)
    yield from by_hand.cancelled(stage)
    if not stage.short:
        yield from dms_warnings.shortened(stage)
    yield from throttled.carried_out(stage)


SCENARIO = Scenario(
    "dms-balancing",
    "Topics balanced by target brokers, replicas by hand; throttles that deadlines need.",
    (0, 1, 2, 3),
    0,
    play,
    # Leaders delete what is too old soon after retention was lowered, not within 5 min.
    {"log.retention.check.interval.ms": "1000"},
)
