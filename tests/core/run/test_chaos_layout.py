"""What `make chaos` plays on real brokers: each kind of record, wherever runs have left things."""

from __future__ import annotations

from itertools import product

import pytest
from chaos.forms import FORMS
from chaos.layout import LAYOUTS, one_way, opposite, sources
from chaos.orders import KINDS


@pytest.mark.parametrize("standing", list(product((0, 1), repeat=len(LAYOUTS))))
def test_one_way_leaves_a_broker_that_nothing_arrives_at(standing: tuple[int, ...]) -> None:
    now = {tp: both[n] for n, (tp, both) in zip(standing, LAYOUTS.items(), strict=True)}
    targets = one_way(now)
    assert sources(targets, now)
    assert len(targets) >= len(LAYOUTS) / 2
    assert targets.items() <= opposite(now).items()


def test_every_kind_of_record_is_brought_by_a_form_of_run() -> None:
    assert {kind for form in FORMS for kind in form.brings} == set(KINDS)
