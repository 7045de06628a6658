"""The partitions of `make chaos`, from wherever runs that ended half done have left them."""

from __future__ import annotations

from itertools import product

import pytest
from chaos.layout import LAYOUTS, one_way, opposite, sources


@pytest.mark.parametrize("standing", list(product((0, 1), repeat=len(LAYOUTS))))
def test_one_way_leaves_a_broker_that_nothing_arrives_at(standing: tuple[int, ...]) -> None:
    now = {tp: both[n] for n, (tp, both) in zip(standing, LAYOUTS.items(), strict=True)}
    targets = one_way(now)
    assert sources(targets, now)
    assert len(targets) >= len(LAYOUTS) / 2
    assert targets.items() <= opposite(now).items()
