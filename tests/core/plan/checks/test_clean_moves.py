"""The screen before the checks: what it passes, no check of single moves finds anything on."""

from __future__ import annotations

from unittest.mock import patch

from clusters import MB, cluster, load_of, tp
from hypothesis import given, settings
from hypothesis import strategies as st

from core.cluster.metadata import Reassignment, Topic
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.checks.check_plan import check_plan
from core.plan.checks.moves import clean_moves
from core.plan.plan import Move, Plan

BROKERS = range(6)
TROUBLES = (
    *("rack", "two racks", "dead", "leader", "isr", "adding", "removing", "size", "load"),
    *("dirs", "topic", "min isr", "in flight", "stale", "twice", "gone", "rf", "unknown"),
)


@st.composite
def plans(draw: st.DrawFn) -> tuple[ClusterState, Load, Plan, dict]:
    """Return a plan of sound moves on a healthy cluster, but for one or two things."""
    wrong = draw(st.sets(st.sampled_from(TROUBLES), max_size=2))
    names = [f"t-{i}" for i in range(draw(st.integers(1, 4)))]
    at = {name: draw(st.permutations(BROKERS))[:3] for name in names}
    victim = draw(st.sampled_from(names))

    def only(trouble: str, value: object) -> dict:
        return {victim: value} if trouble in wrong else {}

    racks = {b: f"r{b % (2 if 'two racks' in wrong else 6)}" for b in BROKERS}
    state = cluster(
        at,
        brokers=BROKERS,
        racks={b: rack for b, rack in racks.items() if b != 5 or "rack" not in wrong},
        dead=[4] if "dead" in wrong else [],
        leaders=only("leader", -1),
        isr=only("isr", at[victim][:1]),
        adding=only("adding", at[victim][-1:]),
        removing=only("removing", at[victim][-1:]),
        topics=[Topic("t", "x", 4 if "min isr" in wrong else 2)],
        size_bytes=dict.fromkeys(names, MB) | only("size", -1),
    )
    load = load_of(state, dict.fromkeys(names, 1.0) | only("load", float("nan")))
    moves = []
    for name in names:
        before, after = tuple(at[name]), tuple(draw(st.permutations(BROKERS))[:3])
        base = (*before[1:], before[0]) if name == victim and "stale" in wrong else before
        if name == victim:
            after = (after[0], after[0], after[1]) if "twice" in wrong else after
            after = after[:2] if "rf" in wrong else after
            after = (9, *after[1:]) if "unknown" in wrong else after
        topic = "y" if name == victim and "topic" in wrong else "x"
        dirs = ("any",) * len(after) if name == victim and "dirs" in wrong else None
        gone = "u-0" if name == victim and "gone" in wrong else name
        moves.append(Move(tp(gone), base, after, topic, dirs))
    in_flight = {tp(victim): Reassignment((0, 1), (1,), (0,))} if "in flight" in wrong else {}
    return state, load, Plan.of(moves), in_flight


@settings(max_examples=300)
@given(plans())
def test_clean_moves_screen_hides_no_findings(case: tuple[ClusterState, Load, Plan, dict]) -> None:
    state, load, plan, in_flight = case
    findings = check_plan(state, load, plan, reassignments=in_flight)
    with patch(
        "core.plan.checks.check_plan.clean_moves",
        lambda state, load, moves, moving: [False] * len(moves),
    ):
        assert findings == check_plan(state, load, plan, reassignments=in_flight)


def test_ordinary_moves_pass_the_clean_moves_screen() -> None:
    at = {f"t-{i}": [i % 4, (i + 1) % 4] for i in range(8)}
    state = cluster(at, brokers=BROKERS, size_bytes=MB, racks={b: f"r{b}" for b in BROKERS})
    moves = [Move(tp(name), tuple(held), (4, held[1])) for name, held in at.items()]
    moves += [Move(tp("t-0"), (0, 1), (1, 0))]
    assert all(clean_moves(state, load_of(state, 1.0), moves, ()))


def test_move_off_brokers_without_racks_does_not_pass_the_clean_moves_screen() -> None:
    """Two of them are no rack that held both already."""
    state = cluster({"t-0": [0, 1]}, brokers=BROKERS, size_bytes=MB, racks={2: "a", 3: "a", 4: "b"})
    assert clean_moves(state, load_of(state, 1.0), [Move(tp("t-0"), (0, 1), (2, 3))], ()) == [False]
