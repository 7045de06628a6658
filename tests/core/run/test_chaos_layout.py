"""What `make chaos` plays on real brokers: each kind of record, wherever runs have left things."""

from __future__ import annotations

from itertools import product

import pytest
from chaos.forms import FORMS, Disturbed
from chaos.killing import ONE_OF, compatible
from chaos.layout import LAYOUTS, held_back, one_way, opposite, receives_last, sources
from chaos.orders import KINDS, WHEN, Order

from core.plan.plan import Move
from core.run.limits.intents import sides
from core.run.limits.throttle import Side


@pytest.mark.parametrize("standing", list(product((0, 1), repeat=len(LAYOUTS))))
def test_one_way_leaves_a_source_that_is_held_back_when_it_returns(
    standing: tuple[int, ...],
) -> None:
    now = {tp: both[n] for n, (tp, both) in zip(standing, LAYOUTS.items(), strict=True)}
    targets = one_way(now)
    assert set(held_back(targets, now)) <= set(sources(targets, now))
    assert held_back(targets, now)
    assert len(targets) >= len(LAYOUTS) / 2
    assert targets.items() <= opposite(now).items()


@pytest.mark.parametrize("standing", list(product((0, 1), repeat=len(LAYOUTS))))
def test_the_rate_that_others_delete_is_needed_until_the_end(standing: tuple[int, ...]) -> None:
    """A rate that its broker has done with is gone, and no run journals that it was disturbed."""
    now = {tp: both[n] for n, (tp, both) in zip(standing, LAYOUTS.items(), strict=True)}
    targets = opposite(now)
    broker = receives_last(Disturbed.moved, targets, now)
    last = Move(Disturbed.moved, now[Disturbed.moved], targets[Disturbed.moved])
    assert (broker, Side.FOLLOWER) in set(sides(last))


def test_every_kind_of_record_is_brought_by_a_form_of_run() -> None:
    assert {kind for form in FORMS for kind in form.brings} == set(KINDS)


def test_a_run_is_given_only_one_of_the_deaths_that_leave_no_other() -> None:
    every = [Order(when, kind) for kind in KINDS for when in WHEN]
    given = [str(order) for order in compatible(every)]
    assert [len({*group} & {*given}) for group in ONE_OF] == [1] * len(ONE_OF)
    assert {str(order) for order in every} - {*given} <= {
        name for group in ONE_OF for name in group
    }
    assert [str(order) for order in compatible(reversed(every))] != given[::-1]
