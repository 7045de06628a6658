"""Which rate `apply` chooses when none was asked for."""

from __future__ import annotations

import pytest
from run_help import MB, cluster, plan_of

from core.cli.carrying import _choose, _estimate
from core.cli.rate import parse_throttle
from core.cluster.observe import observe
from core.errors import UsageError
from core.load.snapshot import Load
from core.plan.calibration import NOTHING_LEARNED
from core.run.limits.pace import Bounds
from core.units import UNLIMITED


def test_empty_partitions_need_no_throttle_and_none_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=0)
    state = observe(client)
    plan = plan_of(client, {("t", 0): (1, 3)})
    estimate = _estimate(state, Load.unknown(state), plan, None, NOTHING_LEARNED)
    assert estimate.rate_bytes_per_s == UNLIMITED
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50MB/s", 50 * MB),
        ("-1", UNLIMITED),
        ("auto", "auto"),
        ("AUTO:5MB/s-50MB/s", Bounds(5 * MB, 50 * MB)),
    ],
)
def test_the_words_of_a_throttle(text: str, expected: object) -> None:
    assert parse_throttle(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10", "10 what"),
        ("auto:5MB/s", "Not bounds"),
        ("auto:5-10", "5 what"),
        ("auto:50MB/s-5MB/s", "are no bounds"),
        ("auto:", "Not bounds"),
    ],
)
def test_words_that_are_no_throttle(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_throttle(text)


def test_an_adaptive_rate_is_reckoned_with_within_its_bounds() -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=2000 * MB)
    state = observe(client)
    plan, load = plan_of(client, {("t", 0): (1, 3)}), Load.unknown(state)
    rate, bounds = _choose(state, load, plan, "auto", NOTHING_LEARNED)
    assert bounds is not None
    assert rate is not None
    assert bounds.least_bytes_per_s <= rate <= bounds.most_bytes_per_s
    narrow = Bounds(1 * MB, 2 * MB)
    assert _choose(state, load, plan, narrow, NOTHING_LEARNED) == (2 * MB, narrow)
    assert _choose(state, load, plan, 7, NOTHING_LEARNED) == (7, None)
