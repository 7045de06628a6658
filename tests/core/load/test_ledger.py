"""What becomes of batches: what counts in one, which windows it closes, and what is remembered."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.load.samples import (
    DAY_MICROS,
    HOUR_MICROS,
    WINDOW_MICROS,
    floor_micros,
    from_micros,
    to_micros,
)
from core.load.snapshot.format import Counts
from core.pipeline.clusters import Cluster
from core.pipeline.ledger import (
    COUNTED,
    KEPT,
    Batch,
    Carried,
    ClusterState,
    Ledger,
    Part,
    with_counts,
    with_polls,
)

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON = to_micros(AT)
LATER = NOON + DAY_MICROS


def came(known: ClusterState, *minutes: float, latest_at: int = LATER) -> Cluster:
    """Return a cluster after samples of so many minutes past noon."""
    cluster = Cluster(known)
    for at in (NOON + round(minute * 60_000_000) for minute in minutes):
        cluster.starts.add(floor_micros(at, WINDOW_MICROS))
        cluster.newest_at = max(cluster.newest_at, at)
    cluster.open_and_close(latest_at)
    return cluster


def starts(*minutes: int) -> tuple[int, ...]:
    return tuple(NOON + minute * 60_000_000 for minute in minutes)


def test_window_stays_open_until_a_sample_of_a_later_window_arrives() -> None:
    first = came(ClusterState(), 1, 4.9)
    assert (first.known.open, first.closing, first.late) == (starts(0), (), ())
    second = came(first.known, 4.95, 5)
    assert (second.known.open, second.closing, second.late) == (starts(5), starts(0), ())
    third = came(second.known, 4.97, 6)
    assert (third.known.open, third.closing, third.late) == (starts(5), (), starts(0))
    away = came(third.known, 21)
    assert (away.known.open, away.closing) == (starts(20), starts(5))
    before = came(away.known, 12)
    assert (before.known.open, before.late) == (starts(20), starts(10))
    assert before.known.newest_at == away.known.newest_at


def test_samples_from_a_fast_clock_stop_being_the_newest_once_it_is_corrected() -> None:
    ahead = came(ClusterState(), 1, 121)
    assert ahead.known.newest_at == NOON + 121 * 60_000_000
    right = came(ahead.known, 2, latest_at=NOON + 3 * 60_000_000)
    assert right.known.newest_at == NOON + 2 * 60_000_000
    assert (right.known.open, right.late) == (starts(0), ())
    assert right.known.day_at <= NOON
    again = came(right.known, 6, latest_at=NOON + 7 * 60_000_000)
    assert again.closing == starts(0)


def test_polls_are_remembered_as_ranges() -> None:
    known = with_polls(ClusterState(), {"a": [5, 3, 4], "b": [1 << 40]})
    known = with_polls(known, {"a": [7, 2]})
    assert known.polls == {"a": ((2, 5), (7, 7)), "b": ((1 << 40, 1 << 40),)}
    held = [poll for poll in range(10) if known.has("a", poll)]
    assert held == [2, 3, 4, 5, 7]
    assert not known.has("c", 2)


def test_counts_cover_the_last_day_including_batches_without_new_samples() -> None:
    def later(known: ClusterState, hours: float, counts: Counts, newest: float) -> ClusterState:
        known = replace(known, newest_at=NOON + round(newest * HOUR_MICROS))
        return with_counts(known, counts, Batch("b", AT + timedelta(hours=hours)))

    known = with_counts(ClusterState(), Counts(read=4, quarantined={"negative": 4}), Batch("a", AT))
    known = later(known, 1, Counts(read=5, accepted=5), 1)
    known = later(known, 2, Counts(read=7, duplicate=7), 1)
    assert known.total() == Counts(16, 5, 7, 0, {"negative": 4})
    known = later(known, 26, Counts(read=3, accepted=3), 26)
    assert known.total() == Counts(read=3, accepted=3)
    assert timedelta(hours=24) == COUNTED


def carried(number: int) -> Carried:
    states = {
        "c": ClusterState(
            newest_at=NOON,
            open_at=NOON,
            open=(NOON, NOON + WINDOW_MICROS),
            polls={"here": ((1, 2), (4, 9))},
            counts={"2026-03-01T12": Counts(3, 2, 1, 0, {"negative": 1})},
        ),
        "d": ClusterState(),
    }
    part = Part("q-1", NOON, NOON, late=True)
    return Carried(number, f"q-{number}", None, (part,), (), {"t-0": 7}, states)


def test_batches_and_carried_state_survive_reopening_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    batch = ledger.begin("q-1", AT)
    assert not batch.complete
    assert Ledger(tmp_path).begin("q-1", AT + timedelta(hours=1)) == batch
    ledger.complete(replace(batch, units=("/spool/a b.parquet",), carried=carried(1)))
    again = Ledger(tmp_path)
    assert again.carried == carried(1)
    assert again.complete_batches() == ledger.complete_batches()
    assert Ledger(tmp_path / "none").carried == Carried()


@pytest.mark.parametrize("count", [1, KEPT, 100])
def test_ledger_keeps_few_batches_including_those_a_restart_may_resume_from(
    tmp_path: Path, count: int
) -> None:
    ledger = Ledger(tmp_path)
    for number in range(1, count + 1):
        at = AT + number * timedelta(seconds=10)
        ledger.begin(f"lost-{number}", at)
        ledger.complete(replace(ledger.begin(f"q-{number}", at), carried=carried(number)))
        assert {c.number for c in ledger.in_use()} == {number, number - 1} - {0}
        settled = [batch.key for batch in ledger.settled(f"q-{number}")]
        assert f"q-{number - 1}" not in settled
        ledger.forget()
    assert len(ledger.complete_batches()) == min(count, KEPT)
    assert len(list(tmp_path.glob("*.json"))) <= 2 * KEPT
    assert Ledger(tmp_path).carried.number == count


def test_timestamps_convert_to_microseconds_and_back_exactly() -> None:
    at = datetime(2026, 3, 1, 12, 0, 0, 999_999, tzinfo=UTC)
    assert from_micros(to_micros(at)) == at
