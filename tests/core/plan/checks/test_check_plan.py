"""What speaks against a plan, and against dropping a replica."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of, tp
from effort import effort

from core.cluster.access.hidden_topics import HiddenLogDir, HiddenTopics
from core.cluster.metadata import Reassignment, Topic
from core.errors import RefusedError, UsageError
from core.plan.checks.catalogue import CATALOGUE, Severity, finding, parse_allow, refuse
from core.plan.checks.check_plan import check_plan
from core.plan.checks.drop import check_drop, check_drops
from core.plan.plan import Move, Plan

RACKS = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
BEFORE = {f"t-{i}": [i % 6, (i + 2) % 6] for i in range(6)}

ONE_IN_SYNC = Topic("t", min_insync=1)


def checked(
    after, *, before=BEFORE, name="t-0", load=0.0, move=None, in_flight=None, hidden=None, **options
):
    """Return the ids of what is found when `name` gets the replicas `after`."""
    state = cluster(before, **({"brokers": range(6), "size_bytes": MB} | options))
    state = replace(state, hidden=hidden)
    known = state.find(tp(name))
    base = state.replicas(known) if known is not None else (0,)
    plan = Plan.of([move or Move(tp(name), base, tuple(after))])
    findings = check_plan(state, load_of(state, load), plan, reassignments=in_flight or {})
    return [finding.id for finding in findings], findings


def case(after, *expected, **options):
    return after, options, list(expected)


def bare(*held, brokers=4):
    """Return options of a partition on these brokers, of which those from 3 on have no rack."""
    racks = {0: "a", 1: "a", 2: "b"}
    return {"racks": racks, "brokers": range(brokers), "before": {"t-0": [*held]}}


def move(before, after, *more):
    return Move(tp("t-0"), before, after, *more)


PRODUCED = {f"t-{i}": 0.01 * MB for i in range(6)}
MOVING = {"adding": {"t-0": [5]}, "removing": {"t-0": [2]}, "move": move((0, 5), (0, 3))}
HIDDEN = HiddenTopics(1, (HiddenLogDir(0, "/d", 1, 1, 1),))
CASES = {
    "nothing": case([0, 3]),
    "reorder": case([2, 0]),
    "missing-partition": case([0, 3], "missing-partition", name="u-0"),
    "empty": case([], "empty"),
    "same-broker-twice": case([0, 0], "same-broker-twice"),
    "unknown-broker": case([0, 9], "unknown-broker"),
    "too-many-replicas": case(
        [0, 1, 2, 3],
        *("unknown-broker", "too-many-replicas"),
        before={"t-0": [0, 1]},
        brokers=range(3),
    ),
    "dead-broker": case([0, 3], "dead-broker", dead=[3]),
    "a dead broker that keeps its replica": case([2, 3], "out-of-sync", dead=[2], isr={"t-0": [0]}),
    "no-leader": case([0, 3], "no-leader", leaders={"t-0": -1}),
    "foreign-move listed": case(
        [0, 3], "foreign-move", in_flight={tp("t-0"): Reassignment((0, 2, 5), (5,), (2,))}
    ),
    "foreign-move described": case([0, 3], "foreign-move", before={"t-0": [0, 2, 5]}, **MOVING),
    "stale": case([0, 3], "stale", move=move((0, 4), (0, 3))),
    "already as planned": case([0, 3], move=move((0, 4), (0, 2))),
    "topic made anew": case(
        [0, 3], "stale", move=move((0, 2), (0, 3), "old"), topics=[Topic("t", "new")]
    ),
    "out-of-sync": case([0, 3], "out-of-sync", isr={"t-0": [0]}),
    "min-isr": case([0], "min-isr", "rf-change", topics=[Topic("t", min_insync=2)]),
    "min-isr-unknown": case([0], "min-isr-unknown", "rf-change", topics=[Topic("t")]),
    "min.insync.replicas does not matter where none goes": case([0, 3], topics=[Topic("t")]),
    "rf up": case([0, 2, 4], "rf-change"),
    "racks kept": case([0, 4], racks=RACKS),
    "rack-spread": case([0, 1], "rack-spread", racks=RACKS),
    "rack-spread no worse": case([0, 1], racks=RACKS, before={"t-0": [2, 3]}),
    "fewer replicas need fewer racks": case([0], "rf-change", racks=RACKS, topics=[ONE_IN_SYNC]),
    "rack-spread less even": case(
        [0, 1, 2, 4],
        "rack-spread",
        racks={0: "a", 1: "a", 2: "a", 3: "b", 4: "b"},
        before={"t-0": [0, 1, 3, 4]},
        brokers=range(5),
    ),
    "rack-unknown": case([0, 5], "rack-unknown", racks={0: "a", 1: "a", 2: "b", 3: "b"}),
    "from a broker without a rack to the last one free": case([0, 2], **bare(0, 3)),
    "from a broker without a rack to a rack that holds one": case(
        [0, 1], "rack-spread", **bare(0, 3)
    ),
    "from a broker without a rack where every rack holds one": case([0, 2, 1], **bare(0, 2, 3)),
    "a rack goes, and a replica stays on a broker without one": case(
        [0, 3], "rf-change", "rack-spread", topics=[ONE_IN_SYNC], **bare(0, 3, 2)
    ),
    "a rack goes, and only the leader's broker has none": case(
        [3, 2], "rf-change", topics=[ONE_IN_SYNC], **bare(3, 0, 2)
    ),
    "from brokers without racks into one of two racks": case(
        [0, 1], "rack-spread", **bare(3, 4, brokers=5)
    ),
    "disk": case([0, 3], "disk", size_bytes=100 * MB, disk_bytes=(1000 * MB, 50 * MB)),
    "disk with growth": case(
        [0, 3], "disk", size_bytes=40 * MB, disk_bytes=(1000 * MB, 50 * MB), load=PRODUCED
    ),
    "disk-fuller": case(
        [0, 3], "disk-fuller", size_bytes=100 * MB, disk_bytes=(1000 * MB, 200 * MB)
    ),
    "log-dirs": case([0, 3], "log-dirs", move=move((0, 2), (0, 3), None, ("any", "/d3"))),
    "size-unknown": case([0, 3], "size-unknown", size_bytes=None),
    "load-unknown": case([0, 3], "load-unknown", load={}),
    "hotter-broker": case([0, 3], load={"t-0": 5.0 * MB} | dict.fromkeys(BEFORE, 1.0 * MB)),
    "hidden-topics": case([0, 3], "hidden-topics", hidden=HIDDEN),
    "nothing hidden": case([0, 3], hidden=HiddenTopics()),
    "nobody knows what is hidden": case(
        [0, 3], "hidden-topics", hidden=HiddenTopics(why_unknown="nobody told")
    ),
    "cruise-control": case([0, 3], "cruise-control", topics=[Topic("__CruiseControlMetrics")]),
}


@pytest.mark.parametrize("name", CASES)
def test_check_plan_reports_the_expected_check_ids(name):
    after, options, expected = CASES[name]
    ids, findings = checked(after, **options)
    serious = [id for id in ids if id not in ("hotter-broker", "leader-skew")]
    assert serious == expected
    assert all(finding.sentence.endswith(".") for finding in findings)


def test_a_move_to_a_hotter_broker_is_unwise():
    load = dict.fromkeys(BEFORE, 1.0 * MB)
    ids, findings = checked([3, 2], load=load)
    assert ids == ["hotter-broker", "leader-skew"]
    assert findings[0].sentence == (
        "Broker 3 ends at 2.0 MB/s in, 100% above its fair share of 1.0 MB/s."
    )


def test_too_many_preferred_leaders_on_one_broker_are_unwise():
    ids, findings = checked([2, 0])
    assert ids == ["leader-skew"]
    assert findings[0].sentence.startswith("Broker 2 becomes preferred leader of 2 partitions")


def test_forty_findings_of_the_same_check_are_one_sentence():
    state = cluster({f"t-{i}": [0, 1] for i in range(40)}, brokers=range(3), dead=[2])
    plan = Plan.of(Move(tp(f"t-{i}"), (0, 1), (0, 2)) for i in range(40))
    dead = next(f for f in check_plan(state, load_of(state), plan) if f.id == "dead-broker")
    assert dead.sentence == "Broker 2 is down: t-0, t-1, t-2 and 37 more would wait for it."
    assert len(dead.partitions) == 40


def test_findings_are_sorted_worst_first():
    state = cluster(BEFORE, brokers=range(6), size_bytes=MB, dead=[3])
    plan = Plan.of(
        [
            Move(tp("t-0"), (0, 2), (0, 2, 4)),
            Move(tp("t-1"), (1, 3), (1, 1)),
            Move(tp("t-2"), (2, 4), (2, 3)),
        ]
    )
    severities = [f.severity for f in check_plan(state, load_of(state), plan)]
    assert severities == sorted(severities, reverse=True)
    assert severities[0] is Severity.ILLEGAL


DROPS = {
    "fine": ("t-0", 2, 4, {}, None),
    "onto itself": ("t-0", 2, 0, {}, "same-broker-twice"),
    "from nowhere": ("t-0", 5, 4, {}, "not-a-replica"),
    "of nothing": ("u-0", 5, 4, {}, "missing-partition"),
    "onto no broker": ("t-0", 2, 9, {}, "unknown-broker"),
    "onto a dead one": ("t-0", 2, 3, {"dead": [3]}, "dead-broker"),
    "into the same rack": ("t-0", 2, 1, {"racks": RACKS}, "rack-spread"),
    "onto a full disk": ("t-0", 2, 4, {"disk_bytes": (9 * MB, MB // 2)}, "disk"),
    "out of the ISR": ("t-0", 2, 4, {"isr": {"t-0": [0]}}, "out-of-sync"),
}


@pytest.mark.parametrize("name", DROPS)
def test_check_drop_reports_the_expected_check_id(name):
    partition, source, destination, options, expected = DROPS[name]
    state = cluster(BEFORE, **({"brokers": range(6), "size_bytes": MB} | options))
    drop_finding = check_drop(state, load_of(state), Plan(), tp(partition), source, destination)
    assert (drop_finding.id if drop_finding else None) == expected


def test_existing_finding_of_a_planned_move_is_not_attributed_to_the_next_drop():
    state = cluster(BEFORE, brokers=range(6), size_bytes=MB, isr={"t-0": [0]})
    carried = Plan().with_move(state, tp("t-0"), 2, 1)
    assert check_drop(state, load_of(state), carried, tp("t-0"), 1, 3) is None


def test_drop_back_onto_the_original_broker_has_no_finding():
    state = cluster(BEFORE, brokers=range(6), size_bytes=MB, racks=RACKS)
    carried = Plan().with_move(state, tp("t-0"), 2, 1)
    assert check_drop(state, load_of(state), carried, tp("t-0"), 1, 2) is None


def test_refusal_names_the_check_ids_that_must_be_allowed():
    findings = checked([0], topics=[Topic("t", min_insync=2)])[1]
    with pytest.raises(RefusedError) as refusal:
        refuse(findings)
    assert refusal.value.checks == ("min-isr", "rf-change")
    assert "--allow min-isr,rf-change" in refusal.value.next
    with pytest.raises(RefusedError, match="min-isr"):
        refuse(findings, {"rf-change"})
    refuse(findings, {"rf-change", "min-isr"})


def test_illegal_finding_is_refused_whatever_is_allowed():
    findings = checked([0, 0])[1]
    with pytest.raises(RefusedError, match="same-broker-twice"):
        refuse(findings, set(CATALOGUE))


def test_unwise_finding_is_only_reported_and_not_refused():
    refuse(checked([0, 3], size_bytes=None)[1])


def test_never_finding_is_refused_and_can_be_allowed():
    findings = [finding("never", "The throttle is below what is produced.")]
    with pytest.raises(RefusedError, match="never"):
        refuse(findings)
    refuse(findings, {"never"})


def test_allow_takes_ids_of_unsafe_checks_only():
    assert parse_allow(None) == frozenset()
    assert parse_allow(" rack-spread, rf-change ") == {"rack-spread", "rf-change"}
    with pytest.raises(UsageError, match="no check"):
        parse_allow("rack-spred")
    with pytest.raises(UsageError, match="cannot be allowed"):
        parse_allow("same-broker-twice")
    with pytest.raises(UsageError, match="cannot be allowed"):
        parse_allow("stale")


def test_leaders_already_in_place_are_not_counted_twice():
    """A plan of which most is done: its own leaders are no skew that is still to come."""
    layout = {f"t-{p}": [1, 2] for p in range(4)} | {"u-0": [2, 1], "u-1": [3, 2], "u-2": [3, 1]}
    state = cluster(layout)
    done = [Move(tp(f"t-{p}"), (2, 1), (1, 2)) for p in range(4)]
    plan = Plan.of([*done, Move(tp("u-0"), (2, 1), (1, 2))])
    (finding,) = [f for f in check_plan(state, load_of(state), plan) if f.id == "leader-skew"]
    assert "becomes preferred leader of 5 partitions (now 4, fair share 2.3)." in finding.sentence
    assert not [
        f for f in check_plan(state, load_of(state), Plan.of(done)) if f.id == "leader-skew"
    ]


# -- drops ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("planned", [0, 40])
def test_check_drop_agrees_with_check_plan_on_the_plan_including_the_drop(planned: int) -> None:
    state, load = skewed(Shape(12, 200, "skew"))
    plan = Plan()
    for row in range(planned):
        moved, held = state.tp(row), state.replicas(row)
        away = next(b for b in state.broker_ids.tolist() if b not in held)
        plan = plan.with_move(state, moved, held[0], away)
    before = check_plan(state, load, plan)
    sources = {state.tp(row): plan.target(state, state.tp(row))[0] for row in (3, 50, 199)}
    drop_findings = check_drops(state, load, plan, sources)
    for partition, source in sources.items():
        for to in state.broker_ids.tolist():
            if to == source:
                continue
            drop_finding = drop_findings[partition].get(to)
            assert drop_finding == check_drop(state, load, plan, partition, source, to)
            if to in plan.target(state, partition):
                assert drop_finding is not None
                assert drop_finding.severity is Severity.ILLEGAL
                continue
            checked = check_plan(state, load, plan.with_move(state, partition, source, to))
            if drop_finding is not None:
                assert drop_finding.id in {f.id for f in checked}
            else:
                unsafe = {
                    f.id
                    for f in checked
                    if f.severity > Severity.UNWISE and partition in f.partitions
                }
                assert unsafe <= {f.id for f in before if partition in f.partitions}


def test_drops_of_several_replicas_on_a_large_cluster_are_checked_quickly() -> None:
    state, load = skewed(Shape(60, 20_000, "skew"))
    sources = {state.tp(row): state.replicas(row)[0] for row in range(0, 20_000, 5_000)}
    # Once for each of 60 brokers and 4 replicas it would be some 50.
    assert effort(lambda: check_drops(state, load, Plan(), sources)) < 8
