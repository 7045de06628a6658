"""Groups that are followed: which look rates are told from, and what is kept of the others."""

from __future__ import annotations

from clusters import tp

from core.cluster.groups import Group
from core.watch.groups.lag import MIN_RATE_SECONDS, RATE_SECONDS, GroupSample, GroupSamples, Rates


def looked(at: float, committed: int | None) -> GroupSample:
    """Look at a group that reads t-0; produced are 10 a second."""
    groups = () if committed is None else (Group("g", "stable", "", 1, (), {tp("t-0"): committed}),)
    return GroupSample(at, groups, {tp("t-0"): 1000 + int(at * 10)})


def followed(*looks: GroupSample) -> GroupSamples:
    found = GroupSamples(looks[0])
    for look in looks[1:]:
        found = found.then(look)
    return found


def test_one_look_and_looks_close_together_tell_no_rate() -> None:
    assert followed(looked(0, 0)).views[0].rates is None
    soon = followed(*(looked(at, 0) for at in (0, 1, 2, MIN_RATE_SECONDS - 1)))
    assert (soon.views[0].rates, soon.over_seconds) == (None, None)


def test_commits_every_five_seconds_tell_a_steady_rate() -> None:
    # 20 a second are read, and committed each 5 s: from one look to the next it is 0 or 100.
    looks = [looked(at, at // 5 * 100) for at in range(61)]
    found = followed(*looks)
    assert found.over_seconds == RATE_SECONDS
    assert found.views[0].rates == Rates(20.0, 10.0)


def test_few_looks_are_kept_however_long_it_goes_on() -> None:
    found = followed(*(looked(at, 0) for at in range(200)))
    assert len(found.earlier) <= RATE_SECONDS / MIN_RATE_SECONDS + 1


def test_looks_that_are_far_apart_tell_a_rate_between_the_last_two() -> None:
    found = followed(looked(0, 0), looked(100, 1000), looked(200, 3000))
    assert (found.over_seconds, found.views[0].rates) == (100.0, Rates(20.0, 10.0))


def test_a_group_that_vanished_is_gone_and_one_that_comes_has_no_rate_yet() -> None:
    gone = followed(looked(0, 0), looked(10, None))
    assert gone.views == ()
    assert gone.then(looked(11, 100)).views[0].rates == Rates(100 / 11, 10.0)
    assert followed(looked(0, None), looked(10, 100)).views[0].rates is None
