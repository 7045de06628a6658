"""A leader that is written to while it is copied: below its inflow never, at the rate told on time.

One of `make scenarios` in short: all that is copied fits into the leader's first window, and the
destination's side sets the pace.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from scenarios.throttled import MB, SCENARIOS, play

from core.cluster.sandbox.sandbox import Sandbox

SIZE_BYTES = 16 * MB
"""More than 11.5 s of the rate that never ends: the leader's first window does not cover it."""
SECONDS = 9.5


def test_a_busy_leader_is_copied_on_time_at_the_rate_told_and_never_below_its_inflow(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    (scenario,) = (s for s in SCENARIOS if s.name == "3")

    played = play(scenario, sandbox, tmp_path, SIZE_BYTES, SECONDS)

    assert played.required_seen == pytest.approx(played.required_expected, rel=0.05)
    assert played.never is not None
    assert played.never.startswith("Broker 1 ")
    assert played.range_seconds[0] <= played.took_seconds <= played.range_seconds[1] <= SECONDS
    assert played.verified
