"""Each rule of the autopilot: when it holds it is said, and nothing is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from auto_help import EAGER, acted, hot, lasted, loaded, look, steady
from clusters import MB, NOON, cluster, tp

from core.auto.decide import decide
from core.auto.decision import Act, Decision, Off, Wait
from core.auto.history import History
from core.auto.hours import Hours
from core.auto.observed import Observed
from core.auto.reckoning import reckoned
from core.auto.settings import Mode, Settings
from core.cluster.state import ClusterState, Reassignment, Topic
from core.load.snapshot import Source


def ago(**how_long: float) -> datetime:
    return NOON - timedelta(**how_long)


def decided(
    observed: Observed, settings: Settings = EAGER, history: History | None = None
) -> Decision:
    """Decide on what has lasted, with what was done before it."""
    before = history or History()
    remembered = replace(lasted(settings, observed), acts=before.acts, failed_at=before.failed_at)
    return decide(settings, remembered, observed)


def ids(decision: Decision) -> list[str]:
    return [reason.id for reason in decision.reasons]


def test_a_hot_broker_gives_half_of_what_it_holds() -> None:
    found = decided(look(hot()))
    assert isinstance(found, Act)
    assert (found.copies, found.bytes) == (4, 4 * MB)
    assert found.why.text == (
        "Broker 1 is at 0% of its fair share of disk: 4 partitions moved, 4.0 MB to copy, and "
        "then broker 1 is at 100% of its fair share of disk."
    )


def test_leaders_are_chosen_anew_where_that_is_enough() -> None:
    state = cluster({f"t-{n}": [2, 1] for n in range(8)}, brokers=(1, 2), size_bytes=MB)
    found = decided(look(steady(state)))
    assert isinstance(found, Act)
    assert (found.copies, found.bytes, found.leaders) == (0, 0, 4)
    assert "led by another of its replicas, nothing to copy" in found.why.text


def test_off_decides_nothing() -> None:
    assert decided(look(hot()), replace(EAGER, mode=Mode.OFF)) == Off()


def test_suggest_decides_as_act_does() -> None:
    assert decided(look(hot()), replace(EAGER, mode=Mode.SUGGEST)) == decided(look(hot()))


def bent(**changes: object) -> Callable[[Observed], Observed]:
    return lambda observed: replace(observed, **changes)  # type: ignore[arg-type]


def of(state_changes: dict[str, object]) -> Callable[[Observed], Observed]:
    def bend(observed: Observed) -> Observed:
        return replace(observed, state=replace(observed.state, **state_changes))  # type: ignore[arg-type]

    return bend


@pytest.mark.parametrize(
    ("rule", "bend", "says"),
    [
        ("broker-down", lambda o: replace(o, state=dead_beside(o)), "a broker is down: 3"),
        ("controller", of({"controller": None}), "has no controller"),
        ("run", bent(running=("1122-081500",)), "Run 1122-081500 is in progress"),
        ("dead-run", bent(died=("1122-081500",)), "trimtab runs attach 1122-081500"),
        ("journal", bent(unread=("x.run is damaged.",)), "cannot be read: x.run is damaged."),
        (
            "foreign-move",
            bent(reassignments={tp("t-0"): Reassignment((1, 2), (1,), (2,))}),
            "while somebody else moves t-0",
        ),
        ("no-load", bent(sight=None, imbalance=None), "No load is known yet"),
        ("stale-load", bent(now=NOON + timedelta(seconds=301)), "The load is 5 m 01 s old"),
        ("stale-load", bent(now=NOON - timedelta(minutes=1)), "a clock has been set"),
        (
            "poor-load",
            lambda o: replace(o, sight=replace(o.sight, good=0.94)),
            "6% of the partitions",
        ),
    ],
)
def test_what_is_not_safe_is_not_done(
    rule: str, bend: Callable[[Observed], Observed], says: str
) -> None:
    observed = look(hot())
    found = decide(EAGER, lasted(EAGER, observed), bend(observed))
    assert isinstance(found, Wait)
    assert found.reasons[0].id == rule
    assert says in found.reasons[0].text


def dead_beside(observed: Observed):  # type: ignore[no-untyped-def]
    state = cluster({f"t-{n}": [2] for n in range(8)}, brokers=(1, 2, 3), dead=(3,), size_bytes=MB)
    return steady(state)


def test_of_its_own_run_that_died_it_says_how_to_bring_it_back() -> None:
    own = acted(ago(minutes=5))
    observed = replace(look(hot()), died=(own.run,))
    decision = decide(EAGER, History(acts=(own,)), observed)
    assert [reason.id for reason in decision.reasons] == ["dead-run"]


def test_a_broker_that_only_assignments_name_is_down() -> None:
    state = cluster({"t-0": [2], "t-1": [2, 7]}, brokers=(1, 2), size_bytes=MB)
    assert ids(decided(look(steady(state))))[0] == "broker-down"


def test_nothing_is_done_while_replicas_are_out_of_sync() -> None:
    held = {f"t-{n}": [2, 1] for n in range(8)}
    state = cluster(held, brokers=(1, 2), isr={"t-3": [2]}, size_bytes=MB)
    found = decided(look(steady(state)))
    assert ids(found) == ["out-of-sync"]
    assert found.reasons[0].text == "Not while replicas are out of sync: 1 partition."


def test_nothing_is_done_while_a_partition_has_no_leader() -> None:
    state = cluster({"t-0": [2], "t-1": [2]}, brokers=(1, 2), leaders={"t-1": -1}, size_bytes=MB)
    assert "no-leader" in ids(decided(look(steady(state))))


def test_a_move_that_only_the_metadata_shows_is_somebody_elses() -> None:
    state = cluster(
        {"t-0": [2, 1], "t-1": [2]}, adding={"t-0": [1]}, isr={"t-0": [2]}, size_bytes=MB
    )
    assert ids(decided(look(steady(state)))) == ["foreign-move"]


def test_cruise_control_keeps_it_away() -> None:
    state = cluster(
        {"t-0": [2], "t-1": [2]},
        brokers=(1, 2),
        topics=[Topic("__CruiseControlMetrics")],
        size_bytes=MB,
    )
    assert ids(decided(look(steady(state)))) == ["cruise-control"]


def test_a_controller_that_has_just_changed_is_given_a_minute() -> None:
    before = look(hot(), now=ago(minutes=3))
    history = lasted(EAGER, before)
    after = look(replace(hot(), controller=2))
    history = history.seeing(EAGER, after)
    assert ids(decide(EAGER, history, after)) == ["controller"]
    minute = look(replace(hot(), controller=2), now=NOON + timedelta(minutes=1))
    found = decide(EAGER, lasted(EAGER, minute, history, seconds=50), minute)
    assert isinstance(found, Act)


def test_the_first_controller_after_none_is_a_new_one() -> None:
    without = look(replace(hot(), controller=None), now=ago(seconds=30))
    history = History().seeing(EAGER, without)
    history = lasted(EAGER, look(hot()), history, seconds=30)
    assert ids(decide(EAGER, history, look(hot()))) == ["controller"]
    later = look(hot(), now=NOON + timedelta(minutes=1))
    found = decide(EAGER, lasted(EAGER, later, history, seconds=50), later)
    assert isinstance(found, Act)


def test_the_controller_that_is_found_at_first_has_not_changed() -> None:
    assert isinstance(decided(look(hot())), Act)


@pytest.mark.parametrize(("looks", "rule"), [(1, "poor-load"), (2, "poor-load"), (3, "act")])
def test_the_collectors_own_intervals_are_enough_when_there_are_three(
    looks: int, rule: str
) -> None:
    state = hot()
    observed = look(state, load=loaded(state, source=Source.LIVE), looks=looks)
    found = decided(observed)
    assert ids(found) == [rule]
    if rule == "act":
        assert "(by 3 of the collector's intervals)" in found.reasons[0].text


# -- the band, and how long ------------------------------------------------------------------------


def uneven(more: int) -> Observed:
    """Return two brokers of which one has `more` partitions of 50 than its half."""
    held = {f"t-{n}": [2 if n < 25 + more else 1] for n in range(50)}
    return look(steady(cluster(held, brokers=(1, 2), size_bytes=MB)))


@pytest.mark.parametrize(
    ("more", "moved"),
    [
        (0, None),
        (5, None),  # 120 %: on the edge of where it starts
        (8, 6),  # 132 %, and back to 108 %: it aims further in than it starts
    ],
)
def test_it_starts_outside_the_band_and_aims_inside_it(more: int, moved: int | None) -> None:
    found = decided(uneven(more))
    if moved is None:
        assert ids(found) == ["balanced"]
    else:
        assert isinstance(found, Act)
        assert found.copies == moved


def test_an_imbalance_has_to_last() -> None:
    observed, history = look(hot()), History()
    history = history.seeing(EAGER, observed)
    assert ids(decide(EAGER, history, observed)) == ["not-lasting"]
    # The same snapshot again is no other look.
    history = history.seeing(EAGER, observed)
    assert not history.long_enough(replace(EAGER, lasting_seconds=0, lasting_looks=2), observed)
    for seconds, rule in ((15, "not-lasting"), (29, "not-lasting"), (44, "act")):
        later = look(hot(), now=NOON + timedelta(seconds=seconds))
        history = history.seeing(EAGER, later)
        assert ids(decide(EAGER, history, later)) == [rule]


def test_that_something_else_lasted_is_no_reason_to_act() -> None:
    """By the same snapshot others may be outside, as leaders or sizes change."""
    before = look(hot())
    history = lasted(EAGER, before)
    assert before.imbalance is not None
    assert history.long_enough(EAGER, before)
    held = {f"t-{n}": [1 + n % 2] for n in range(8)}
    after = look(steady(cluster(held, brokers=(1, 2, 3, 4), size_bytes=MB)))
    assert after.imbalance is not None
    new = frozenset(place for place in after.imbalance.outside if place[0] > 2)
    after = replace(after, imbalance=replace(after.imbalance, outside=new))
    assert ids(decide(EAGER, history.seeing(EAGER, after), after)) == ["not-lasting"]


def test_what_comes_and_goes_does_not_last() -> None:
    history = History()
    for seconds in range(0, 120, 20):
        state = (
            hot()
            if seconds % 40
            else steady(cluster({f"t-{n}": [1 + n % 2] for n in range(8)}, size_bytes=MB))
        )
        observed = look(state, now=NOON + timedelta(seconds=seconds))
        history = history.seeing(EAGER, observed)
        assert isinstance(decide(EAGER, history, observed), Wait)


def test_load_with_a_gap_in_it_begins_anew() -> None:
    observed = look(hot())
    history = lasted(EAGER, look(hot(), now=ago(minutes=10))).seeing(EAGER, observed)
    assert ids(decide(EAGER, history, observed)) == ["not-lasting"]


def test_topics_that_are_not_there_are_named() -> None:
    settings = replace(EAGER, topics="orders")
    (why,) = decided(look(hot(), settings), settings).reasons
    assert why.id == "nothing-helps"
    assert why.text.startswith("No topic matches orders. Expressions must match")


# -- hours -----------------------------------------------------------------------------------------


def at_noon_here() -> str:
    """Return hours that hold at the tests' noon by this machine's clock."""
    here = NOON.astimezone()
    return f"{here:%H:%M}-{(here + timedelta(hours=1)):%H:%M}"


def after_noon_here() -> str:
    here = NOON.astimezone()
    return f"{(here + timedelta(hours=1)):%H:%M}-{(here + timedelta(hours=2)):%H:%M}"


@pytest.mark.parametrize(
    ("option", "hours", "rule"),
    [
        ("avoid", at_noon_here(), "busy-hours"),
        ("avoid", after_noon_here(), "act"),
        ("only", at_noon_here(), "act"),
        ("only", after_noon_here(), "no-window"),
    ],
)
def test_hours_are_kept(option: str, hours: str, rule: str) -> None:
    settings = replace(EAGER, **{option: Hours.parse(hours, "--x")})  # type: ignore[arg-type]
    assert ids(decided(look(hot(), settings), settings)) == [rule]


def until(seconds: float, option: str) -> Settings:
    """Return settings by which nothing is begun from so long after the tests' noon on."""
    here = NOON.astimezone()
    end = here + timedelta(seconds=seconds)
    begin, last = (end, here) if option == "avoid" else (here, end)
    hours = Hours.parse(f"{begin:%H:%M}-{last:%H:%M}", f"--{option}")
    return replace(EAGER, **{option: hours})  # type: ignore[arg-type]


def reckoned_seconds(settings: Settings, found: Act) -> float:
    within = reckoned(settings, look(large(), settings), found.plan)[1].range_seconds
    assert within is not None
    return within[1]


def large(each: int = 4_000 * MB) -> ClusterState:
    held = {f"t-{n}": [2] for n in range(20)}
    return steady(cluster(held, brokers=(1, 2), size_bytes=each))


def test_a_run_goes_as_fast_as_hours_want_and_moves_as_much_as_there_is_time_for() -> None:
    whole = decided(look(large()))
    assert isinstance(whole, Act)
    assert reckoned_seconds(EAGER, whole) > 6 * 60
    short = until(5 * 60, "avoid")
    assert decided(look(large(), short), short) == whole
    assert 4 * 60 < reckoned_seconds(short, whole) <= 5 * 60
    shorter = until(2 * 60, "only")
    part = decided(look(large(), shorter), shorter)
    assert isinstance(part, Act)
    assert 60 < reckoned_seconds(shorter, part) <= 2 * 60
    assert 0 < part.bytes < whole.bytes / 2


@pytest.mark.parametrize(
    ("option", "says"), [("avoid", "busy hours ("), ("only", "the maintenance window (")]
)
def test_what_takes_too_long_is_not_begun(option: str, says: str) -> None:
    settings = until(60, option)
    (why,) = decided(look(large(20_000 * MB), settings), settings).reasons
    assert (why.id, says in why.text, why.text.endswith(" in 60 s.")) == ("too-long", True, True)


# -- what was done before --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "rule"),
    [
        (History(acts=(acted(ago(minutes=5)),)), "run"),
        (History(acts=(acted(ago(minutes=5), ended_at=ago(seconds=59)),)), "cool-down"),
        (History(acts=(acted(ago(minutes=5), ended_at=ago(seconds=60)),)), "act"),
        (History(failed_at=ago(seconds=30)), "cool-down"),
        (History(acts=(acted(ago(hours=1), bytes=99e9, ended_at=ago(minutes=50)),)), "act"),
        (History(acts=(acted(ago(hours=1), bytes=100e9, ended_at=ago(minutes=50)),)), "budget"),
        (History(acts=(acted(ago(hours=3), bytes=100e9, ended_at=ago(minutes=59)),)), "budget"),
        (History(acts=(acted(ago(hours=3), bytes=100e9, ended_at=ago(minutes=60)),)), "act"),
    ],
)
def test_what_was_done_before_counts(history: History, rule: str) -> None:
    assert ids(decided(look(hot()), history=history)) == [rule]


@pytest.mark.parametrize(
    "remembered",
    [
        History(acts=(acted(ago(days=-200), bytes=100e9, ended_at=ago(days=-200)),)),
        History(failed_at=ago(days=-200)),
        History(controller=1, controller_since=ago(days=-200)),
    ],
)
def test_what_a_clock_stamped_that_was_ahead_is_waited_for_once(remembered: History) -> None:
    remembered = remembered.seeing(EAGER, look(hot()))
    assert decide(EAGER, remembered, look(hot())).reasons
    later = look(hot(), now=NOON + timedelta(hours=1, minutes=1))
    found = decide(EAGER, lasted(EAGER, later, remembered), later)
    assert isinstance(found, Act)


def test_somebody_elses_run_is_cooled_down_after_too() -> None:
    assert ids(decided(look(hot(), run_ended_at=ago(seconds=30)))) == ["cool-down"]


def test_the_rest_of_an_hours_budget_bounds_the_plan() -> None:
    before = acted(ago(minutes=50), bytes=100e9 - 2 * MB, ended_at=ago(minutes=40))
    found = decided(look(hot()), history=History(acts=(before,)))
    assert isinstance(found, Act)
    assert found.bytes == 2 * MB


@pytest.mark.parametrize("most", [1, 3])
def test_leader_changes_are_moves_too(most: int) -> None:
    state = cluster({f"t-{n}": [2, 1] for n in range(40)}, brokers=(1, 2), size_bytes=MB)
    settings = replace(EAGER, most_moves_per_hour=most)
    found = decided(look(steady(state), settings), settings)
    assert isinstance(found, Act)
    assert len(found.plan) == most


def test_a_partition_that_was_moved_rests_for_a_day() -> None:
    moved = [tp(f"t-{n}") for n in range(7)]
    yesterday = History(acts=(acted(ago(hours=25), moved, ended_at=ago(hours=23)),))
    found = decided(look(hot()), history=yesterday)
    assert isinstance(found, Act)
    assert [move.tp for move in found.plan] == [tp("t-7")]
    before = History(acts=(acted(ago(hours=26), moved, ended_at=ago(hours=24)),))
    free = decided(look(hot()), history=before)
    assert isinstance(free, Act)
    assert free.copies == 4


def test_a_partition_of_unknown_size_is_not_moved() -> None:
    state = cluster(
        {f"t-{n}": [2] for n in range(8)}, brokers=(1, 2), size_bytes={"t-0": MB, "t-1": MB}
    )
    found = decided(look(steady(state)))
    assert isinstance(found, Act)
    assert {move.tp for move in found.plan} <= {tp("t-0"), tp("t-1")}


# -- whether a plan is worth it --------------------------------------------------------------------


def test_what_costs_more_than_it_helps_is_left() -> None:
    settings = replace(EAGER, least_benefit=1000.0)
    found = decided(look(hot(), settings), settings)
    assert ids(found) == ["little-benefit"]


def test_where_nothing_helps_that_is_said() -> None:
    settings = replace(EAGER, keep="t")
    state = cluster({"t-0": [2], "t-1": [2], "u-0": [2]}, brokers=(1, 2), size_bytes=MB)
    alone = replace(settings, keep="t|u")
    assert ids(decided(look(steady(state), alone), alone)) == ["nothing-helps"]
    found = decided(look(steady(state), settings), settings)
    assert isinstance(found, Act)
    assert [move.tp for move in found.plan] == [tp("u-0")]


@pytest.mark.parametrize(("most", "found"), [(5, "act"), (MB, "refused")])
def test_a_plan_that_a_check_speaks_against_is_not_carried_out(most: int, found: str) -> None:
    disk = (100 * MB, 50 * MB)
    held = {f"t-{n}": [2] for n in range(8)}
    state = cluster(held, brokers=(1, 2), size_bytes=MB, disk_bytes=disk)
    # What is produced while it moves would fill the disk of who receives.
    observed = look(steady(state), load=loaded(state, float(most)))
    assert ids(decided(observed)) == [found]


def test_hours_are_by_the_zone_of_this_machine() -> None:
    hours = Hours.parse("mon-fri 09:00-18:00", "--avoid")
    tokyo = ZoneInfo("Asia/Tokyo")
    assert hours.holds(datetime(2026, 1, 5, 17, 59, tzinfo=tokyo))
    assert not hours.holds(datetime(2026, 1, 5, 18, 0, tzinfo=tokyo))
