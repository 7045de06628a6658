"""What a journal's fold says of a run: bytes, rates, time left, why it is stuck, what it left."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_records import NOON
from journal_records import records as journal_records
from run_help import MB, Start, ask, cluster, spend, submitted

from core.cluster.metadata import TopicPartition
from core.daemons.process import Process
from core.plan.copies import Side
from core.run.journal.records import Kind, Record, Request, Sample
from core.run.journal.replay import fold
from core.run.reporting import documents as events
from core.run.reporting.event_text import request_words
from core.run.reporting.progress import run_view
from core.run.reporting.rates import left_seconds
from core.run.reporting.runs import read_run
from core.run.reporting.views import Level, MoveStatus, RunStatus, RunView, summary
from core.run.steps import NoteEnded


@pytest.mark.parametrize(
    ("elapsed", "total", "done", "minutes"),
    [
        (1, 1000, 10, 2),
        (60, 1000, 10, 99),
        (60, 1000, 500, 1),
        (60, 10**6, 100, 9999),
        (60, 1000, 990, 0),
        (1000, 1000, 10, 1650),
        (60, 1000, 0, None),
    ],
)
def test_time_left_is_computed_as_by_strimzi(
    elapsed: int, total: int, done: int, minutes: int | None
) -> None:
    left = left_seconds(elapsed, total, done)
    assert (None if left is None else round(left / 60)) == minutes


# -- folding by hand ------------------------------------------------------------------------------


def records(*later: tuple[Kind, dict[str, Any]], moves: int = 2) -> list[Record]:
    """Return a run in flight from broker 7 to 12, at 50 MB/s, and these records after it began."""
    begun = journal_records((7,) * moves, (12,) * moves, limit=None, rate=50 * MB, seconds=60.0)
    return [*begun, *(Record(5 + i, NOON, *of) for i, of in enumerate(later))]


def sample(
    second: float,
    *arrived: int | None,
    since: float | None = None,
    down: tuple[int, ...] = (),
    size: int = 1000 * MB,
) -> Sample:
    at = NOON + timedelta(seconds=second)
    last = (NOON + timedelta(seconds=second if since is None else since)).timestamp()
    entries = [[i, size, 7, [bytes], last] for i, bytes in enumerate(arrived)]
    return Sample(at, {"moves": entries, "down": list(down)})


def view(*samples: Sample, living: bool = True, later: Any = ()) -> RunView:
    return run_view(records(*later), samples, living=living)


def test_bytes_copied_of_unfinished_partitions_count_as_moved() -> None:
    seen = view(sample(1, 10 * MB, 0), sample(11, 110 * MB, 100 * MB))
    assert (seen.moved_bytes, seen.total_bytes) == (210 * MB, 2000 * MB)
    assert [m.moved_bytes for m in seen.moves] == [110 * MB, 100 * MB]


def test_current_rate_is_over_a_quota_window_and_average_rate_over_the_whole_run() -> None:
    seen = view(*(sample(s, max(0, s - 20) * 10 * MB, 0) for s in range(1, 41)))
    assert seen.moves[0].bytes_per_s == 10 * MB
    assert seen.average_bytes_per_s == 5 * MB


def test_samples_more_than_a_window_from_each_other_yield_a_rate_between_them() -> None:
    seen = view(*(sample(s, s * 10 * MB, 0) for s in (20, 45, 70)))
    assert seen.moves[0].bytes_per_s == seen.bytes_per_s == 10 * MB
    receiving = next(row for row in seen.brokers if row.side == "receives")
    assert receiving.bytes_per_s == 10 * MB


def test_rate_that_is_not_known_yet_is_none_rather_than_zero() -> None:
    seen = view(sample(20, 200 * MB, 0))
    assert seen.bytes_per_s is None
    assert {row.bytes_per_s for row in seen.brokers} == {None}


def test_time_left_follows_the_estimate_before_the_first_byte() -> None:
    assert view().left_seconds == 60.0
    assert view(sample(10, 0, 0)).left_seconds == 50.0


def test_destination_that_is_down_keeps_its_last_known_bytes() -> None:
    seen = view(sample(1, 400 * MB, MB), sample(2, None, 2 * MB, down=(12,)))
    assert [(m.moved_bytes, m.held) for m in seen.moves] == [(400 * MB, True), (2 * MB, False)]
    back = view(sample(1, 400 * MB, MB), sample(2, None, 2 * MB), sample(3, 410 * MB, 3 * MB))
    assert (back.moves[0].moved_bytes, back.moves[0].held) == (410 * MB, False)


def test_time_left_is_estimated_from_the_pace_while_the_run_was_working() -> None:
    """At 20 MB/s for ten seconds; then an hour in which the process, or the broker, was dead."""
    begun = [sample(s, 10 * s * MB, 10 * s * MB) for s in range(1, 11)]
    hour = 3600
    after = [sample(hour + s, (100 + 10 * s) * MB, (100 + 10 * s) * MB) for s in range(7)]
    back = Record(9, NOON + timedelta(seconds=hour), Kind.STARTED, {"pid": 1, "pid_started": 1.0})
    seen = run_view([*records(), back], [*begun, *after], living=True)
    assert seen.left_seconds == pytest.approx((2000 - 320) / 20)
    down = [sample(s, 100 * MB, 100 * MB, down=(12,)) for s in range(11, hour, 60)]
    seen = run_view(records(), [*begun, *down, *after], living=True)
    assert seen.left_seconds == pytest.approx((2000 - 320) / 20)


def test_pace_for_the_time_left_excludes_a_pause() -> None:
    def request(second: int, kind: str) -> Record:
        at = NOON + timedelta(seconds=second)
        who = {"seq": 1, "kind": kind, "who": "ann", "host": "here"}
        return Record(5, at, Kind.REQUEST, who)

    begun = [sample(s, 10 * s * MB, 10 * s * MB) for s in range(1, 11)]
    held = [sample(s, 100 * MB, 100 * MB) for s in range(11, 100)]
    seen = run_view([*records(), request(10, "pause")], [*begun, *held], living=True)
    assert seen.left_seconds == pytest.approx((2000 - 200) / 20)
    slow = [sample(s, (100 + 5 * (s - 100)) * MB, 100 * MB) for s in range(100, 120)]
    left = {
        end: run_view(
            [*records(), request(10, "pause"), request(100, end)],
            [*begun, *held, *slow],
            living=True,
        ).left_seconds
        for end in ("resume", "rollback", "cancel", "skip")
    }
    assert left["resume"] == left["rollback"] == left["cancel"] != left["skip"]


def test_move_is_not_reported_as_stuck_while_its_rate_rises_after_a_resume(start: Start) -> None:
    run = start(
        cluster({"t": [(1, 2)]}, size_bytes=400 * MB, in_bytes_per_s=2 * MB),
        {("t", 0): (3, 2)},
        rate=9 * MB,
    )
    run.until(submitted)
    spend(run, 10)
    ask(run, "pause", floor=True)
    spend(run, 90)
    ask(run, "resume")
    resumed = run.client.elapsed_seconds
    while run.client.elapsed_seconds < resumed + 40:
        run.runner.advance()
        (move,) = run.view().moves
        assert move.state is MoveStatus.MOVING, (run.client.elapsed_seconds - resumed, move.why)
    assert run.state.in_flight


@pytest.mark.parametrize(
    ("second", "state"), [(59, MoveStatus.STUCK), (70, MoveStatus.MOVING), (95, MoveStatus.STUCK)]
)
def test_paused_move_is_judged_as_stuck_only_by_the_time_since_its_resume(
    second: int, state: MoveStatus
) -> None:
    """No byte has come since second 5; a pause on the floor ends at 60, unless nobody asked yet."""
    kinds = ((10, request("pause", floor=True)), (60, request("resume")))
    asks = [Record(5, NOON + timedelta(seconds=at), *of) for at, of in kinds if second >= 60]
    seen = run_view([*records(), *asks], [sample(second, 10 * MB, 10 * MB, since=5)], living=True)
    assert seen.moves[0].state is state


def test_move_held_by_a_pause_is_not_stuck(start: Start) -> None:
    run = start(size_bytes=400 * MB)
    run.until(submitted)
    spend(run, 10)
    ask(run, "pause", floor=True)
    spend(run, 90)
    (held,) = run.view().moves
    assert (held.state, held.why) == (MoveStatus.MOVING, "held, as asked")
    assert {row.why for row in run.view().brokers} == {""}
    run.client.stop_broker(3)
    spend(run, 10)
    assert run.view().moves[0].why == "b3 is down"


def request(kind: str, **payload: Any) -> tuple[Kind, dict[str, Any]]:
    return Kind.REQUEST, {"seq": 1, "kind": kind, "who": "ann", "host": "here", **payload}


@pytest.mark.parametrize(
    ("later", "living", "state"),
    [
        ((), True, RunStatus.RUNNING),
        ((), False, RunStatus.DIED),
        ((request("pause"),), True, RunStatus.PAUSED),
        ((request("pause"),), False, RunStatus.DIED),
        ((request("pause"), request("resume")), True, RunStatus.RUNNING),
        ((request("cancel", moves=None),), True, RunStatus.CANCELLING),
        ((request("rollback"),), True, RunStatus.ROLLING_BACK),
        (((Kind.WAITING, {"why": "b9 is down"}),), True, RunStatus.WAITING),
        (((Kind.STARTED, {"pid": 1, "pid_started": 1.0}),), True, RunStatus.RECOVERING),
    ],
)
def test_run_status_follows_its_records_and_its_process(
    later: Any, living: bool, state: RunStatus
) -> None:
    assert view(living=living, later=later).state is state


@pytest.mark.parametrize(
    "why",
    [
        "waiting for broker 9, which is down",
        "127.0.0.1:9092 does not answer: connection refused",
        "orders-0: broker 3 does not begin to copy it to /data: asked again",
    ],
)
def test_run_events_report_the_end_of_a_waiting_reason(why: str) -> None:
    later = ((Kind.WAITING, {"why": why}), (Kind.WAITING, {"why": ""}), (Kind.WAITING, {"why": ""}))
    event_texts = [event.text for event in view(later=later).events][-2:]
    assert event_texts == [why, f"goes on, no longer: {why}"]


def test_scheduled_run_reports_its_start_time() -> None:
    created = records()[0]
    options = {**created.payload["options"], "at": "2026-01-02T02:00:00Z"}
    first = Record(1, NOON, Kind.CREATED, {**created.payload, "options": options})
    seen = run_view([first], (), living=True)
    assert seen.state is RunStatus.SCHEDULED
    assert seen.starts_at == datetime(2026, 1, 2, 2, tzinfo=UTC)


def test_skipped_move_adds_nothing_to_the_time_left() -> None:
    begun = [sample(s, 10 * s * MB, 0) for s in range(1, 11)]
    skipped = {"moves": [{"index": 1, "phase": "skipped", "why": "as asked", "leader": None}]}
    seen = view(*begun, later=((Kind.MOVED, {**skipped, "stop": ""}),))
    assert [m.state for m in seen.moves] == [MoveStatus.MOVING, MoveStatus.SKIPPED]
    assert seen.left_seconds == pytest.approx((1000 - 100) / 10)


@pytest.mark.parametrize("phase", ["cancelled", "skipped"])
def test_cancelled_or_skipped_move_is_excluded_from_the_totals(phase: str) -> None:
    begun = [sample(s, 10 * s * MB, 10 * s * MB) for s in range(1, 11)]
    out = {"moves": [{"index": 1, "phase": phase, "why": "as asked", "leader": None}], "stop": ""}
    seen = view(*begun, later=((Kind.MOVED, out),))
    assert (seen.moved_bytes, seen.total_bytes) == (100 * MB, 1000 * MB)
    assert seen.left_seconds == pytest.approx((1000 - 100) / 10)


def test_cancelled_run_still_reports_the_total_bytes_that_it_was_to_copy() -> None:
    back = {"moves": [{"index": 1, "phase": "cancelled", "why": "", "leader": 7}], "stop": ""}
    seen = view(sample(9, MB, MB), later=(request("cancel", moves=None), (Kind.MOVED, back)))
    assert seen.total_bytes == 2000 * MB


def test_time_left_from_the_estimate_has_no_range() -> None:
    seen = view(sample(4, MB, MB))
    assert (seen.left_seconds, seen.left_range) == (pytest.approx(60.0, rel=0.01), None)


def test_time_left_is_at_least_the_estimate_until_a_fair_share_is_copied() -> None:
    first, *rest = records()
    estimate = {"seconds": 600.0, "rate_bytes_per_s": 50 * MB}
    begun = [Record(1, NOON, Kind.CREATED, {**first.payload, "estimate": estimate}), *rest]
    quick = [sample(s, 10 * s * MB, 0) for s in range(1, 31)]
    early = run_view(begun, quick[:15], living=True)
    assert early.left_seconds == pytest.approx(600 * 1850 / 2000)
    assert early.left_range is not None
    assert early.left_range[0] < 185 < early.left_seconds < early.left_range[1]
    assert run_view(begun, quick, living=True).left_seconds == pytest.approx(170)
    _, other = request("throttle", rate_bytes_per_s=40 * MB)
    slower = Record(9, NOON + timedelta(seconds=1), Kind.REQUEST, other)
    left = run_view([*begun, slower], quick[:15], living=True).left_seconds
    assert left == pytest.approx(185), "the estimate was for another rate"


@pytest.mark.parametrize(
    ("rate", "shown"), [(None, 600.0), (50 * MB, 600.0), (40 * MB, None)], ids=str
)
def test_estimate_is_shown_only_at_the_rate_that_it_was_calculated_for(
    rate: int | None, shown: float | None
) -> None:
    first, *rest = records()
    estimate = {"seconds": 600.0, "rate_bytes_per_s": 50 * MB}
    begun = [Record(1, NOON, Kind.CREATED, {**first.payload, "estimate": estimate}), *rest]
    if rate is not None:
        begun.append(Record(9, NOON, *request("throttle", rate_bytes_per_s=rate)))
    assert run_view(begun, [sample(10, MB, MB)], living=True).estimated_seconds == shown


def test_requests_are_reported_as_accepted_refused_or_pending() -> None:
    who = {"who": "ann", "host": "here"}
    later = (
        (Kind.REQUEST, {"seq": 1, "kind": "throttle", "rate_bytes_per_s": 20 * MB, **who}),
        (Kind.REQUEST, {"seq": 2, "kind": "sing", "refused": "No run can sing.", **who}),
    )
    waiting = Request(3, NOON, "cancel", {"moves": [1], **who})
    seen = run_view(records(*later), (), living=False, pending=(waiting,))
    assert [(r.what, r.taken, r.refused) for r in seen.requests] == [
        ("throttle 20 MB/s", True, ""),
        ("sing", True, "No run can sing."),
        ("cancel t-1", False, ""),
    ]


@pytest.mark.parametrize(
    ("kind", "payload", "words"),
    [
        ("pause", {}, "pause"),
        ("pause", {"floor": True}, "pause, and hold what is in flight"),
        ("cancel", {"moves": None}, "cancel the run"),
        ("cancel", {"moves": [0, 1]}, "cancel t-0 and t-1"),
        ("skip", {"moves": [1]}, "skip t-1"),
        ("retry", {"moves": [7]}, "retry move 7"),
        ("retarget", {"move": 0, "after": [3, 1]}, "retarget t-0 to 3,1"),
        (
            "throttle",
            {"auto": {"least_bytes_per_s": MB, "most_bytes_per_s": 9 * MB}},
            "throttle auto, 1.0 MB/s – 9.0 MB/s",
        ),
        ("rollback", {}, "roll back"),
        ("sing", {}, "sing"),
    ],
)
def test_request_is_described_in_words(kind: str, payload: dict[str, Any], words: str) -> None:
    assert request_words(kind, payload, fold(records())) == words


def test_growing_log_raises_the_total_but_not_the_moved_bytes() -> None:
    first = view(sample(10, 900 * MB, 900 * MB))
    second = view(sample(10, 900 * MB, 900 * MB), sample(11, 900 * MB, 900 * MB, size=2000 * MB))
    assert second.total_bytes == 2 * first.total_bytes
    assert second.moved_bytes == first.moved_bytes


@pytest.mark.parametrize(
    ("samples", "state", "why"),
    [
        ([sample(40, 10 * MB, 10 * MB)], MoveStatus.MOVING, ""),
        ([sample(40, 10 * MB, 10 * MB, since=15)], MoveStatus.MOVING, ""),
        ([sample(40, 10 * MB, 10 * MB, since=5)], MoveStatus.STUCK, "no byte has come"),
        ([sample(5, 10 * MB, 10 * MB, down=(12,))], MoveStatus.STUCK, "b12 is down"),
        (
            [sample(40, 10 * MB, 10 * MB, since=5, down=(7,))],
            MoveStatus.STUCK,
            "b7, its leader, is down",
        ),
        (
            [sample(s, s * MB, s * MB, size=(1000 + 2 * s) * MB) for s in range(1, 40)],
            MoveStatus.STUCK,
            "throttle below what is produced",
        ),
        (
            [sample(s, 2 * s * MB, s * MB, size=(1000 + s) * MB) for s in range(1, 40)],
            MoveStatus.MOVING,
            "",
        ),
    ],
)
def test_move_is_reported_as_stuck_with_the_reason(
    samples: list[Sample], state: MoveStatus, why: str
) -> None:
    first = view(*samples).moves[0]
    assert (first.state, first.why) == (state, why)


def test_run_whose_process_died_reports_its_leftover_moves_lists_and_rates() -> None:
    intent = {
        "batch": 0,
        "lists": [{"topic": "t", "side": "leader", "prior": None, "pairs": ["0:7", "0:12"]}],
        "rates": [
            {
                "broker": 12,
                "side": "follower",
                "prior": None,
                "source": "DEFAULT",
                "rate_bytes_per_s": 50 * MB,
            },
            {
                "broker": 9,
                "side": "follower",
                "prior": "1",
                "source": "BROKER",
                "rate_bytes_per_s": None,
            },
        ],
        "foreign": [],
    }
    later = ((Kind.THROTTLE_INTENT, intent),)
    assert view(living=True, later=later).leftovers is None
    seen = view(living=False, later=later)
    assert seen.state is RunStatus.DIED
    assert seen.leftovers is not None
    assert seen.leftovers.moves == (TopicPartition("t", 0), TopicPartition("t", 1))
    assert seen.leftovers.lists == (("t", "leader", ("0:7", "0:12")),)
    (rate,) = seen.leftovers.rates
    assert (rate.broker, rate.side, rate.rate_bytes_per_s) == (12, Side.FOLLOWER, 50 * MB)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(0.1, 30),
            st.lists(st.integers(0, 2000), min_size=2, max_size=2),
            st.integers(0, 2000),
            st.booleans(),
        ),
        max_size=20,
    ),
    st.sampled_from([None, "done", "cancelled", "skipped", "failed"]),
)
def test_run_view_is_consistent_for_arbitrary_samples(
    steps: list[tuple[float, list[int], int, bool]], ended: str | None
) -> None:
    second, samples = 0.0, []
    for gap, arrived, size, down in steps:
        second += gap
        samples.append(
            sample(second, *(a * MB for a in arrived), down=(12,) if down else (), size=size * MB)
        )
    moved = {
        "moves": [{"index": 0, "phase": ended, "why": "", "leader": 12}],
        "stop": "",
    }
    seen = view(*samples, later=((Kind.MOVED, moved),) if ended else ())
    assert 0 <= seen.moved_bytes <= seen.total_bytes
    assert seen.done == (ended == "done")
    assert seen.left_seconds is not None
    assert seen.left_seconds >= 0
    if seen.left_range is not None:
        low, high = seen.left_range
        assert 0 <= low <= seen.left_seconds <= high
    for m in seen.moves:
        assert m.moved_bytes <= (m.total_bytes or 0)
        assert m.bytes_per_s is None or m.bytes_per_s >= 0
    assert summary(seen).moved_bytes == seen.moved_bytes


# -- on a simulated cluster -----------------------------------------------------------------------


def test_progress_follows_the_copied_bytes_and_the_limits(start: Start) -> None:
    run = start(
        cluster({"t": [(1,), (2,)]}, size_bytes=60 * MB),
        {("t", 0): (3,), ("t", 1): (3,)},
        rate=5 * MB,
    )
    seen: list[RunView] = []

    def look(step: Any) -> bool:
        seen.append(run.view())
        return isinstance(step, NoteEnded)

    run.until(look)
    moved = [view.moved_bytes for view in seen]
    assert moved == sorted(moved)
    assert len(set(moved)) > 10
    halfway = next(view for view in seen if view.moved_bytes > 60 * MB)
    left = run.client.elapsed_seconds - halfway.elapsed_seconds
    assert halfway.left_seconds == pytest.approx(left, rel=0.25)
    assert halfway.left_range is not None
    assert halfway.left_range[0] * 0.9 <= left <= halfway.left_range[1] * 1.1
    receiving = next(b for b in halfway.brokers if b.side == "receives")
    assert receiving.broker == 3
    assert receiving.bytes_per_s == pytest.approx(5 * MB, rel=0.2)
    assert receiving.limit_bytes_per_s == 5 * MB


def test_events_of_a_followed_run_report_bytes_before_a_partition_has_moved(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(cluster({"t": [(1,)]}, size_bytes=60 * MB), {("t", 0): (3,)}, rate=5 * MB)
    ours = Process.this()
    run.journal.write(run.client.now, Kind.STARTED, {"pid": ours.pid, "pid_started": ours.started})
    run.restart_process()
    monkeypatch.setattr(events.time, "sleep", lambda _: spend(run, 1))
    cluster_id = run.client.describe_cluster().cluster_id
    run_events = [event for _, more in events.follow(cluster_id, run.path.stem) for event in more]
    moved = [e["moved_bytes"] for e in run_events if e["event"] == "progress"]
    assert moved == sorted(set(moved))
    assert len([bytes for bytes in moved if 0 < bytes < 60 * MB]) > 5
    assert moved[-1] == 60 * MB


def test_run_events_are_reported_in_plain_words(start: Start) -> None:
    run = start(cluster({"t": [(1, 2)], "u": [(1, 2, 3)]}), {("t", 0): (4, 2), ("u", 0): (3, 1, 2)})
    run.to_the_end()
    story = [event.text for event in run.view().events]
    assert story[:3] == [
        "journal opened; original order of 2 partitions kept",
        "throttles set and read back on brokers 1 2 4; before: all unset",
        "batch 1 of 1 submitted: 2 partitions",
    ]
    assert "u-0 done: re-ordered, 3 first as planned" in story
    assert "t-0 done: in ISR, 4 first as planned" in story
    assert story[-1].startswith("done: 2 of 2 partitions, 20 MB in ")
    assert run.view().events[-1].level is Level.GOOD


def test_run_read_from_its_journal_has_the_same_view_as_its_process(start: Start) -> None:
    run = start(cluster({"t": [(1, 2)]}), {("t", 0): (1, 3)})
    run.to_the_end()
    assert read_run(run.client.describe_cluster().cluster_id, run.view().run) == run.view()
