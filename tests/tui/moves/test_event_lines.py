"""A run's story on a screen that is too narrow for it: in two lines, and no word lost unmarked."""

from __future__ import annotations

import pytest
from pictures import at

from core.run.reporting.views import Level, RunEvent
from tui.drawing.spans import text_of, width_of
from tui.moves.drawing.log import event_lines

WORDS = "throttles set and read back on brokers 2 7 9 10 12; before: b9 follower 1 MB/s (kept), "
LONG = RunEvent(at(2, 11), "throttle_set", WORDS + "others unset", Level.INFO)
SHORT = RunEvent(at(2, 31), "moved", "orders-1 done", Level.GOOD)


@pytest.mark.parametrize("width", [72, 80, 120])
def test_a_long_line_takes_two_where_there_is_room(width: int) -> None:
    lines = event_lines([SHORT, LONG], width, 6)
    said = " ".join(text_of(line)[13:].strip() for line in lines)
    assert said == f"{LONG.text} {SHORT.text}"
    assert {width_of(line) for line in lines} == {width}


def test_what_is_cut_is_marked() -> None:
    (line,) = event_lines([SHORT, LONG], 80, 1)
    assert text_of(line).endswith("…")
    _, second = event_lines([LONG], 40, 6)[:2]
    assert text_of(second).endswith("…")
