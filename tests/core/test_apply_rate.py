"""Which rate `apply` chooses when none was asked for."""

from __future__ import annotations

import pytest
from run_help import cluster, plan_of

from core.cli.apply import _estimate
from core.cluster.observe import observe
from core.load.snapshot import Load
from core.units import UNLIMITED


def test_empty_partitions_need_no_throttle_and_none_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=0)
    state = observe(client)
    plan = plan_of(client, {("t", 0): (1, 3)})
    estimate = _estimate(state, Load.unknown(state), plan, None)
    assert estimate.rate_bytes_per_s == UNLIMITED
    assert not capsys.readouterr().err
