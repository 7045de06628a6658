"""Which rates a run wants, and how it comes to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from clusters import MB, NOON, cluster, load_of, tp
from hypothesis import given
from hypothesis import strategies as st

from core.cluster.metadata import Broker
from core.cluster.probe.produce_latency import LatencyWindow
from core.plan.copies import Side
from core.plan.plan import ANY, Move, Plan
from core.run.journal.move_state import MoveRequest, Phase, RunMove
from core.run.journal.produce_latency import LatencyBaseline, SideObservation, before
from core.run.journal.rates import RateBounds, RateControl
from core.run.throttles.adaptive_rate import (
    NEAR_SHARE,
    RateChange,
    holding_up,
    next_rates,
    spare_rates,
    usual_bounds,
)
from core.run.throttles.inflow import FLOOR_BYTES_PER_S, remaining_bytes

SENDS, ALSO_SENDS = (1, Side.LEADER), (2, Side.LEADER)
RECEIVES = (3, Side.FOLLOWER)
BOUNDS = RateBounds(2 * MB, 100 * MB)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def running(rate: int = 20 * MB, **requests: object) -> RateControl:
    """Return a pace whose three sides have had this rate since noon."""
    rate_control = RateControl(rate, **requests)  # type: ignore[arg-type]
    return rate_control.changed([(key, rate) for key in (SENDS, ALSO_SENDS, RECEIVES)], NOON)


def rates(change: RateChange | None) -> dict[tuple[int, Side], float]:
    assert change is not None
    return {key: rate / MB for key, rate in change.rates.items()}


def to_the_end(
    rate_control: RateControl,
    seconds: float,
    observed: Mapping[tuple[int, Side], SideObservation] | None = None,
):
    """Carry changes out for so long, looking five times a second; return what was set when."""
    changes: list[tuple[float, RateChange]] = []
    for tick in range(round(seconds * 5)):
        now = after(100 + tick / 5)
        change = next_rates(rate_control, observed or {}, now)
        if change is not None:
            rate_control = rate_control.changed(change.rates.items(), now)
            changes.append((tick / 5, change))
    return rate_control, changes


# -- what is asked -------------------------------------------------------------------------------


def test_no_rate_changes_while_every_side_has_its_requested_rate():
    assert next_rates(running(), {}, after(60)) is None


def test_lower_rate_applies_at_once_on_every_side():
    slower = running().with_request("throttle", {"rate_bytes_per_s": 5 * MB})

    change = next_rates(slower, {}, after(0.1))

    assert rates(change) == {SENDS: 5, ALSO_SENDS: 5, RECEIVES: 5}
    assert change.why == "slowed down to 5.0 MB/s, as asked"


def test_higher_rate_is_reached_in_shrinking_steps_of_at_most_a_tenth_of_it_a_second():
    faster = running(5 * MB).with_request("throttle", {"rate_bytes_per_s": 20 * MB})

    rate_control, changes = to_the_end(faster, 40)

    steps = [5.0, *(change.rates[SENDS] / MB for _, change in changes)]
    rises = [b - a for a, b in pairwise(steps)]
    assert rises[0] == pytest.approx(1.65, abs=0.01)
    assert rises == sorted(rises, reverse=True)
    assert 12 < len(rises) < 20
    assert all(b - a >= 1 for (a, _), (b, _) in pairwise(changes))
    assert {side.rate_bytes_per_s for side in rate_control.rates.values()} == {20 * MB}


def test_pause_on_the_floor_limits_followers_and_leaves_leader_rates_unchanged():
    paused = running().with_request("pause", {"floor": True})

    change = next_rates(paused, {}, after(1))

    assert change.rates == {RECEIVES: FLOOR_BYTES_PER_S}
    assert next_rates(paused.changed(change.rates.items(), after(1)), {}, after(99)) is None


def test_a_pause_without_the_floor_changes_no_rate():
    assert next_rates(running().with_request("pause", {"floor": False}), {}, after(60)) is None


def test_resumed_rate_climbs_from_the_floor_in_about_twenty_seconds():
    paused = running().with_request("pause", {"floor": True})
    paused = paused.changed([(RECEIVES, FLOOR_BYTES_PER_S)], after(1))

    rate_control, changes = to_the_end(paused.with_request("resume", {}), 30)

    assert [list(change.rates) for _, change in changes] == [[RECEIVES]] * len(changes)
    assert 18 <= len(changes) <= 22
    assert rate_control.rates[RECEIVES].rate_bytes_per_s == 20 * MB


@pytest.mark.parametrize("kind", ["cancel", "retry", "something newer"])
def test_other_requests_change_no_rate(kind):
    assert running().with_request(kind, {"moves": None}) == running()


def test_restored_rates_are_not_changed_any_more():
    slower = (
        running().with_request("throttle", {"rate_bytes_per_s": MB}).given_back([SENDS, RECEIVES])
    )
    assert list(next_rates(slower, {}, after(1)).rates) == [ALSO_SENDS]


@pytest.mark.parametrize("seconds", [-3600, 3600], ids=["a clock set back", "away for an hour"])
def test_rate_ramp_is_unaffected_by_clock_jumps_or_a_long_absence(seconds):
    faster = running(5 * MB).with_request("throttle", {"rate_bytes_per_s": 20 * MB})
    assert rates(next_rates(faster, {}, after(seconds)))[SENDS] == pytest.approx(6.65, abs=0.01)


def test_rate_bounds_survive_json_and_new_bounds_keep_the_known_spare_rates():
    known = replace(BOUNDS, spare_bytes_per_s={SENDS: 7e6})
    for bounds in (BOUNDS, known):
        assert RateBounds.from_json(bounds.to_json()) == bounds
    again = RateControl(1, known).with_request("throttle", {"auto": RateBounds(1, 2).to_json()})
    assert again.bounds == RateBounds(1, 2, known.spare_bytes_per_s)


@given(
    requests=st.lists(
        st.sampled_from(
            [
                ("throttle", {"rate_bytes_per_s": MB}),
                ("throttle", {"rate_bytes_per_s": 30 * MB}),
                ("throttle", {"auto": BOUNDS.to_json()}),
                ("pause", {"floor": True}),
                ("pause", {"floor": False}),
                ("resume", {}),
            ]
        ),
        max_size=5,
    ),
    step=st.floats(0.1, 5),
)
def test_no_rate_rises_by_more_than_a_tenth_of_the_maximum_a_second(requests, step):
    rate_control, now = running(), NOON
    seen = {key: calm(now=0) for key in rate_control.rates}
    for kind, payload in [*requests, ("cancel", {})]:
        rate_control = rate_control.with_request(kind, payload)
        for _ in range(20):
            now += timedelta(seconds=step)
            change = next_rates(rate_control, seen, now)
            if change is None:
                continue
            for key, rate in change.rates.items():
                held = rate_control.rates[key]
                assert rate >= FLOOR_BYTES_PER_S
                if rate > held.rate_bytes_per_s:
                    assert rate - held.rate_bytes_per_s <= 100 * MB / 10
                    assert now - held.changed_at >= timedelta(seconds=1)
            rate_control = rate_control.changed(change.rates.items(), now)


# -- adaptive ------------------------------------------------------------------------------------


def adaptive(rate: int = 20 * MB) -> RateControl:
    """Return an adaptive pace of one side, which has had this rate since noon."""
    return RateControl(rate, BOUNDS).changed([(SENDS, rate)], NOON)


def windows(
    *p99_ms: float, until: float = 60, seconds: float = 4, usual: float | None = None
) -> tuple[LatencyWindow, ...]:
    """Return the probe's windows, the last one ending `until` seconds after noon.

    Their p50 is a third of p99, or a third of `usual`.
    """
    first = until - seconds * len(p99_ms)
    return tuple(
        LatencyWindow(after(first + i * seconds), 100, 0, (usual or p99) / 3, p99)
        for i, p99 in enumerate(p99_ms)
    )


def calm(now: float = 60, flow: float = 20 * MB, **known: object) -> SideObservation:
    seen = SideObservation(
        before=LatencyBaseline(10 / 3, 10),
        windows=windows(10, 11, 9, 10, until=now),
        flow_bytes_per_s=flow,
    )
    return replace(seen, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("observed", "expected", "spare"),
    [
        (calm(), 22, None),
        (calm(flow=5 * MB), None, None),
        (calm(flow=5 * MB, inflow_bytes_per_s=10 * MB), 22, None),
        (calm(windows=windows(10, 40, 10, 10)), 22, None),
        (calm(windows=windows(10, 10, 10, 40)), None, None),
        (calm(windows=windows(15, 15, 15, usual=10)), None, None),
        (calm(windows=windows(16, 30, 25, usual=10)), 14, None),
        (calm(windows=windows(40, 40, 10)), None, None),
        (calm(windows=windows(14, 15, 30)), 14, None),
        (calm(windows=windows(12, 12, 12)), None, None),
        (calm(windows=windows(10, 11, 10, usual=12)), None, None),
        (calm(windows=windows(40, 40, until=8)), None, None),
        (calm(windows=()), None, None),
        (calm(before=LatencyBaseline(0.1, 0.2), windows=windows(0.5, 0.6, 0.9)), 22, None),
        (calm(), 20.8, 26 * MB),
        (calm(), 16, 20 * MB),
        (calm(), 2, 0.0),
        (calm(out_of_step="broker 4 has left the ISR of t-0"), 10, None),
        (calm(windows=windows(14, 15, 30), inflow_bytes_per_s=15 * MB), 18.75, None),
        (calm(flow=0, inflow_bytes_per_s=20 * MB), 20.869565, None),
        (SideObservation(flow_bytes_per_s=20 * MB), 2, None),
        (SideObservation(flow_bytes_per_s=20 * MB), 22, 80 * MB),
        (SideObservation(flow_bytes_per_s=20 * MB), None, 40 * MB),
    ],
    ids=[
        "calm: a tenth more",
        "it does not hold the run up",
        "what in-sync followers fetch uses the quota up, too",
        "one late window among calm ones",
        "the newest window is late: watched",
        "only the latest messages are late: they are now and then",
        "only the latest messages are late, but much and for long",
        "late once, calm again",
        "three late windows in a row",
        "a little late: neither faster nor slower",
        "the usual message is late, the slowest only by chance not: no faster",
        "two windows are no pattern",
        "no window has ended yet",
        "below two milliseconds all is noise",
        "up to four fifths of what capacity leaves",
        "above what capacity leaves",
        "nothing to spare: the least",
        "a follower has fallen out of step",
        "never below what is produced and a quarter",
        "at least what is produced and a quarter",
        "nothing tells how it fares: the least",
        "no probe, but much to spare",
        "no probe: only half of what is to spare",
    ],
)
def test_adaptive_rate_follows_observed_latency_copy_flow_and_spare_capacity(
    observed, expected, spare
):
    rate_control = adaptive()
    if spare is not None:
        rate_control = replace(
            rate_control, bounds=replace(BOUNDS, spare_bytes_per_s={SENDS: spare})
        )

    change = next_rates(rate_control, {SENDS: observed}, after(60))

    assert ((change.rates.get(SENDS, 20 * MB) / MB) if change else 20) == (expected or 20)


def test_sides_of_one_run_are_adapted_separately():
    rate_control = running(bounds=BOUNDS)
    late = calm(windows=windows(30, 30, 30))

    slower = next_rates(
        rate_control, {SENDS: late, ALSO_SENDS: calm(), RECEIVES: calm(flow=0)}, after(60)
    )
    rate_control = rate_control.changed(slower.rates.items(), after(60))
    faster = next_rates(
        rate_control, {SENDS: late, ALSO_SENDS: calm(), RECEIVES: calm(flow=0)}, after(61)
    )

    assert rates(slower) == {SENDS: 14}
    assert slower.why == "b1 sending slows down: producers wait 3.0 times as long as before"
    assert rates(faster) == {ALSO_SENDS: 22}
    assert faster.why == "b2 sending may send more: producers wait no longer than before"


def test_only_a_bottleneck_side_gets_a_higher_rate():
    rate_control = running(bounds=BOUNDS)
    seen = {
        SENDS: calm(left_bytes=1000 * MB),
        ALSO_SENDS: calm(left_bytes=300 * MB),
        RECEIVES: calm(left_bytes=1300 * MB),
    }
    assert rates(next_rates(rate_control, seen, after(60))) == {RECEIVES: 22}


def test_side_that_is_no_bottleneck_still_slows_down_and_keeps_its_minimum_rate():
    rate_control = running(bounds=BOUNDS)
    seen = {
        SENDS: calm(left_bytes=1 * MB, windows=windows(30, 30, 30)),
        ALSO_SENDS: calm(left_bytes=1 * MB, inflow_bytes_per_s=20 * MB),
        RECEIVES: calm(left_bytes=1300 * MB, flow=0),
    }
    slower = next_rates(rate_control, seen, after(60))
    assert rates(slower) == {SENDS: 14}
    rate_control = rate_control.changed(slower.rates.items(), after(60))
    assert ALSO_SENDS in rates(next_rates(rate_control, seen, after(62)))


def test_side_without_observations_gets_the_minimum_rate_and_the_reason_is_reported():
    change = next_rates(adaptive(), {}, after(60))
    assert rates(change) == {SENDS: 2}
    assert change.why == "nothing tells how b1 sending fares: it keeps to 2.0 MB/s"


@pytest.mark.parametrize("spare", [{}, {SENDS: 4.0 * MB}])
def test_rate_exceeds_the_inflow_by_a_quarter_even_without_latency_or_enough_spare(spare):
    rate_control = replace(adaptive(), bounds=replace(BOUNDS, spare_bytes_per_s=spare))
    change = next_rates(
        rate_control, {SENDS: SideObservation(inflow_bytes_per_s=10 * MB)}, after(60)
    )
    assert rates(change) == {SENDS: 12.5}


def test_rate_rises_more_slowly_and_only_after_a_window_following_a_slowdown():
    rate_control = adaptive().changed([(SENDS, 14 * MB)], after(60))

    assert next_rates(rate_control, {SENDS: calm(now=70)}, after(70)) is None
    assert rates(next_rates(rate_control, {SENDS: calm(now=73)}, after(73))) == {SENDS: 14.7}


def test_latency_is_judged_only_by_windows_since_the_last_rate_change():
    rate_control = adaptive().changed([(SENDS, 14 * MB)], after(60))
    late = calm(windows=windows(30, 30, 30, 30, 30, until=68))

    assert next_rates(rate_control, {SENDS: late}, after(68)) is None
    again = calm(windows=windows(30, 30, 30, until=73))
    assert rates(next_rates(rate_control, {SENDS: again}, after(73)))[SENDS] == 9.8


def test_bounds_requested_during_the_run_apply_at_once():
    rate_control = running(200 * MB).with_request("throttle", {"auto": BOUNDS.to_json()})
    seen = dict.fromkeys(rate_control.rates, calm())
    assert rates(next_rates(rate_control, seen, after(1))) == {
        SENDS: 100,
        ALSO_SENDS: 100,
        RECEIVES: 100,
    }
    assert rate_control.first_bytes_per_s == 2 * MB
    assert running(200 * MB).first_bytes_per_s == 200 * MB


def test_resumed_adaptive_run_first_climbs_to_its_minimum_rate():
    paused = running(bounds=BOUNDS).with_request("pause", {"floor": True})
    paused = paused.changed([(RECEIVES, FLOOR_BYTES_PER_S)], after(1))

    _, changes = to_the_end(paused.with_request("resume", {}), 5, {RECEIVES: calm(now=0)})

    steps = [change.rates[RECEIVES] for _, change in changes if RECEIVES in change.rates]
    assert steps[0] == 200_001
    assert 800_000 < steps[4] < 1_000_001


# -- what is seen --------------------------------------------------------------------------------


def test_latency_baseline_is_the_median_of_at_least_two_windows():
    assert before(windows(10)) is None
    assert before(windows(12, 60, 15)) == LatencyBaseline(5, 15)


def test_spare_rate_is_capacity_minus_load_and_unknown_without_a_capacity():
    state = cluster({"t-0": [1, 2]}, size_bytes=MB)
    capable = Broker(1, in_capacity_bytes_per_s=50e6, out_capacity_bytes_per_s=100e6)
    state = state.with_brokers([capable, Broker(2, in_capacity_bytes_per_s=20e6)])
    spare_by_side = spare_rates(state, load_of(state, 5e6))
    assert spare_by_side == {
        (1, Side.LEADER): 90e6,
        (1, Side.FOLLOWER): 45e6,
        (2, Side.FOLLOWER): 15e6,
    }
    assert spare_rates(state, load_of(state, {})) == {}


def test_default_bounds_let_the_busiest_partition_finish():
    state = cluster({"t-0": [1, 2], "t-1": [1]}, brokers=(1, 2, 3), size_bytes=MB)
    plan = Plan().with_target(state, tp("t-0"), (3, 2)).with_target(state, tp("t-1"), (3,))

    quiet = usual_bounds(state, load_of(state, MB), plan)
    busy = usual_bounds(state, load_of(state, {"t-0": 20e6, "t-1": 50e6}), plan)

    assert (quiet.min_bytes_per_s, quiet.max_bytes_per_s) == (3 * MB, 200 * MB)
    assert busy.min_bytes_per_s == 75 * MB
    assert usual_bounds(state, load_of(state), Plan()).min_bytes_per_s == 2 * MB
    slow, fast, swamped = (
        usual_bounds(state, load, plan, chosen)
        for load, chosen in (
            (load_of(state, MB // 10), MB),
            (load_of(state, MB), 300 * MB),
            (load_of(state, {"t-0": 20e6, "t-1": 50e6}), 2 * MB),
        )
    )
    assert (slow.min_bytes_per_s, slow.max_bytes_per_s) == (MB, 200 * MB)
    assert (fast.min_bytes_per_s, fast.max_bytes_per_s) == (3 * MB, 300 * MB)
    assert swamped.min_bytes_per_s == busy.min_bytes_per_s


A, B, C = (1, Side.LEADER), (2, Side.LEADER), (3, Side.FOLLOWER)


@pytest.mark.parametrize(
    ("rates", "left", "expected"),
    [
        ({A: 2, B: 2, C: 2}, {A: 100, B: 100, C: 200}, {C}),
        ({A: 2, B: 2, C: 4}, {A: 100, B: 100, C: 200}, {A, B, C}),
        ({A: 2, B: 2}, {A: 100, B: 81}, {A, B}),
        ({A: 2, B: 2}, {A: 100, B: 79}, {A}),
        ({A: 2, B: 2}, {A: 100, B: 0}, {A}),
        ({A: 2, B: 2, C: 2}, {A: 100, B: None, C: 10}, {A, B}),
        ({A: 2, B: 2}, {A: 100}, {A, B}),
        ({A: 2, B: -1}, {A: 100, B: 1000}, {A}),
        ({A: 0, B: 2}, {A: 100, B: 1000}, {B}),
        ({A: 2, B: 2}, {A: 0, B: 0}, {A, B}),
        ({}, {}, set()),
    ],
    ids=[
        "the one that has most to copy",
        "at its rate, too",
        "nearly as long",
        "not as long",
        "one that is done",
        "one that is not known",
        "one that nothing is said of",
        "without a limit nothing takes long",
        "one that somebody stopped is not waited for",
        "all done",
        "none",
    ],
)
def test_sides_with_the_longest_remaining_time_are_the_bottlenecks(rates, left, expected):
    assert holding_up(rates, left) == expected


@given(
    st.dictionaries(
        st.tuples(st.integers(1, 6), st.sampled_from(Side)),
        st.tuples(st.integers(1, 10**9), st.integers(0, 10**12)),
        min_size=1,
    )
)
def test_slowest_side_always_holds_the_run_up_and_all_other_sides_end_sooner(sides):
    bottlenecks = holding_up(
        {key: rate for key, (rate, _) in sides.items()},
        {key: left for key, (_, left) in sides.items()},
    )
    seconds = {key: left / rate for key, (rate, left) in sides.items()}
    assert max(seconds, key=lambda key: seconds[key]) in bottlenecks
    longest = max(seconds.values())
    assert all(seconds[key] < NEAR_SHARE * longest for key in seconds.keys() - bottlenecks)


# -- what is left --------------------------------------------------------------------------------

TO_3 = Move(tp("t-0"), (1, 2), (3, 2))
TO_3_AND_4 = Move(tp("t-1"), (1, 2), (3, 4))
BETWEEN_DIRS = Move(tp("t-2"), (1, 2), (1, 2), None, ("/d2", ANY), ("/d1", ANY))
FLIES, WAITS = Phase.SUBMITTED, Phase.QUEUED


class _Run:
    def __init__(self, *moves: RunMove) -> None:
        self.moves = moves


def move(of: Move, phase: Phase = FLIES, size: int | None = 100 * MB, **more: object):
    return RunMove(of, 0, phase=phase, size_bytes=size, leader=1, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("moves", "arrived", "expected"),
    [
        ([move(TO_3)], {0: (30,)}, {SENDS: 70, RECEIVES: 70}),
        ([move(TO_3, WAITS)], {}, {SENDS: 100, RECEIVES: 100}),
        ([move(TO_3), move(TO_3_AND_4, WAITS)], {0: (30,)}, {
            SENDS: 270, RECEIVES: 170, (4, Side.FOLLOWER): 100,
        }),
        ([move(TO_3, Phase.DONE), move(TO_3_AND_4)], {1: (100, 40)}, {
            SENDS: 60, RECEIVES: 0, (4, Side.FOLLOWER): 60,
        }),
        ([move(BETWEEN_DIRS)], {0: (25,)}, {(1, Side.LOG_DIRS): 75}),
        ([move(TO_3), move(TO_3_AND_4, size=None)], {0: (30,)}, {
            SENDS: None, RECEIVES: None, (4, Side.FOLLOWER): None,
        }),
        ([move(TO_3, request=MoveRequest.CANCEL)], {0: (30,)}, {}),
        ([move(TO_3, Phase.CANCELLED)], {}, {}),
        ([move(TO_3, replaced=True)], {}, {}),
        ([move(TO_3)], {0: (130,)}, {SENDS: 0, RECEIVES: 0}),
    ],
    ids=[
        "in flight: what has not come",
        "queued: all of it",
        "both",
        "what has ended is none of it",
        "between log dirs",
        "an unknown size makes a side's unknown",
        "what is to be taken back",
        "what was taken back",
        "what another move stands in for",
        "what retention has shortened since",
    ],
)  # fmt: skip
def test_remaining_bytes_are_counted_by_broker_and_side(moves, arrived, expected):
    came = {index: tuple(part * MB for part in parts) for index, parts in arrived.items()}
    bytes_by_side = remaining_bytes(_Run(*moves), came, {}, {})  # type: ignore[arg-type]
    assert bytes_by_side == {k: None if left is None else left * MB for k, left in expected.items()}


def test_remaining_bytes_use_the_current_log_size_and_the_current_leader():
    bytes_by_side = remaining_bytes(_Run(move(TO_3)), {0: (30 * MB,)}, {0: 150 * MB}, {0: 2})  # type: ignore[arg-type]
    assert bytes_by_side == {(2, Side.LEADER): 120 * MB, RECEIVES: 120 * MB}
