"""The time left that a run tells over its course, on the simulator and of journals made by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from courses import Prediction, longer_than_the_whole, scored, tenths
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_records import FOLLOWER, LIMIT, NOON, SIZE, records, samples
from run_help import MB, Run, Start, ask, cluster, own, plan_of, set_config, spend, submitted
from simulated import small_spec

from core.cluster.configs import FOLLOWER_RATE, LEADER_RATE, Resource
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.workload_spec import skewed_workload
from core.cluster.simulation.cluster import SimulatedCluster
from core.load.simulated_load import SimulatedLoad, build_snapshot
from core.plan.copies import build_copies
from core.plan.estimate.estimate import estimate_at
from core.plan.estimate.estimate_json import format_estimate
from core.plan.planner.plan_request import PlanRequest
from core.plan.planner.planner import suggest_plan
from core.run.journal.move_state import Outcome
from core.run.journal.records import Kind, Record, Sample
from core.run.launch import with_batches
from core.run.options import RunOptions
from core.run.reporting.progress import run_view
from core.run.reporting.views import BrokerProgress, MoveStatus

LOOK_SECONDS = 4.0


def suggested(start: Start, seed: int) -> tuple[Run, float]:
    """Return a run of a suggested plan under load, and what was estimated of it.

    Its rate is so that copying takes one to three minutes.
    """
    rng = random.Random(seed)
    brokers = range(1, rng.choice((4, 4, 5, 6)) + 1)
    workload = skewed_workload(brokers, bytes_per_s=rng.uniform(0.5, 4) * MB, seed=seed)
    kept_seconds = rng.uniform(300, 900)
    rates = {
        TopicPartition(topic.name, p): rate
        for topic in workload.topics
        for p, rate in enumerate(topic.bytes_per_s)
    }
    sizes = {tp: int(rate * kept_seconds * rng.uniform(0.5, 2)) for tp, rate in rates.items()}
    layout = {topic.name: topic.replicas for topic in workload.topics}
    batch_bytes = rng.choice((4_000, 15_000, 90_000))
    client = SimulatedCluster(
        small_spec(layout, size_bytes=sizes, in_bytes_per_s=rates, batch_bytes=batch_bytes), seed
    )
    client.advance(30)
    picture = SimulatedLoad.of(client)
    state, load = picture.state, build_snapshot(client, picture, 1).aligned(picture.state)
    plan = suggest_plan(state, load, PlanRequest()).plan
    sides = build_copies(state, load, plan).side_loads.values()
    seconds = rng.uniform(60, 200)
    rate = round(max(side.bytes / seconds + side.background for side in sides))
    estimate = estimate_at(state, load, plan, rate)
    options = with_batches(RunOptions(rate), state, load, plan)
    run = start(
        client,
        plan,
        rate=rate,
        estimate=format_estimate(estimate),
        batches=options.batches,
        long=options.long,
        produced=options.produced,
    )
    assert estimate.seconds is not None
    return run, estimate.seconds


def course_of(run: Run) -> tuple[list[Prediction], float]:
    """Carry a run to its end; return what it said on its way, and how long it took."""
    began, course = run.client.elapsed_seconds, []
    while run.state.ended is None:
        spend(run, LOOK_SECONDS)
        if run.state.ended is None:
            view = run.view()
            singles = [m.left_seconds for m in view.moves if m.left_seconds is not None]
            at = run.client.elapsed_seconds - began
            course.append(Prediction(at, view.left_seconds, max(singles, default=None)))
    assert run.state.ended is Outcome.DONE
    return course, run.client.elapsed_seconds - began


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_time_left_of_suggested_plans_under_load_is_accurate(start: Start, seed: int) -> None:
    run, _ = suggested(start, seed)
    assert run.state.batches > 2
    course, took = course_of(run)
    scores = scored([tenths(course, took)])
    assert scores["median"] <= 0.05, scores
    assert scores["worst"] <= 0.15, scores
    assert not longer_than_the_whole(course)
    ends = [prediction.at + prediction.left for prediction in course if prediction.left is not None]
    assert max(abs(b - a) for a, b in pairwise(ends)) <= 0.1 * took, "it jumps"


def test_time_left_includes_the_batches_to_come(start: Start) -> None:
    """Three brokers are filled side by side at first; then one gets as much again, alone."""
    client = cluster({"t": [(1, 2), (2, 1), (6, 1), (1, 2), (2, 6)]}, size_bytes=60 * MB)
    plan = plan_of(
        client,
        {
            ("t", 0): (3, 2),
            ("t", 1): (4, 1),
            ("t", 2): (5, 1),
            ("t", 3): (3, 2),
            ("t", 4): (4, 6),
        },
    )
    run = start(client, plan, rate=2 * MB, batches=((0, 1, 2), (3,), (4,)))
    course, took = course_of(run)
    assert scored([tenths(course, took)])["worst"] <= 0.1
    whole = [prediction.left for prediction in course if prediction.left is not None]
    assert whole[2] > 1.3 * 5 * 60 * MB / (3 * 2 * MB), "longer than at the pace of the beginning"


def test_limit_shared_by_moves_is_not_counted_as_a_limit_of_each_move(start: Start) -> None:
    run = start(
        cluster({"t": [(1, 2), (2, 1), (6, 1)]}, size_bytes=40 * MB),
        {("t", 0): (3, 2), ("t", 1): (3, 1), ("t", 2): (3, 1)},
        rate=2 * MB,
    )
    run.until(submitted)
    spend(run, 5)
    view = run.view()
    assert view.left_seconds == pytest.approx(60, rel=0.2)
    lefts = [m.left_seconds for m in view.moves]
    assert all(left is not None and left <= 60 * 1.2 for left in lefts)


@pytest.mark.parametrize(("share", "least", "most"), [(1.0, 340, 375), (0.5, 480, 700)])
def test_share_of_its_limits_that_a_run_has_reached_corrects_the_time_left(
    share: float, least: float, most: float
) -> None:
    """The second move is in a batch to come: only the first has told how fast it will be."""
    journal = records((1, 2), (5, 5), batches=(0, 1), submitted=(0,))
    begun = samples((1,), lambda s: round(s * share * LIMIT), seconds=60)
    seen = run_view(journal, begun, living=True)
    assert seen.left_seconds is not None
    assert least <= seen.left_seconds * 1700 / (2000 - 300 * share) <= most
    assert seen.left_range is not None
    assert seen.left_range[0] <= seen.left_seconds <= seen.left_range[1]


def test_bytes_produced_to_a_queued_partition_lengthen_the_time_left() -> None:
    def left(produced: float) -> float:
        journal = records((1, 2), (5, 5), batches=(0, 1), submitted=(0,), produced=(0.0, produced))
        seen = run_view(journal, samples((1,), lambda s: s * LIMIT, seconds=60), living=True)
        assert seen.left_seconds is not None
        return seen.left_seconds

    assert left(0.5 * MB) > 1.1 * left(0.0)


def test_time_left_without_limits_is_that_of_the_slowest_destination() -> None:
    journal = records((1, 2), (5, 6), limit=None)
    quick, slow = (lambda s: s * 10 * MB), (lambda s: s * MB)
    seen = run_view(journal, samples((1, 2), quick, slow, seconds=60), living=True)
    assert seen.left_seconds == pytest.approx(940, rel=0.05)
    assert [m.left_seconds for m in seen.moves] == pytest.approx([40, 940], rel=0.05)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_time_left_includes_copies_between_log_dirs(share: float) -> None:
    """Far less is left to copy to the other broker: 100 MB of 1 GB."""
    journal = records((1, 2), (5, FOLLOWER), sizes=(SIZE, SIZE))
    of_dirs = {"before": [2, FOLLOWER], "after": [2, FOLLOWER]}
    of_dirs |= {"log_dirs": ["/b", "any"], "log_dirs_before": ["/a", "/a"]}
    journal[0].payload["moves"][1].update(of_dirs)
    journal[2].payload["rates"].append(
        {**journal[2].payload["rates"][0], "broker": 2, "side": "log-dirs"}
    )
    courses = (lambda s: round(SIZE * (0.3 + s / 100))), (lambda s: round(s * share * LIMIT))
    view = run_view(journal, samples((1, 2), *courses, seconds=60), living=True)
    assert [m.dir_moves for m in view.moves] == [(), ((2, "/b"),)]
    left = (SIZE - 60 * share * LIMIT) / (share * LIMIT)
    assert view.left_seconds == pytest.approx(left, rel=0.05)
    assert [m.left_seconds for m in view.moves] == pytest.approx([20, left], abs=10)
    assert view.left_range is not None
    assert view.left_range[0] <= view.left_seconds <= view.left_range[1]


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Record], list[Sample]]:
    """Return any moment of any run: moves queued, in flight and ended, limited or not."""
    count = draw(st.integers(1, 5))
    brokers = st.sampled_from([1, 2, 3])
    leaders = draw(st.lists(brokers, min_size=count, max_size=count))
    to = draw(st.lists(st.sampled_from([5, 6]), min_size=count, max_size=count))
    flying = draw(st.sets(st.integers(0, count - 1)))
    rates = st.lists(st.sampled_from([0.0, 0.1 * MB, 9.0 * MB]), min_size=count, max_size=count)
    journal = records(
        leaders,
        to,
        sizes=draw(st.lists(st.integers(0, SIZE), min_size=count, max_size=count)),
        batches=sorted(draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))),
        produced=draw(rates),
        submitted=flying,
        limit=draw(st.sampled_from([None, 1000, LIMIT, 100 * MB])),
        seconds=draw(st.none() | st.floats(1, 1000)),
    )
    seen: list[Sample] = []
    second = 0.0
    for _ in range(draw(st.integers(0, 8))):
        second += draw(st.floats(0.2, 20))
        at = NOON + timedelta(seconds=second)
        since = (at - timedelta(seconds=draw(st.floats(0, second)))).timestamp()
        entries = [
            [i, draw(st.integers(0, SIZE)), leaders[i], [draw(st.integers(0, SIZE))], since]
            for i in sorted(flying)
        ]
        down = draw(st.sampled_from([[], [], [], [5], [1]]))
        seen.append(Sample(at, {"moves": entries, "down": down}))
    kinds: list[tuple[Kind, dict[str, Any]]] = []
    if flying and draw(st.booleans()):
        moved = {"index": min(flying), "phase": draw(st.sampled_from(["done", "failed"]))}
        kinds.append((Kind.MOVED, {"moves": [{**moved, "why": "", "leader": 5}], "stop": ""}))
    for kind, payload in draw(
        st.lists(
            st.sampled_from(
                [
                    ("pause", {}),
                    ("pause", {"floor": True}),
                    ("resume", {}),
                    ("throttle", {"rate_bytes_per_s": MB}),
                    ("rollback", {}),
                    ("cancel", {"moves": None}),
                ]
            ),
            max_size=2,
        )
    ):
        asked = {"seq": 1, "kind": kind, "who": "ann", "host": "here", **payload}
        kinds.append((Kind.REQUEST, asked))
    end = NOON + timedelta(seconds=second)
    later = [Record(len(journal) + 1 + i, end, *of) for i, of in enumerate(kinds)]
    return [*journal, *later], seen


@settings(deadline=None, max_examples=60)
@given(situations())
def test_time_left_of_a_move_never_exceeds_that_of_the_run(
    situation: tuple[list[Record], list[Sample]],
) -> None:
    view = run_view(*situation, living=True)
    lefts = [m.left_seconds for m in view.moves if m.left_seconds is not None]
    assert all(left >= 0 for left in lefts)
    if lefts:
        assert view.left_seconds is not None
        assert max(lefts) <= view.left_seconds
    for m in view.moves:
        assert m.left_seconds is None or m.state in (MoveStatus.MOVING, MoveStatus.STUCK)
        if m.left_range is not None and m.left_seconds is not None:
            assert 0 <= m.left_range[0] <= m.left_seconds <= m.left_range[1]
    if view.left_range is not None and view.left_seconds is not None:
        assert 0 <= view.left_range[0] <= view.left_seconds <= view.left_range[1]


B3 = Resource.broker(3)
AUTO = {"least_bytes_per_s": 10 * MB, "most_bytes_per_s": 40 * MB}


def a_run(start: Start, rate: int = 5 * MB, megabytes: int = 800) -> Run:
    run = start(size_bytes=megabytes * MB, rate=rate)
    run.until(submitted)
    spend(run, 15)
    return run


def progress_by_side(run: Run) -> dict[tuple[int, str], BrokerProgress]:
    return {(b.broker, b.side): b for b in run.view().brokers}


CHANGES: dict[str, Callable[[Run], None]] = {
    "faster": lambda run: ask(run, "throttle", rate_bytes_per_s=40 * MB),
    "slower": lambda run: ask(run, "throttle", rate_bytes_per_s=1 * MB),
    "adaptive": lambda run: ask(run, "throttle", auto=AUTO),
    "held": lambda run: ask(run, "pause", floor=True),
    "by somebody else": lambda run: set_config(run.client, B3, FOLLOWER_RATE, "1000"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("seconds", [2, 30])
def test_reported_limits_are_those_in_force(start: Start, change: str, seconds: float) -> None:
    run = a_run(start, megabytes=4000)
    CHANGES[change](run)
    spend(run, seconds + 5)
    seen = progress_by_side(run)
    assert seen[3, "receives"].limit_bytes_per_s == int(own(run.client, B3, FOLLOWER_RATE) or 0)
    sent = own(run.client, Resource.broker(1), LEADER_RATE)
    assert seen[1, "sends"].limit_bytes_per_s == int(sent or 0)


def test_rate_set_by_somebody_else_in_mid_run_is_reported_as_foreign(start: Start) -> None:
    run = a_run(start)
    set_config(run.client, B3, FOLLOWER_RATE, "1000")
    spend(run, 10)
    assert progress_by_side(run)[3, "receives"].why == "foreign quota 1.0 kB/s, kept"
    (move,) = run.view().moves
    assert (move.state, move.why) == (MoveStatus.MOVING, "b3 quota 1.0 kB/s, not ours")


def test_time_left_follows_a_faster_rate_and_does_not_grow_during_a_pause_on_the_floor(
    start: Start,
) -> None:
    run = a_run(start)
    ask(run, "throttle", rate_bytes_per_s=40 * MB)
    spend(run, 20)
    asked_at, left = run.client.elapsed_seconds, run.view().left_seconds
    assert left is not None
    ask(run, "pause", floor=True)
    spend(run, 60)
    held = run.view().left_seconds
    assert held is not None
    assert held <= left, "told as of when it goes on, not at a byte a second"
    ask(run, "resume")
    run.to_the_end()
    took = run.client.elapsed_seconds - asked_at - 60
    assert 0.3 * took <= left <= 3 * took


@pytest.mark.parametrize("to", [{"rate_bytes_per_s": 40 * MB}, {"auto": AUTO}])
def test_time_left_is_estimated_from_the_pace_since_another_rate_was_requested(
    start: Start, to: dict[str, Any]
) -> None:
    run = a_run(start, megabytes=2000)
    spend(run, 60)
    ask(run, "throttle", **to)
    spend(run, 30)
    left, from_here = run.view().left_seconds, run.client.elapsed_seconds
    assert left is not None
    run.to_the_end()
    took = run.client.elapsed_seconds - from_here
    assert 0.6 * took <= left <= 1.4 * took


def test_time_left_follows_a_slower_rate_at_once(start: Start) -> None:
    run = a_run(start, rate=40 * MB, megabytes=4000)
    ask(run, "throttle", rate_bytes_per_s=5 * MB)
    spend(run, 3)
    view = run.view()
    left_bytes = view.total_bytes - view.moved_bytes
    assert view.left_seconds is not None
    assert view.left_range is not None
    assert view.left_seconds >= left_bytes / (5 * MB)
    assert view.left_range[0] <= view.left_seconds <= view.left_range[1]
