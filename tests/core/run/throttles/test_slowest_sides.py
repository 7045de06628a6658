"""Only what holds a run up may be made faster: what ends early enough is left as it is."""

from __future__ import annotations

import pytest
from clusters import MB, tp
from hypothesis import given
from hypothesis import strategies as st

from core.plan.copies import Side
from core.plan.plan import ANY, Move
from core.run.journal.move_state import MoveRequest, Phase, RunMove
from core.run.throttles.adaptive_rate import NEAR_SHARE, holding_up
from core.run.throttles.inflow import remaining_bytes

A, B, C = (1, Side.LEADER), (2, Side.LEADER), (3, Side.FOLLOWER)


@pytest.mark.parametrize(
    ("rates", "left", "expected"),
    [
        ({A: 2, B: 2, C: 2}, {A: 100, B: 100, C: 200}, {C}),
        ({A: 2, B: 2, C: 4}, {A: 100, B: 100, C: 200}, {A, B, C}),
        ({A: 2, B: 2}, {A: 100, B: 81}, {A, B}),
        ({A: 2, B: 2}, {A: 100, B: 79}, {A}),
        ({A: 2, B: 2}, {A: 100, B: 0}, {A}),
        ({A: 2, B: 2, C: 2}, {A: 100, B: None, C: 10}, {A, B}),
        ({A: 2, B: 2}, {A: 100}, {A, B}),
        ({A: 2, B: -1}, {A: 100, B: 1000}, {A}),
        ({A: 0, B: 2}, {A: 100, B: 1000}, {B}),
        ({A: 2, B: 2}, {A: 0, B: 0}, {A, B}),
        ({}, {}, set()),
    ],
    ids=[
        "the one that has most to copy",
        "at its rate, too",
        "nearly as long",
        "not as long",
        "one that is done",
        "one that is not known",
        "one that nothing is said of",
        "without a limit nothing takes long",
        "one that somebody stopped is not waited for",
        "all done",
        "none",
    ],
)
def test_what_takes_longest_holds_the_run_up(rates, left, expected):
    assert holding_up(rates, left) == expected


@given(
    st.dictionaries(
        st.tuples(st.integers(1, 6), st.sampled_from(Side)),
        st.tuples(st.integers(1, 10**9), st.integers(0, 10**12)),
        min_size=1,
    )
)
def test_there_is_always_one_and_the_others_end_sooner(sides):
    found = holding_up(
        {key: rate for key, (rate, _) in sides.items()},
        {key: left for key, (_, left) in sides.items()},
    )
    seconds = {key: left / rate for key, (rate, left) in sides.items()}
    assert max(seconds, key=lambda key: seconds[key]) in found
    longest = max(seconds.values())
    assert all(seconds[key] < NEAR_SHARE * longest for key in seconds.keys() - found)


# -- what is left --------------------------------------------------------------------------------

TO_3 = Move(tp("t-0"), (1, 2), (3, 2))
TO_3_AND_4 = Move(tp("t-1"), (1, 2), (3, 4))
BETWEEN_DIRS = Move(tp("t-2"), (1, 2), (1, 2), None, ("/d2", ANY), ("/d1", ANY))
FLIES, WAITS = Phase.SUBMITTED, Phase.QUEUED
SENDS, RECEIVES = (1, Side.LEADER), (3, Side.FOLLOWER)


class _Run:
    def __init__(self, *moves: RunMove) -> None:
        self.moves = moves


def move(of: Move, phase: Phase = FLIES, size: int | None = 100 * MB, **more: object):
    return RunMove(of, 0, phase=phase, size_bytes=size, leader=1, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("moves", "arrived", "expected"),
    [
        ([move(TO_3)], {0: (30,)}, {SENDS: 70, RECEIVES: 70}),
        ([move(TO_3, WAITS)], {}, {SENDS: 100, RECEIVES: 100}),
        ([move(TO_3), move(TO_3_AND_4, WAITS)], {0: (30,)}, {
            SENDS: 270, RECEIVES: 170, (4, Side.FOLLOWER): 100,
        }),
        ([move(TO_3, Phase.DONE), move(TO_3_AND_4)], {1: (100, 40)}, {
            SENDS: 60, RECEIVES: 0, (4, Side.FOLLOWER): 60,
        }),
        ([move(BETWEEN_DIRS)], {0: (25,)}, {(1, Side.LOG_DIRS): 75}),
        ([move(TO_3), move(TO_3_AND_4, size=None)], {0: (30,)}, {
            SENDS: None, RECEIVES: None, (4, Side.FOLLOWER): None,
        }),
        ([move(TO_3, request=MoveRequest.CANCEL)], {0: (30,)}, {}),
        ([move(TO_3, Phase.CANCELLED)], {}, {}),
        ([move(TO_3, replaced=True)], {}, {}),
        ([move(TO_3)], {0: (130,)}, {SENDS: 0, RECEIVES: 0}),
    ],
    ids=[
        "in flight: what has not come",
        "queued: all of it",
        "both",
        "what has ended is none of it",
        "between log dirs",
        "an unknown size makes a side's unknown",
        "what is to be taken back",
        "what was taken back",
        "what another move stands in for",
        "what retention has shortened since",
    ],
)  # fmt: skip
def test_what_is_left_is_told_by_broker_and_side(moves, arrived, expected):
    came = {index: tuple(part * MB for part in parts) for index, parts in arrived.items()}
    found = remaining_bytes(_Run(*moves), came, {}, {})  # type: ignore[arg-type]
    assert found == {k: None if left is None else left * MB for k, left in expected.items()}


def test_a_log_that_has_grown_and_a_leader_that_has_changed_count_as_they_are_now():
    found = remaining_bytes(_Run(move(TO_3)), {0: (30 * MB,)}, {0: 150 * MB}, {0: 2})  # type: ignore[arg-type]
    assert found == {(2, Side.LEADER): 120 * MB, RECEIVES: 120 * MB}
