"""Bars and charts: how much is drawn for how much there is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.text.terminal import in_ascii
from tui.drawing.chart import Series, chart_lines, legend, nice_step
from tui.drawing.spans import Tone, bar, line_bar, text_of, width_of


@pytest.mark.parametrize(
    ("fraction", "drawn"),
    [
        (0.0, "    "),
        (1.0, "████"),
        (0.5, "██  "),
        (1 / 32, "▏   "),
        (0.28, "█▏  "),
        (float("nan"), "    "),
    ],
)
def test_a_bar_is_drawn_in_eighths(fraction: float, drawn: str) -> None:
    assert text_of(bar(fraction, 4)) == drawn


@pytest.mark.parametrize(("fraction", "drawn"), [(1e-9, "▏   "), (1 - 1e-9, "███▉")])
def test_partial_bar_is_never_drawn_empty_or_full(fraction: float, drawn: str) -> None:
    assert text_of(bar(fraction, 4)) == drawn


@given(st.floats(-1, 2), st.integers(0, 60))
def test_drawn_bar_is_as_wide_as_requested(fraction: float, width: int) -> None:
    assert width_of(bar(fraction, width)) == width


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 200))
def test_line_bar_shows_done_then_begun_then_open_parts(
    done: float, begun: float, width: int
) -> None:
    drawn = text_of(line_bar(done, begun, width))
    assert len(drawn) == width
    assert drawn == "".join(sorted(drawn, key="━─╌".index)), "done, then begun, then open"
    assert drawn.count("━") == pytest.approx(done * width, abs=0.5)
    assert width - drawn.count("╌") == pytest.approx(max(done, begun) * width, abs=0.5)


@pytest.mark.parametrize(
    ("top", "most", "step"), [(190, 5, 50), (100, 5, 20), (99, 2, 50), (1.3e8, 3, 5e7), (0, 5, 1)]
)
def test_ticks_are_round_and_reach_the_top(top: float, most: int, step: float) -> None:
    assert nice_step(top, most) == pytest.approx(step)


def _series(values: list[float], name: str = "in", tone: Tone = Tone.YOURS) -> Series:
    return Series(name, np.arange(len(values)) * 300.0, np.array(values), tone)


def _chart(*series: Series, plain: bool = False) -> list[str]:
    lines = chart_lines(
        series, since=0, until=3600, unit="B/s", width=60, height=12, gap_seconds=450, plain=plain
    )
    assert len(lines) == 12
    assert all(width_of(line) == 60 for line in lines)
    return [text_of(line) for line in lines]


def test_a_chart_has_its_unit_its_times_and_its_values() -> None:
    drawn = "\n".join(_chart(_series([10e6 * i for i in range(13)])))
    assert "100 MB/s" in drawn
    assert "00:30" in drawn
    assert any(block in drawn for block in "▄▀▚▞")


def test_a_gap_in_the_windows_is_not_drawn_over() -> None:
    values = [50e6] * 4 + [float("nan")] * 5 + [50e6] * 4
    row = max(_chart(_series(values)), key=lambda line: line.count("▄") + line.count("▀"))
    inner = row[row.index("▄") if "▄" in row else row.index("▀") : len(row.rstrip())]
    assert any(mark in inner for mark in " ─")


def test_series_without_known_values_draws_an_empty_chart() -> None:
    assert not set("▄▀▚▞█") & set("".join(_chart(_series([float("nan")] * 3))))


def test_series_keep_their_tones() -> None:
    series = (_series([1e6] * 5), _series([9e6] * 5, "out", Tone.LOOK))
    lines = chart_lines(
        series, since=0, until=1500, unit="B/s", width=60, height=12, gap_seconds=450
    )
    tones = {span.tone for line in lines for span in line}
    assert {Tone.YOURS, Tone.LOOK, Tone.DIM, Tone.FAINT} <= tones


def test_legend_without_colour_shows_the_marks_of_the_chart() -> None:
    series = (_series([1e6] * 13), _series([9e6] * 13, "out", Tone.LOOK))
    drawn = "".join(_chart(*series, plain=True))
    mark, name, other, _ = text_of(legend(series, plain=True)).split()
    assert (name, mark == other) == ("in", False)
    assert {mark, other} <= set(drawn)
    assert {in_ascii(mark), in_ascii(other)} <= set(in_ascii(drawn))


def test_chart_size_is_independent_of_the_terminal_size() -> None:
    lines = chart_lines(
        [_series([1e6] * 5)],
        since=0, until=1500, unit="B/s", width=190, height=50, gap_seconds=450,
    )  # fmt: skip
    assert (len(lines), width_of(lines[0])) == (50, 190)
