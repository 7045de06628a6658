"""How much of the time a pipeline works: a fifth at most, once its first rates are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.clock import SystemClock
from core.pipeline import job as jobs
from core.pipeline.job import FIRST_BATCHES, REST, Job


class Ending:
    """The event that a job which ends sets; it remembers how long was waited for it."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return False


@pytest.mark.parametrize("rest", [REST, 0.0])
def test_later_batches_are_followed_by_a_proportional_interruptible_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: float
) -> None:
    now = [100.0]
    job = Job(None, tmp_path, "c", SystemClock())
    ending = Ending()
    monkeypatch.setattr(job, "_ending", ending)
    monkeypatch.setattr(job, "_rest", rest)
    monkeypatch.setattr(jobs.time, "monotonic", lambda: now[0])

    def process(_: object, number: int) -> None:
        now[0] += number
        job._processed += 1

    monkeypatch.setattr(job, "process", process)
    for number in range(1, FIRST_BATCHES + 3):
        job._safely(None, number)
    late = [FIRST_BATCHES + 1, FIRST_BATCHES + 2]
    assert ending.waited == [rest * seconds for seconds in late]
