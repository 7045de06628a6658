"""When the next batch may begin while others are in flight."""

from __future__ import annotations

import pytest

from core.plan.batch_schedule import WINDOW_SECONDS, InFlightMove, may_start
from core.plan.batches import MAX_MOVES

SHORT, LONG = InFlightMove(1), InFlightMove(0, long=True)
TO_3 = InFlightMove(2, destinations=(3,), extra_bytes=60)


@pytest.mark.parametrize(
    ("batch", "in_flight", "since", "extra", "expected"),
    [
        ([TO_3], [], 0.0, 10, True),
        ([TO_3], [SHORT], WINDOW_SECONDS - 1, None, False),
        ([TO_3], [SHORT], WINDOW_SECONDS, None, True),
        ([TO_3], [SHORT, InFlightMove(0)], 100.0, None, False),
        ([TO_3], [SHORT, LONG, LONG], 100.0, None, True),
        ([TO_3], [LONG], WINDOW_SECONDS, None, True),
        ([TO_3], [InFlightMove(1, destinations=(3,), extra_bytes=50)], 100.0, 100, False),
        ([TO_3], [InFlightMove(1, destinations=(3,), extra_bytes=40)], 100.0, 100, True),
        ([TO_3], [InFlightMove(1, destinations=(4,), extra_bytes=50)], 100.0, 100, True),
        ([TO_3], [InFlightMove(1, destinations=(4,), extra_bytes=50)], 100.0, 10, True),
        ([TO_3] * 3, [LONG] * (2 * MAX_MOVES - 2), 100.0, None, False),
    ],
    ids=[
        "nothing in flight",
        "the one before has only begun",
        "the one before has flown for a window",
        "two are in flight already",
        "long ones do not count",
        "only long ones are left",
        "too much extra disk at the destination",
        "room enough at the destination",
        "extra disk of another destination",
        "larger than what is allowed, alone at its destination",
        "too many at once",
    ],
)
def test_start_of_the_next_batch_depends_on_window_moves_in_flight_and_extra_disk(
    batch, in_flight, since, extra, expected
):
    assert may_start(batch, in_flight, since, max_extra_bytes=extra) is expected
