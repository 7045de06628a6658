"""What an interval between two polls says, and when it must say nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.cluster.log_dirs import BrokerLogs, ReplicaLog, with_log_dirs
from core.cluster.metadata import Broker, PartitionRow, Topic
from core.cluster.state import ClusterState
from core.load.collector.interval import Interval, measure_interval
from core.load.collector.reading import Reading
from core.load.samples import Flag, Method

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def reading(
    seconds: float = 0.0,
    *,
    end: int = 100,
    start: int = 0,
    size: int = 1000,
    leader: int = 1,
    topic_id: str = "id-1",
    committed: dict[str, int] | None = None,
    wall: float | None = None,
    sized: float | None = None,
    committed_at: float | None = None,
    silent: frozenset[int] = frozenset(),
    unattended: frozenset[str] = frozenset(),
    untold: frozenset[str] = frozenset(),
    hidden: bool = False,
    listed: bool = True,
    extra_topic: bool = False,
) -> Reading:
    """Return a reading of partition t-0 on brokers 1 and 2; the follower has the same size."""
    rows = [PartitionRow("t", 0, leader, (1, 2), (1, 2))]
    if extra_topic:
        rows.append(PartitionRow("a", 0, 2, (2,), (2,)))
    state = ClusterState.build(
        cluster_id="c",
        fetched_at=AT,
        brokers=[Broker(1), Broker(2)],
        topics=[Topic("t", topic_id), Topic("a", "id-a")]
        if extra_topic
        else [Topic("t", topic_id)],
        partitions=rows,
    )
    logs = (
        BrokerLogs(b, (), (ReplicaLog("t", 0, size, 0, "/d"),)) for b in (1, 2) if b not in silent
    )
    state = with_log_dirs(state, logs)

    def column(value: int) -> np.ndarray:
        return np.array([-1, value] if extra_topic else [value], np.int64)

    return Reading(
        state=state,
        at=AT + timedelta(seconds=seconds if wall is None else wall),
        monotonic=seconds,
        sized=seconds if sized is None else sized,
        committed_at=seconds if committed_at is None else committed_at,
        end=column(end),
        start=column(start),
        committed={group: column(offset) for group, offset in (committed or {}).items()},
        silent=silent,
        unattended=unattended,
        untold=untold,
        hidden=hidden,
        listed=listed,
    )


def after(first: Reading, second: Reading) -> Interval:
    return measure_interval(second, measure_interval(first, None).memory)


def test_committed_offsets_are_kept_only_in_the_commits_memory() -> None:
    memory = measure_interval(reading(committed={"g": 5}), None).memory
    assert not memory.newest.committed
    assert memory.commits["g"].offsets.tolist() == [5]


def flags_of_leaders(interval: Interval) -> list[int]:
    """Return what is noted of each partition: its leader's replica tells it."""
    return interval.replica_flags[interval.reading.state.is_leader].tolist()


def test_the_first_poll_has_no_deltas() -> None:
    first = measure_interval(reading(committed={"g": 40}), None)
    assert np.isnan(first.dt_seconds).all()
    assert first.messages.tolist() == [-1]
    assert flags_of_leaders(first) == [Flag.FIRST]
    assert first.group_lag.tolist() == [60]


def test_a_clean_interval_takes_its_bytes_from_the_size() -> None:
    interval = after(reading(), reading(10.0, end=150, size=1600))
    assert interval.dt_seconds.tolist() == [10.0]
    assert interval.messages.tolist() == [50]
    assert interval.in_bytes.tolist() == [600.0]
    assert interval.in_method.tolist() == [Method.CLEAN_SIZE]
    assert interval.size_delta.tolist() == [600, 600]


@pytest.mark.parametrize(
    ("second", "flag", "messages", "in_bytes"),
    [
        ({"end": 150, "size": 700}, Flag.SIZE_SHRUNK, 50, 500.0),
        ({"end": 150, "size": 1100, "start": 20}, Flag(0), 50, 500.0),
        ({"end": 150, "size": 1600, "leader": 2}, Flag.LEADER_CHANGED, 50, 500.0),
        ({"end": 90, "size": 900}, Flag.TRUNCATED | Flag.SIZE_SHRUNK, None, None),
        ({"end": 150, "size": 1600, "topic_id": "id-2"}, Flag.RECREATED, None, None),
        ({"end": 150, "size": 1600, "wall": 25.0}, Flag.CLOCK_STEP, None, None),
        ({"end": 150, "silent": frozenset({1})}, Flag.PARTIAL_POLL, 50, 500.0),
        ({"end": -1, "size": 1600}, Flag(0), None, None),
    ],
)
def test_dirty_interval_is_flagged_with_its_reason_and_estimated_or_censored(
    second: dict[str, object], flag: Flag, messages: int | None, in_bytes: float | None
) -> None:
    interval = after(reading(), reading(10.0, **second))  # type: ignore[arg-type]
    assert Flag(int(interval.replica_flags[0])) == flag
    assert interval.messages.tolist() == [-1 if messages is None else messages]
    if in_bytes is None:
        assert np.isnan(interval.in_bytes).all()
        assert np.isnan(interval.dt_seconds).all()
        assert interval.in_method.tolist() == [Method.NONE]
    else:
        # 1000 bytes in 100 messages held: ten bytes a message.
        assert interval.in_bytes.tolist() == [in_bytes]
        assert interval.in_method.tolist() == [Method.BYTES_PER_MESSAGE]


def test_bytes_per_message_follow_clean_intervals() -> None:
    memory = measure_interval(reading(), None).memory
    end, size = 100, 1000
    for i in range(30):
        end, size = end + 10, size + 200
        memory = measure_interval(reading(10.0 * (i + 1), end=end, size=size), memory).memory
    assert memory.bytes_per_message[0] == pytest.approx(20.0, rel=0.01)


def test_a_gap_without_leader_is_measured_over_its_whole_length() -> None:
    memory = measure_interval(reading(), None).memory
    memory = measure_interval(reading(10.0, end=-1, size=1200), memory).memory
    interval = measure_interval(reading(20.0, end=160, size=1500), memory)
    assert interval.dt_seconds.tolist() == [20.0]
    assert interval.messages.tolist() == [60]
    assert interval.in_method.tolist() == [Method.BYTES_PER_MESSAGE]


def test_new_topic_sorted_before_another_does_not_break_its_series() -> None:
    interval = after(reading(), reading(10.0, end=150, size=1600, extra_topic=True))
    assert interval.messages.tolist() == [-1, 50]
    assert interval.in_bytes[1] == 600.0
    assert flags_of_leaders(interval) == [Flag.FIRST, 0]
    assert interval.size_delta_known.tolist() == [False, True, True]
    back = measure_interval(reading(20.0, end=170, size=1800), interval.memory)
    assert back.messages.tolist() == [20]
    assert back.in_bytes.tolist() == [200.0]


@pytest.mark.parametrize(
    ("before", "now", "out_bytes", "method"),
    [
        ({"g": 40}, {"g": 60}, 200.0, Method.BYTES_PER_MESSAGE),
        ({"g": 40, "h": 0}, {"g": 60, "h": 5}, 250.0, Method.BYTES_PER_MESSAGE),
        ({"g": 40}, {"g": 30}, None, Method.NONE),
        ({"g": 40, "h": 0}, {"g": 30, "h": 5}, 50.0, Method.BYTES_PER_MESSAGE),
        ({}, {"g": 30}, None, Method.NONE),
        ({}, {}, 0.0, Method.NONE),
    ],
)
def test_bytes_out_come_from_the_commits_of_groups(
    before: dict[str, int], now: dict[str, int], out_bytes: float | None, method: Method
) -> None:
    interval = after(reading(committed=before), reading(10.0, committed=now))
    assert interval.out_method.tolist() == [method]
    if out_bytes is None:
        assert np.isnan(interval.out_bytes).all()
    else:
        assert interval.out_bytes.tolist() == [out_bytes]


def test_offsets_set_forward_are_flagged_and_not_counted_as_bytes_out() -> None:
    alone = frozenset({"g"})
    first = reading(committed={"g": 10, "h": 90}, unattended=alone)
    interval = after(first, reading(10.0, end=120, committed={"g": 120, "h": 95}, unattended=alone))
    assert flags_of_leaders(interval) == [Flag.GROUP_JUMPED]
    assert interval.out_bytes.tolist() == [50.0]
    again = measure_interval(
        reading(20.0, end=140, committed={"g": 140}, unattended=alone), interval.memory
    )
    assert flags_of_leaders(again) == [0]
    assert again.out_bytes.tolist() == [200.0]
    only = after(
        reading(committed={"g": 10}), reading(10.0, committed={"g": 100}, unattended=alone)
    )
    assert np.isnan(only.out_bytes).all()


def test_fast_reads_of_a_group_with_members_are_not_flagged_as_a_jump() -> None:
    interval = after(reading(committed={"g": 10}), reading(10.0, committed={"g": 100}))
    assert flags_of_leaders(interval) == [0]
    assert interval.out_bytes.tolist() == [900.0]


def test_group_without_members_that_commits_rarely_is_not_flagged_as_a_jump() -> None:
    alone = frozenset({"g"})
    memory = measure_interval(reading(committed={"g": 100}, unattended=alone), None).memory
    for poll in range(1, 7):
        committed = 160 if poll == 6 else 100
        interval = measure_interval(
            reading(10.0 * poll, end=100 + 10 * poll, committed={"g": committed}, unattended=alone),
            memory,
        )
        memory = interval.memory
        assert flags_of_leaders(interval) == [0]
    assert interval.out_bytes.tolist() == [600.0]


def test_groups_that_cannot_be_listed_leave_bytes_out_unknown() -> None:
    interval = after(reading(committed={"g": 40}), reading(10.0, listed=False))
    assert np.isnan(interval.out_bytes).all()
    again = measure_interval(reading(20.0, committed={"g": 60}), interval.memory)
    # What was read in twenty seconds must not be taken for what was read in ten.
    assert again.out_bytes.tolist() == [100.0]
    at_last = measure_interval(reading(30.0, committed={"g": 70}), again.memory)
    assert at_last.out_bytes.tolist() == [100.0]


@pytest.mark.parametrize(
    "away", [{"untold": frozenset({"g"})}, {"listed": False}], ids=["its commits", "the group"]
)
def test_group_missing_from_answers_reads_unknown_amounts_until_reported(away: Any) -> None:
    first = measure_interval(reading(committed={"g": 40, "h": 0}), None)
    second = measure_interval(reading(10.0, committed={"h": 5}, **away), first.memory)
    third = measure_interval(reading(20.0, committed={"h": 10}, **away), second.memory)
    assert np.isnan([*second.out_bytes, *third.out_bytes]).all()
    back = measure_interval(reading(30.0, committed={"g": 100, "h": 15}), third.memory)
    # 60 messages in 30 s, and those of h, which was told of all the time.
    assert back.out_bytes.tolist() == [200.0 + 50.0]


def test_group_without_members_is_remembered_as_such_while_unlisted() -> None:
    alone = frozenset({"g"})
    first = measure_interval(reading(committed={"g": 100}, unattended=alone), None)
    second = measure_interval(reading(10.0, end=110, listed=False), first.memory)
    back = measure_interval(reading(20.0, end=500, committed={"g": 500}), second.memory)
    assert flags_of_leaders(back) == [0]
    set_forward = measure_interval(reading(20.0, end=120, committed={"g": 480}), second.memory)
    assert flags_of_leaders(set_forward) == [Flag.GROUP_JUMPED]


def test_group_missing_from_a_complete_list_reads_zero_bytes() -> None:
    assert after(reading(committed={"g": 40}), reading(10.0)).out_bytes.tolist() == [0.0]


def test_bytes_out_are_unknown_until_every_broker_has_listed_its_groups() -> None:
    first = reading(committed={"g": 40}, listed=False)
    second = measure_interval(
        reading(10.0, committed={"g": 60}, listed=False), measure_interval(first, None).memory
    )
    assert np.isnan(second.out_bytes).all()
    third = measure_interval(reading(20.0, committed={"g": 80}), second.memory)
    assert third.out_bytes.tolist() == [200.0]


@pytest.mark.parametrize("theirs", [{"untold": frozenset({"theirs"})}, {"hidden": True}])
@pytest.mark.parametrize(("now", "read"), [({}, np.nan), ({"g": 40}, np.nan), ({"g": 60}, 200.0)])
def test_zero_bytes_out_count_as_unknown_where_some_commits_are_not_visible(
    now: dict[str, int], read: float, theirs: Any
) -> None:
    first = reading(committed={"g": 40} if now else {}, **theirs)
    interval = after(first, reading(10.0, committed=now, **theirs))
    assert interval.out_bytes.tolist() == [pytest.approx(read, nan_ok=True)]


def test_gap_without_leader_counts_bytes_out_over_its_whole_length() -> None:
    memory = measure_interval(reading(committed={"g": 40}), None).memory
    gap = measure_interval(reading(10.0, end=-1, committed={"g": 60}), memory)
    interval = measure_interval(reading(20.0, end=160, committed={"g": 70}), gap.memory)
    assert interval.dt_seconds.tolist() == [20.0]
    assert interval.out_bytes.tolist() == [300.0]


def test_growth_never_mixes_the_time_of_two_intervals_with_the_bytes_of_one() -> None:
    memory = measure_interval(reading(), None).memory
    memory = measure_interval(reading(10.0, end=-1, size=1200), memory).memory
    interval = measure_interval(reading(20.0, end=160, size=1500), memory)
    assert interval.size_delta_known.tolist() == [False, True]


def test_sizes_from_another_time_than_offsets_give_neither_bytes_nor_growth() -> None:
    first = measure_interval(reading(), None)
    late = measure_interval(reading(10.0, end=150, size=2000, sized=20.0), first.memory)
    after_it = measure_interval(reading(30.0, end=250, size=2500), late.memory)
    for interval, messages, dt in ((late, 50, 10.0), (after_it, 100, 20.0)):
        assert interval.dt_seconds.tolist() == [dt]
        assert interval.messages.tolist() == [messages]
        assert interval.in_bytes.tolist() == [messages * 10.0]
        assert interval.in_method.tolist() == [Method.BYTES_PER_MESSAGE]
        assert interval.size_delta_known.tolist() == [False, True]
    assert after_it.memory.bytes_per_message.tolist() == [10.0]
    clean = measure_interval(reading(40.0, end=300, size=3000), after_it.memory)
    assert clean.in_method.tolist() == [Method.CLEAN_SIZE]


def test_bytes_out_are_rated_by_the_time_between_readings_of_the_commits() -> None:
    late = after(reading(committed={"g": 40}), reading(10.0, committed={"g": 100}, committed_at=30))
    assert late.out_bytes.tolist() == [200.0]
    at_once = measure_interval(reading(31.0, committed={"g": 101}), late.memory)
    assert np.isnan(at_once.out_bytes).all()  # in a second there may be all commits of ten, or none
    at_last = measure_interval(reading(40.0, committed={"g": 120}), at_once.memory)
    assert at_last.out_bytes.tolist() == [180.0]


def test_commits_read_long_after_end_offsets_are_not_flagged_as_set_forward() -> None:
    alone = frozenset({"g"})
    first = reading(end=100, committed={"g": 100}, unattended=alone)
    late = reading(10.0, end=110, committed={"g": 130}, committed_at=30.0, unattended=alone)
    assert flags_of_leaders(after(first, late)) == [0]


def test_messages_whose_bytes_were_measured_a_poll_earlier_still_count_bytes() -> None:
    # They came between asking for offsets and asking for sizes.
    early = after(reading(), reading(10.0, size=1500))
    interval = measure_interval(reading(20.0, end=150, size=1500), early.memory)
    assert interval.in_bytes.tolist() == [500.0]
    assert interval.in_method.tolist() == [Method.BYTES_PER_MESSAGE]


@given(st.lists(st.integers(min_value=-5, max_value=50), min_size=1, max_size=30))
def test_messages_add_up_to_the_forward_growth_of_the_end_offset(steps: list[int]) -> None:
    memory, end, forward, counted = measure_interval(reading(end=1000), None).memory, 1000, 0, 0
    for i, step in enumerate(steps):
        end += step
        forward += max(0, step)
        interval = measure_interval(reading(10.0 * (i + 1), end=end), memory)
        counted += max(0, int(interval.messages[0]))
        memory = interval.memory
        assert (interval.messages[0] < 0) == (step < 0)
    assert counted == forward
