"""Samples whose times stand still or go back, as a wall clock may: no flow is told from them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from run_help import MB, Start, cluster, plan_of

from core.plan.copies import Side
from core.run.throttles.signals import Signals

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("seconds", [0, -60])
def test_no_flow_is_told_from_samples_without_time_between_them(start: Start, seconds: int) -> None:
    client = cluster({"t": [(1, 2)]})
    run = start(client, plan_of(client, {("t", 0): (3, 2)}))
    senses = Signals(None)
    for at, arrived in ((NOON, 0), (NOON + timedelta(seconds=seconds), 5 * MB)):
        senses.take_sample(at, {"moves": [[0, 20 * MB, 1, [arrived], None]]})
    keys = [(3, Side.FOLLOWER)]
    seen = senses.sides(run.runner.state, client.describe_cluster(), {}, keys)
    assert {side.flow_bytes_per_s for side in seen.values()} == {0.0}
