"""What became of batches: which of them a snapshot's counts are about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from core.clock import SystemClock
from core.load.samples import MAX_CLOCK_AHEAD
from core.load.snapshot.format import Counts
from core.pipeline.job import Job
from core.pipeline.ledger import Batch, Ledger

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Later(SystemClock):
    """A clock that shows what it is told to."""

    at = AT

    def now(self) -> datetime:
        return self.at


def test_counts_go_back_a_day_also_for_batches_that_brought_nothing_new(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "c")

    def batch(key: str, hours: float, **what: object) -> None:
        at = AT + timedelta(hours=hours)
        ledger.complete(Batch(key, at, complete=True, **what))  # type: ignore[arg-type]

    batch("a", 0, read=5, accepted=5, newest=AT)
    batch("b", 1, read=7, duplicate=7)
    batch("c", 24, read=4, quarantined={"negative": 4})
    batch("d", 26, read=3, accepted=3, newest=AT + timedelta(hours=26))
    expected = Counts(read=7, accepted=3, quarantined={"negative": 4})
    now = AT + timedelta(hours=26)
    assert ledger.counts(now) == expected
    assert Ledger(tmp_path, "c").counts(now) == expected


def test_samples_of_a_clock_that_was_ahead_do_not_count_as_the_newest(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "c")

    def batch(key: str, at: datetime) -> None:
        ledger.complete(Batch(key, at, complete=True, read=1, accepted=1, newest=at))

    ahead = AT + timedelta(hours=7)
    batch("before", AT)
    batch("ahead", ahead)
    assert ledger.newest(ahead) == ahead
    corrected = AT + timedelta(seconds=30)
    batch("after", corrected)
    for known in (ledger, Ledger(tmp_path, "c")):
        assert known.newest(corrected) == corrected
        assert known.newest_before("after", corrected) == AT
        assert known.newest(corrected - MAX_CLOCK_AHEAD) == corrected
        assert known.newest(AT - 2 * MAX_CLOCK_AHEAD) is None
        assert known.counts(corrected).accepted == 3


def test_of_batches_that_are_forgotten_nothing_is_remembered(tmp_path: Path) -> None:
    clock = Later()
    ledger = Ledger(tmp_path, "c")
    for n in range(100):
        at = AT + timedelta(hours=n)
        ledger.complete(Batch(f"q-{n:08d}", at, complete=True))
    job = Job(None, tmp_path, "c", clock)
    for n in range(100):
        clock.at = AT + timedelta(hours=n)
        job._tidy(f"q-{n:08d}", None)
    assert len(job._tidied) <= 50
