"""How often a run looks: seldom while nothing can end, and soon enough where something does."""

from __future__ import annotations

from itertools import pairwise

import pytest
from run_help import MB, Start, cluster, submitted

from core.run.engine.observer import seconds_to_next_look
from core.run.journal.move_state import Outcome
from core.run.steps import NoteEnded, Step


@pytest.mark.parametrize(
    ("elapsed", "nearest", "seconds"),
    [
        pytest.param(0, 0.0, 0.1, id="nothing has come yet: a short run is not slept through"),
        pytest.param(1, 0.0, 0.2, id="early figures are not relied on for long"),
        pytest.param(10, 0.02, 2.0, id="ten minutes to go"),
        pytest.param(10, 0.5, 0.5, id="ten seconds to go"),
        pytest.param(60, 0.99, 0.6, id="almost there"),
        pytest.param(60, 1.0, 0.6, id="all has come, the ISR not yet"),
        pytest.param(3600, 0.999, 2.0, id="stuck at the end for an hour"),
        pytest.param(1, None, 0.1, id="nothing is copied"),
        pytest.param(3600, None, 1.0, id="nothing is copied, for an hour"),
    ],
)
def test_polls_are_rare_far_from_an_end(
    elapsed: float, nearest: float | None, seconds: float
) -> None:
    assert seconds_to_next_look(elapsed, nearest) == pytest.approx(seconds)


def test_long_run_polls_rarely_and_notices_its_end_soon(start: Start) -> None:
    run = start(size_bytes=400 * MB, rate=2 * MB)
    run.until(submitted)
    began, looks = run.client.elapsed_seconds, list[float]()

    def noticed(step: Step) -> bool:
        looks.append(run.client.elapsed_seconds - began)
        return isinstance(step, NoteEnded)

    run.until(noticed)
    assert looks[-1] > 200
    assert len(looks) < 150
    assert max(b - a for a, b in pairwise(looks[-10:])) <= 2.3, looks[-10:]
    assert run.to_the_end() is Outcome.DONE


def test_finished_copy_does_not_slow_polls_where_nothing_is_copied_any_more(start: Start) -> None:
    run = start(
        cluster({"t": [(1, 2)] * 2}, size_bytes=600 * MB),
        {("t", 0): (3, 2), ("t", 1): (4, 2)},
        rate=2 * MB,
        batch_size=1,
    )
    run.until(submitted)
    run.client.stop_broker(4)
    run.until(lambda step: isinstance(step, NoteEnded))
    looks, until = list[float](), run.client.elapsed_seconds + 60
    while run.client.elapsed_seconds < until:
        run.runner.advance()
        looks.append(run.client.elapsed_seconds)
    assert not run.state.in_flight
    assert max(b - a for a, b in pairwise(looks)) <= 1.1, looks
    run.client.start_broker(4)
    assert run.to_the_end() is Outcome.DONE


def test_end_of_a_short_run_is_noticed_within_two_seconds(start: Start) -> None:
    run = start(size_bytes=MB, rate=100 * MB)
    run.until(submitted)
    began = run.client.elapsed_seconds
    run.until(lambda step: isinstance(step, NoteEnded))
    assert run.client.elapsed_seconds - began < 2
