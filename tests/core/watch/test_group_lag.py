"""Groups as one looks at them: lags, and rates between two looks."""

from __future__ import annotations

from typing import Any

import pytest
from clusters import tp
from run_help import Faulty, cluster

from core.cluster.groups import Group, Member
from core.cluster.simulation.spec import GroupSpec
from core.errors import AccessDeniedError
from core.watch.groups.lag import (
    MIN_RATE_SECONDS,
    RATE_SECONDS,
    GroupSample,
    GroupSamples,
    Pace,
    Rates,
    build_views,
    fetch_group_sample,
)


def member(id: str, *read: str) -> Member:
    return Member(id, id, "/h", tuple(tp(name) for name in read))


def group(committed: dict[str, int], *members: Member, id: str = "g") -> Group:
    offsets = {tp(name): offset for name, offset in committed.items()}
    return Group(id, "stable", "range", 1, members, offsets)


def looked(at: float, ends: dict[str, int], *groups: Group) -> GroupSample:
    return GroupSample(at, groups, {tp(name): end for name, end in ends.items()})


def test_group_lag_is_a_lower_bound_where_a_partition_lag_is_unknown() -> None:
    readers = (member("a", "t-0", "t-1"), member("b"))
    now = looked(0, {"t-0": 100, "t-1": 50, "t-2": 5}, group({"t-0": 90, "t-2": 7}, *readers))
    (view,) = build_views(now)
    lags = {str(p.tp): (p.member, p.lag) for p in view.partitions}
    assert lags == {"t-0": ("a", 10), "t-1": ("a", None), "t-2": (None, 0)}
    assert (view.lag, view.idle, view.rates, view.catch_up_seconds) == (10, ("b",), None, None)
    assert [str(p.tp) for p in view.unattended] == ["t-2"]
    assert view.is_lower_bound


@pytest.mark.parametrize(
    ("ends", "committed", "least", "pace"),
    [
        ({"t-0": 9, "t-1": 5}, {"t-0": 9, "t-1": 5}, False, Pace.NO_LAG),
        ({"t-0": 9}, {"t-0": 9, "t-1": 5}, True, Pace.UNKNOWN),
        ({"t-0": 9, "t-1": 5}, {"t-0": 9}, True, Pace.UNKNOWN),
        ({"t-0": 9, "t-1": 0}, {"t-0": 9}, False, Pace.NO_LAG),
    ],
)
def test_group_with_an_unknown_end_or_committed_offset_has_not_caught_up(
    ends: dict[str, int], committed: dict[str, int], least: bool, pace: Pace
) -> None:
    (view,) = build_views(looked(0, ends, group(committed, member("a", "t-0", "t-1"))))
    assert (view.is_lower_bound, view.pace) == (least, pace)


def test_two_samples_yield_rates_and_the_time_for_a_group_to_catch_up() -> None:
    before = looked(0, {"t-0": 1000, "t-1": 500}, group({"t-0": 400, "t-1": 500}))
    now = looked(10, {"t-0": 1100, "t-1": 500}, group({"t-0": 700, "t-1": 500}))
    (view,) = build_views(now, before)
    first_partition, two = view.partitions
    assert first_partition.rates == Rates(30.0, 10.0)
    assert (first_partition.lag, view.catch_up_seconds) == (400, 20.0)
    assert two.rates == Rates(0.0, 0.0)
    assert two.rates.catch_up_seconds(0) == 0.0


@pytest.mark.parametrize(
    ("committed", "end", "seconds"),
    [
        (400, 1100, None),  # nothing is read
        (500, 1100, None),  # as much is produced
        (300, 1100, "no rate"),  # reset
        (700, 900, "no rate"),  # the topic was made anew
    ],
)
def test_lag_that_does_not_shrink_has_no_catch_up_time(
    committed: int, end: int, seconds: object
) -> None:
    before = looked(0, {"t-0": 1000}, group({"t-0": 400}))
    now = looked(10, {"t-0": end}, group({"t-0": committed}))
    (view,) = build_views(now, before)
    if seconds == "no rate":
        assert view.rates is None
    else:
        assert view.rates is not None
        assert view.catch_up_seconds is None


@pytest.mark.parametrize(
    ("committed", "ends", "seconds", "never"),
    [
        ({"t-0": 1000, "t-1": 1600}, {"t-0": 2000, "t-1": 2600}, None, ["t-0"]),
        ({"t-0": 1200, "t-1": 2600}, {"t-0": 2000, "t-1": 2600}, 80.0, []),
        ({"t-0": 1900, "t-1": 2600}, {"t-0": 1901, "t-1": 2600}, 0.0, []),
    ],
)
def test_catch_up_time_of_a_group_is_that_of_its_slowest_partition(
    committed: dict[str, int], ends: dict[str, int], seconds: float | None, never: list[str]
) -> None:
    """A record that cannot be read stops one partition; what others gain does not make it good."""
    before = looked(0, {"t-0": 1900, "t-1": 2500}, group({"t-0": 1000, "t-1": 1000}))
    (view,) = build_views(looked(10, ends, group(committed)), before)
    assert (view.catch_up_seconds, [str(p.tp) for p in view.never]) == (seconds, never)


@pytest.mark.parametrize(
    ("before", "now", "pace"),
    [
        pytest.param(
            looked(0, {"t-0": 10, "t-1": 500}, group({"t-0": 10, "t-1": 400})),
            looked(10, {"t-0": 11, "t-1": 600}, group({"t-0": 10, "t-1": 590})),
            (Pace.KEEPS_UP, [Pace.FALLS_BEHIND, Pace.KEEPS_UP]),
            id="a message that is not committed yet stops no group",
        ),
        pytest.param(
            looked(0, {"t-0": 1000, "t-1": 1000}, group({"t-0": 900, "t-1": 500})),
            looked(10, {"t-0": 1000, "t-1": 1000}, group({"t-0": 0, "t-1": 700})),
            (Pace.UNKNOWN, [Pace.UNKNOWN, Pace.CATCHES_UP]),
            id="a partition that was reset leaves the time unknown",
        ),
        pytest.param(
            looked(0, {"t-0": 1000}, group({"t-0": 900, "t-1": 500})),
            looked(10, {"t-0": 1100}, group({"t-0": 1090, "t-1": 500})),
            (Pace.UNKNOWN, [Pace.KEEPS_UP, Pace.UNKNOWN]),
            id="nobody tells the end of one",
        ),
    ],
)
def test_group_pace_is_unknown_if_the_pace_of_any_partition_is_unknown(
    before: GroupSample, now: GroupSample, pace: tuple[Pace, list[Pace]]
) -> None:
    (view,) = build_views(now, before)
    assert (view.pace, [p.pace for p in view.partitions]) == pace
    assert (view.catch_up_seconds is None) is (view.pace is Pace.UNKNOWN)
    assert view.never == ()


def test_groups_appear_and_vanish_between_samples() -> None:
    before = looked(0, {"t-0": 10}, group({"t-0": 5}, id="gone"))
    now = looked(1, {"t-0": 10}, group({"t-0": 5}, id="new"))
    (view,) = build_views(now, before)
    assert (view.group.id, view.lag, view.rates) == ("new", 5, None)


def test_end_offsets_that_may_not_be_fetched_are_unknown() -> None:
    client = cluster({"t": [(1, 2)]}, groups=(GroupSpec("g", ("t",)),))
    through: Any = Faulty(client)

    def denied(*_: Any) -> Any:
        raise AccessDeniedError("The cluster says no.")

    through.replaced["fetch_offsets"] = denied
    seen = fetch_group_sample(through, client.clock)
    assert seen.ends_fault == "The cluster says no."
    (view,) = build_views(seen)
    assert (view.lag, len(view.group.members)) == (None, 1)


# -- rates over several looks ----------------------------------------------------------------------


def committed(at: float, offset: int | None) -> GroupSample:
    """Look at a group that reads t-0; produced are 10 a second."""
    groups = () if offset is None else (group({"t-0": offset}),)
    return GroupSample(at, groups, {tp("t-0"): 1000 + int(at * 10)})


def followed(*polls: GroupSample) -> GroupSamples:
    samples = GroupSamples(polls[0])
    for look in polls[1:]:
        samples = samples.then(look)
    return samples


def test_one_sample_or_samples_close_together_yield_no_rate() -> None:
    assert followed(committed(0, 0)).views[0].rates is None
    soon = followed(*(committed(at, 0) for at in (0, 1, 2, MIN_RATE_SECONDS - 1)))
    assert (soon.views[0].rates, soon.over_seconds) == (None, None)


def test_commits_every_five_seconds_yield_a_steady_rate() -> None:
    # 20 a second are read, and committed each 5 s: from one look to the next it is 0 or 100.
    looks = [committed(at, at // 5 * 100) for at in range(61)]
    samples = followed(*looks)
    assert samples.over_seconds == RATE_SECONDS
    assert samples.views[0].rates == Rates(20.0, 10.0)


def test_few_samples_are_kept_however_long_it_runs() -> None:
    samples = followed(*(committed(at, 0) for at in range(200)))
    assert len(samples.earlier) <= RATE_SECONDS / MIN_RATE_SECONDS + 1


def test_samples_far_from_each_other_yield_a_rate_between_the_last_two() -> None:
    samples = followed(committed(0, 0), committed(100, 1000), committed(200, 3000))
    assert (samples.over_seconds, samples.views[0].rates) == (100.0, Rates(20.0, 10.0))


def test_vanished_group_is_not_listed_and_a_new_group_has_no_rate_yet() -> None:
    gone = followed(committed(0, 0), committed(10, None))
    assert gone.views == ()
    assert gone.then(committed(11, 100)).views[0].rates == Rates(100 / 11, 10.0)
    assert followed(committed(0, None), committed(10, 100)).views[0].rates is None
