"""Log dirs evened out: within the band, with few bytes, never full, nothing between brokers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from clusters import MB, cluster, tp
from hypothesis import given
from hypothesis import strategies as st

from core.cluster.access.hidden_topics import HiddenLogDir, HiddenTopics
from core.cluster.metadata import FutureReplica, LogDir
from core.cluster.state import ClusterState
from core.errors import UsageError
from core.plan.planner.log_dir_balancing import LogDirPlan, balance_log_dirs
from core.plan.planner.plan_request import Limits, PlanRequest

ROOMY = 10**12
TWO_ROOMY = (LogDir("/data", ROOMY, ROOMY), LogDir("/d2", ROOMY, ROOMY))
Placed = dict[str, tuple[str, int]]
"""Each partition's log dir and its bytes."""


def jbod(
    *brokers: Placed,
    dirs: tuple[str, ...] = ("/d1", "/d2"),
    total: dict[str, int] | None = None,
    free: dict[str, int] | None = None,
    offline: tuple[str, ...] = (),
) -> ClusterState:
    """Return brokers 1, 2, …, each with replicas of partitions of its own in its log dirs."""
    known = tuple(
        LogDir(d, error="offline")
        if d in offline
        else LogDir(d, (total or {}).get(d, ROOMY), (free or {}).get(d, ROOMY))
        for d in dirs
    )
    held = {name: (b, *of) for b, names in enumerate(brokers, 1) for name, of in names.items()}
    return cluster(
        {name: [broker] for name, (broker, _, _) in held.items()},
        brokers=range(1, len(brokers) + 1),
        size_bytes={name: size for name, (_, _, size) in held.items()},
        log_dirs=known,
        paths={name: [path] for name, (_, path, _) in held.items()},
    )


def many(count: int, size: int = 10 * MB, path: str = "/d1", topic: str = "t") -> Placed:
    return {f"{topic}-{i}": (path, size) for i in range(count)}


def after(dir_plan: LogDirPlan, broker: int = 1) -> dict[str, float]:
    return {share.path: round(share.after, 2) for share in dir_plan.dirs if share.broker == broker}


def test_replicas_in_one_log_dir_are_spread_with_hardly_more_bytes_than_needed() -> None:
    dir_plan = balance_log_dirs(jbod(many(20)), PlanRequest())
    assert dir_plan.reached
    assert dir_plan.moves == 9  # 45 % of it brings the emptier one to 90 % of its share
    assert after(dir_plan) == {"/d1": 1.1, "/d2": 0.9}
    for move in dir_plan.plan:
        assert move.before == move.after
        assert (move.dir_moves, move.base_log_dirs) == ({1: "/d2"}, {1: "/d1"})


def test_replicas_of_log_dirs_within_the_band_stay() -> None:
    held = many(11, path="/d1") | many(9, path="/d2", topic="u")
    dir_plan = balance_log_dirs(jbod(held), PlanRequest())
    assert (dir_plan.reached, dir_plan.moves, dir_plan.notes) == (True, 0, ())


def test_log_dirs_of_different_sizes_get_shares_proportional_to_size() -> None:
    dir_plan = balance_log_dirs(
        jbod(many(20), total={"/d1": 3 * ROOMY, "/d2": ROOMY}), PlanRequest()
    )
    sizes = {share.path: share.after_bytes for share in dir_plan.dirs}
    assert sizes["/d1"] / 200 / MB == pytest.approx(0.75, abs=0.08)


def test_no_log_dir_is_filled_beyond_its_limit() -> None:
    """100 MB in all, of which 10 are to stay free."""
    dir_plan = balance_log_dirs(
        jbod(many(20), total={"/d1": 100 * MB, "/d2": 100 * MB}, free={"/d2": 45 * MB}),
        PlanRequest(),
    )
    assert dir_plan.bytes == 30 * MB
    assert not dir_plan.reached
    assert "no room" in dir_plan.notes[0]


def test_log_dirs_on_one_disk_together_do_not_exceed_its_limit() -> None:
    """45 MB free of 100 on the one disk of both, of which 10 are to stay free."""
    dirs, others = ("/d1", "/d2", "/d3"), ("/d2", "/d3")
    total, free = dict.fromkeys(dirs, 100 * MB), dict.fromkeys(others, 45 * MB)
    dir_plan = balance_log_dirs(jbod(many(30), dirs=dirs, total=total, free=free), PlanRequest())
    assert dir_plan.bytes == 30 * MB
    assert "no room" in dir_plan.notes[0]


def test_bytes_still_arriving_by_a_reassignment_leave_less_room_in_their_log_dir() -> None:
    sizes = {f"t-{n}": 10 * MB for n in range(20)} | {"u-0": 40 * MB}
    held = {name: [2, 1] if name == "u-0" else [1] for name in sizes}
    dirs = {1: (LogDir("/data", 300 * MB, 65 * MB), LogDir("/d2", 100 * MB, 65 * MB))}
    state = cluster(held, adding={"u-0": [1]}, isr={"u-0": [2]}, size_bytes=sizes, log_dirs=dirs)
    state = replace(
        state,
        log_dir_paths=("/data", "/d2"),
        log_dir=state.adding.astype(np.int32),
        size_bytes=np.where(state.adding, 5 * MB, state.size_bytes),
    )
    dir_plan = balance_log_dirs(state, PlanRequest(band=0.01))
    assert dir_plan.bytes == 20 * MB, "55 MB may be filled, and 35 are on their way"


def test_each_broker_is_evened_out_by_itself() -> None:
    uneven, even = many(20), many(10, path="/d1", topic="u") | many(10, path="/d2", topic="v")
    dir_plan = balance_log_dirs(jbod(uneven, even), PlanRequest())
    assert {b for move in dir_plan.plan for b in move.dir_moves} == {1}
    assert after(dir_plan, 2) == {"/d1": 1.0, "/d2": 1.0}


def test_log_dir_changes_of_a_partition_on_two_brokers_form_one_move() -> None:
    held = {f"t-{i}": [1, 2] for i in range(10)}
    dir_plan = balance_log_dirs(
        cluster(held, size_bytes=10 * MB, log_dirs=TWO_ROOMY), PlanRequest()
    )
    assert (len(dir_plan.plan), dir_plan.moves) == (5, 10)
    assert all(len(dir_plan.reasons[move.tp]) == 2 for move in dir_plan.plan)


def test_reason_of_a_move_names_the_log_dir_that_it_relieves() -> None:
    dir_plan = balance_log_dirs(jbod(many(20)), PlanRequest())
    (why,) = dir_plan.reasons[dir_plan.plan.moves[0].tp]
    assert why.words == "b1 /d1 200% → 110%"


def test_huge_replica_that_prevents_balanced_log_dirs_is_reported() -> None:
    dir_plan = balance_log_dirs(
        jbod({"t-0": ("/d1", 900 * MB)} | many(10, topic="u")), PlanRequest()
    )
    assert not dir_plan.reached
    assert "holds one replica of 900 MB" in dir_plan.notes[0]


def test_replicas_too_large_for_the_band_are_still_moved_where_that_helps() -> None:
    dir_plan = balance_log_dirs(jbod(many(3, 40 * MB)), PlanRequest())
    assert after(dir_plan) == {"/d1": 1.33, "/d2": 0.67}
    assert not dir_plan.reached


def test_log_dir_plan_keeps_limits_on_moves_and_bytes_and_obeys_stop() -> None:
    state = jbod(many(20))
    assert balance_log_dirs(state, PlanRequest(limits=Limits(max_moves=3))).moves == 3
    assert balance_log_dirs(state, PlanRequest(limits=Limits(max_per_broker=2))).moves == 2
    assert balance_log_dirs(state, PlanRequest(limits=Limits(max_bytes=45 * MB))).bytes == 40 * MB
    stopped = balance_log_dirs(state, PlanRequest(limits=Limits(stop=lambda: True)))
    assert (stopped.moves, stopped.reached) == (0, False)
    assert "limit" in stopped.notes[-1]


@pytest.mark.parametrize(("max_bytes", "is_blamed"), [(9e14, False), (39 * MB, True)])
def test_limit_on_bytes_is_blamed_only_where_raising_it_would_help(
    max_bytes: float, is_blamed: bool
) -> None:
    state = jbod({"t-0": ("/d1", 900 * MB)} | many(10, topic="u"))
    dir_plan = balance_log_dirs(state, PlanRequest(limits=Limits(max_bytes=max_bytes)))
    assert not dir_plan.reached
    assert any("A limit (bytes" in note for note in dir_plan.notes) is is_blamed


def test_replicas_of_a_partition_that_is_out_of_sync_stay_where_they_are() -> None:
    held = {f"t-{i}": [1, 2] for i in range(10)}
    behind = {f"t-{i}": [1] for i in range(6)}
    state = cluster(held, isr=behind, size_bytes=10 * MB, log_dirs=TWO_ROOMY)
    dir_plan = balance_log_dirs(state, PlanRequest())
    assert {move.tp.partition for move in dir_plan.plan} == {6, 7, 8, 9}


def test_excluded_topics_excluded_brokers_and_out_of_sync_replicas_stay() -> None:
    state = jbod(many(10) | many(10, topic="keep"))
    assert {m.tp.topic for m in balance_log_dirs(state, PlanRequest(keep="keep")).plan} == {"t"}
    assert {m.tp.topic for m in balance_log_dirs(state, PlanRequest(topics="keep")).plan} == {
        "keep"
    }
    two = jbod(many(10), many(10, topic="u"))
    assert {m.tp.topic for m in balance_log_dirs(two, PlanRequest(exclude=(1,))).plan} == {"u"}
    sick = replace(state, in_sync=np.zeros(state.replica_count, np.bool_))
    assert not balance_log_dirs(sick, PlanRequest()).plan.moves


def test_only_requested_brokers_are_evened_out() -> None:
    state = jbod(many(20), many(20, topic="u"))
    assert {
        b for m in balance_log_dirs(state, PlanRequest(brokers=(2,))).plan for b in m.dir_moves
    } == {2}
    with pytest.raises(UsageError, match="no broker 9"):
        balance_log_dirs(state, PlanRequest(brokers=(9,)))


def test_an_offline_log_dir_is_left_as_it_is() -> None:
    dir_plan = balance_log_dirs(
        jbod(many(20), dirs=("/d1", "/d2", "/d3"), offline=("/d3",)), PlanRequest()
    )
    assert {share.path for share in dir_plan.dirs} == {"/d1", "/d2"}
    assert "/d3 of broker 1 is offline" in dir_plan.notes[0]


def test_brokers_with_one_log_dir_are_reported_as_having_nothing_to_even_out() -> None:
    dir_plan = balance_log_dirs(jbod(many(3), dirs=("/d1",)), PlanRequest())
    assert dir_plan.reached
    assert "more than one log dir" in dir_plan.notes[0]


placements = st.lists(
    st.tuples(st.sampled_from(("/d1", "/d2", "/d3")), st.integers(1, 100)), min_size=1, max_size=40
)


@given(placements, st.sampled_from((0.05, 0.1, 0.3)))
def test_log_dir_plan_keeps_bytes_never_worsens_balance_and_is_idempotent(
    placed: list[tuple[str, int]], band: float
) -> None:
    """Nothing is lost, nobody ends further off, and a second plan has nothing to do."""
    held = {f"t-{i}": (path, size * MB) for i, (path, size) in enumerate(placed)}
    state = jbod(held, dirs=("/d1", "/d2", "/d3"))
    dir_plan = balance_log_dirs(state, PlanRequest(band=band))
    before, now = (
        [getattr(share, name) for share in dir_plan.dirs]
        for name in ("before_bytes", "after_bytes")
    )
    assert sum(before) == sum(now) == sum(size for _, size in held.values())
    off = [
        max(abs(share.before - 1) for share in dir_plan.dirs),
        max(abs(d.after - 1) for d in dir_plan.dirs),
    ]
    assert off[1] <= off[0] + 1e-9
    assert dir_plan.reached == (off[1] <= band + 1e-6)
    moved = {m.tp: m.dir_moves[1] for m in dir_plan.plan}
    ended = {n: (moved.get(tp(n), path), size) for n, (path, size) in held.items()}
    assert {d.path: d.after_bytes for d in dir_plan.dirs} == {
        d: sum(size for path, size in ended.values() if path == d) for d in ("/d1", "/d2", "/d3")
    }
    if dir_plan.reached:
        assert not balance_log_dirs(
            jbod(ended, dirs=("/d1", "/d2", "/d3")), PlanRequest(band=band)
        ).plan.moves
    assert balance_log_dirs(state, PlanRequest(band=band)).plan == dir_plan.plan


def test_moved_bytes_are_near_the_lower_bound_for_skewed_sizes() -> None:
    """Skewed sizes: within 10 % of what has to leave the full one in any plan."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        sizes = (rng.pareto(1.5, 200) + 0.1) * MB
        held = {f"t-{i}": ("/d1" if i % 4 else "/d2", int(s)) for i, s in enumerate(sizes)}
        dir_plan = balance_log_dirs(jbod(held), PlanRequest())
        if not dir_plan.reached:
            continue
        least = max(
            max(0.9 * d.share_bytes - d.before_bytes, d.before_bytes - 1.1 * d.share_bytes)
            for d in dir_plan.dirs
        )
        assert dir_plan.bytes <= 1.1 * max(least, 0) + MB


def test_replica_moving_to_another_log_dir_counts_there_and_is_left_alone() -> None:
    here = jbod(many(4) | {"u-0": ("/d1", 40 * MB)})
    copied = replace(here, future_replicas=(FutureReplica(tp("u-0"), 1, "/d2", MB),))
    dir_plan = balance_log_dirs(copied, PlanRequest())
    assert not len(dir_plan.plan), "even once it is there"
    assert dir_plan.reached


@pytest.mark.parametrize("lost", ["dirs", "sizes", "places"])
def test_log_dirs_with_missing_information_count_as_unknown_rather_than_even(lost: str) -> None:
    two = tuple(LogDir(path, 100 * MB, 90 * MB - n) for n, path in enumerate(("/data", "/more")))
    dirs = () if lost == "dirs" else two
    state = cluster({"t-0": [1, 2], "t-1": [2, 1]}, size_bytes=MB, log_dirs=dirs)
    sizes = np.full_like(state.size_bytes, -1) if lost == "sizes" else state.size_bytes
    places = np.full_like(state.log_dir, -1) if lost == "places" else state.log_dir
    state = replace(state, size_bytes=sizes, log_dir=places)
    dir_plan = balance_log_dirs(state, PlanRequest(disks=True))
    assert (dir_plan.unknown, dir_plan.reached) == ((1, 2), False)


def test_replicas_of_hidden_topics_count_in_their_log_dir_and_stay() -> None:
    held = many(10) | many(10, path="/d2", topic="u")
    hidden = HiddenTopics(1, (HiddenLogDir(1, "/d1", 1, 10, 100 * MB),))
    dir_plan = balance_log_dirs(replace(jbod(held), hidden=hidden), PlanRequest(disks=True))
    assert {share.path: share.before_bytes for share in dir_plan.dirs} == {
        "/d1": 200 * MB,
        "/d2": 100 * MB,
    }
    assert dir_plan.reached
    assert {move.tp.topic for move in dir_plan.plan} == {"t"}
    assert any("hidden" in note for note in dir_plan.notes)
