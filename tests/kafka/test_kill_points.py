"""A run on real brokers whose process is killed: a few of the points that `make chaos` plays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from chaos.brokers import Brokers
from chaos.forms import Cancelled, Crashed, Plain
from chaos.layout import LAYOUTS
from chaos.lives import Lives
from chaos.orders import Order

from core.cluster.sandbox.sandbox import Sandbox


@pytest.fixture
def brokers(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Brokers]:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    brokers = Brokers(sandbox, tmp_path)
    brokers.lay_out(LAYOUTS)
    yield brokers
    brokers.clean()


def test_run_killed_repeatedly_ends_in_the_state_that_kafkas_tools_expect(
    brokers: Brokers,
) -> None:
    orders = (Order("before", "submitting"), Order("after", "pairs_removing", nth=2))
    killed = Lives(brokers).live(Plain(brokers, Random(1)), orders)
    assert (killed.wrong, killed.struck, killed.lives) == ((), orders, 3)


@pytest.mark.scenario
def test_run_killed_during_cancellation_or_after_a_crash_ends_correctly_too(
    brokers: Brokers,
) -> None:
    lives = Lives(brokers)
    orders = (Order("before", "cancelling"),)
    cancelled = lives.live(Cancelled(brokers, Random(1)), orders)
    assert (cancelled.wrong, cancelled.struck) == ((), orders)
    orders = (Order("after", "crashed"),)
    crashed = lives.live(Crashed(brokers, Random(1)), orders)
    assert (crashed.wrong, crashed.struck, crashed.lives) == ((), orders, 3)
