"""The part of a plan that an hour's budget allows: all of it, or what helps most for its bytes."""

from __future__ import annotations

from math import inf

import pytest
from clusters import MB, cluster, load_of, tp
from hypothesis import given
from hypothesis import strategies as st

from core.autopilot.plan_choice import affordable_part, copied_bytes
from core.plan.plan import Move, Plan

SIZES = {"t-0": 4 * MB, "t-1": 2 * MB, "t-2": MB, "t-3": MB}
STATE = cluster({"t-0": [1], "t-1": [1], "t-2": [1], "t-3": [1]}, brokers=(1, 2), size_bytes=SIZES)
LOAD = load_of(STATE, {"t-0": 1e6, "t-1": 2e6, "t-2": 3e6, "t-3": 0.1e6})
PLAN = Plan.of([Move(tp(name), (1,), (2,)) for name in SIZES])


def taken(max_bytes: float = inf, max_moves: int = 100) -> list[str]:
    part = affordable_part(STATE, LOAD, PLAN, max_bytes=max_bytes, max_moves=max_moves)
    return [str(move.tp) for move in part]


@pytest.mark.parametrize(
    ("max_bytes", "max_moves", "part"),
    [
        (inf, 4, ["t-0", "t-1", "t-2", "t-3"]),
        (8 * MB, 4, ["t-0", "t-1", "t-2", "t-3"]),
        (7 * MB, 4, ["t-0", "t-1", "t-2"]),  # t-3 helps least for a byte, but for t-0
        (3 * MB, 4, ["t-1", "t-2"]),
        (MB, 4, ["t-2"]),
        (MB - 1, 4, []),
        (inf, 1, ["t-2"]),
        (inf, 0, []),
    ],
)
def test_moves_with_most_relief_per_byte_are_chosen_first(
    max_bytes: float, max_moves: int, part: list[str]
) -> None:
    assert taken(max_bytes, max_moves) == part


def test_leader_only_moves_are_chosen_last() -> None:
    state = cluster({"t-0": [1, 2], "t-1": [1, 2]}, brokers=(1, 2, 3), size_bytes=MB)
    plan = Plan.of([Move(tp("t-0"), (1, 2), (2, 1)), Move(tp("t-1"), (1, 2), (3, 2))])
    load = load_of(state, {"t-0": 9e6, "t-1": 1e6})
    for many, names in ((1, ["t-1"]), (2, ["t-0", "t-1"])):
        part = affordable_part(state, load, plan, max_bytes=inf, max_moves=many)
        assert [str(move.tp) for move in part] == names


@given(st.integers(0, 9 * MB), st.integers(0, 5))
def test_chosen_part_exceeds_no_limit_and_adds_no_moves(max_bytes: int, max_moves: int) -> None:
    part = affordable_part(STATE, LOAD, PLAN, max_bytes=max_bytes, max_moves=max_moves)
    assert copied_bytes(STATE, part) <= max_bytes
    assert len(part) <= max_moves
    assert set(part) <= set(PLAN)


@pytest.mark.parametrize(
    ("after", "copied"), [((2, 1), 0), ((3, 2), MB), ((3, 4), 2 * MB), ((1,), 0), ((1, 2, 3), MB)]
)
def test_every_added_replica_counts_as_copied(after: tuple[int, ...], copied: int) -> None:
    state = cluster({"t-0": [1, 2]}, brokers=(1, 2, 3, 4), size_bytes=MB)
    assert copied_bytes(state, Plan.of([Move(tp("t-0"), (1, 2), after)])) == copied


def test_partition_of_unknown_size_counts_as_zero_copied_bytes() -> None:
    state = cluster({"t-0": [1]}, brokers=(1, 2))
    assert copied_bytes(state, Plan.of([Move(tp("t-0"), (1,), (2,))])) == 0
