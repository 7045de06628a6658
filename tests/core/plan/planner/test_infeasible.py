"""What no plan can do, and what is not known: one sentence each, and the goal is not reached."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from clusters import MB, cluster, load_of, tp

from core.cluster.access.hidden_topics import HiddenLogDir, HiddenTopics
from core.cluster.metadata import Broker, LogDir
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.planner.plan_request import Limits, PlanRequest
from core.plan.planner.plan_result import is_reached
from core.plan.planner.planner import suggest_plan

GB = 1000 * MB
ON_ONE = {f"t-{n}": [1] for n in range(9)}
"""All on broker 1."""


def on_one(**more: object) -> ClusterState:
    given = {"brokers": [1, 2, 3], "size_bytes": GB} | more
    return cluster(ON_ONE, **given)  # type: ignore[arg-type]


def held(*brokers: int, **more: object) -> ClusterState:
    """Return one partition on these of brokers 1 to 3."""
    return on_one_to_3({"t-0": [*brokers]}, **more)


def on_one_to_3(replicas: dict[str, list[int]], **more: object) -> ClusterState:
    return cluster(replicas, **{"brokers": [1, 2, 3], "size_bytes": GB} | more)  # type: ignore[arg-type]


STAYS = "1 replica (1.0 GB) stays where it is, t-0: "
TIGHT = {"disk_bytes": (10 * GB, GB + GB // 2)}
NO_MORE = "raise it, or plan the rest when this is done."
SPREAD = {f"t-{n}": [1 + n % 3] for n in range(7)} | {"big-0": [1]}


@pytest.mark.parametrize(
    ("state", "plan_request", "words"),
    [
        (
            held(1, 2, 3, racks={1: "a", 2: "b", 3: "b"}),
            PlanRequest(racks_only=True),
            "1 partition with up to 3 replicas in 2 racks: some share one whatever the plan; "
            "add brokers in another rack.",
        ),
        (
            on_one(),
            PlanRequest(racks_only=True),
            "No broker has a rack, so that none is shared or not: set broker.rack.",
        ),
        (
            on_one(**TIGHT),
            PlanRequest(drain=(1,)),
            "9 replicas (9.0 GB) stay where they are, t-0, t-1, t-2 and 6 more: no broker that "
            "could take them has that much disk to fill (500 MB at most, 1.0 GB in all); "
            "add disk, or lower retention.",
        ),
        (
            held(1, 2, brokers=[1, 2]),
            PlanRequest(drain=(2,)),
            f"{STAYS}no other broker is there that holds none of them; add brokers, or lower "
            "their number.",
        ),
        (
            held(1, 2),
            PlanRequest(drain=(1,), exclude=(3,)),
            f"{STAYS}all other brokers that hold none of them are to be left as they are; lift "
            "--exclude for one.",
        ),
        (
            held(1, 2),
            PlanRequest(replicas=3, exclude=(3,)),
            "1 replica (1.0 GB) is missing or too many for 3 of each partition, t-0: all other "
            "brokers that hold none of them are to be left as they are; lift --exclude for one.",
        ),
        (
            held(1, 2, dead=[3]),
            PlanRequest(drain=(1,), exclude=(3,)),
            f"{STAYS}no other broker is there that holds none of them; add brokers, or lower "
            "their number.",
        ),
        (
            held(1, 2),
            PlanRequest(replace=((1, 2),)),
            f"{STAYS}the broker that takes the place holds one already; ask for --drain instead.",
        ),
        (
            held(1, 2, racks={1: "a", 2: "b", 3: "a"}),
            PlanRequest(drain=(2,)),
            f"{STAYS}every broker that could take them is in a rack that holds one; add one in "
            "another rack, or ask for --ignore-racks.",
        ),
        (
            on_one(),
            PlanRequest(drain=(1,), limits=Limits(max_bytes=4 * GB)),
            "5 replicas (5.0 GB) stay where they are, t-4, t-5, t-6 and 2 more: --max-bytes allows "
            f"no more, all of it needs 9.0 GB; {NO_MORE}",
        ),
        (
            on_one(),
            PlanRequest(replicas=2, limits=Limits(max_moves=4)),
            "5 replicas (5.0 GB) are missing or too many for 2 of each partition, t-4, t-5, t-6 "
            f"and 2 more: --max-moves allows no more, all of it needs 9; {NO_MORE}",
        ),
        (
            on_one(),
            PlanRequest(drain=(1,), limits=Limits(max_per_broker=4)),
            "5 replicas (5.0 GB) stay where they are, t-4, t-5, t-6 and 2 more: --max-per-broker "
            f"allows no more, a broker that has to give or take more waits; {NO_MORE}",
        ),
        (
            on_one(),
            PlanRequest(replace=((1, 2),), limits=Limits(stop=lambda: True)),
            "9 replicas (9.0 GB) stay where they are, t-0, t-1, t-2 and 6 more: --time-budget "
            f"allows no more, give it longer; {NO_MORE}",
        ),
        (
            on_one_to_3({"t-0": [1, 2, 3], "u-0": [2]}, adding={"t-0": [3]}, leaders={"u-0": -1}),
            PlanRequest(replicas=2),
            "1 replica (1.0 GB) is missing or too many for 2 of each partition, t-0: moving "
            "already; plan again when that has ended.",
        ),
        (
            cluster(
                {f"t-{n}": [1, 2] for n in range(3)}, dead=[2], isr={"t-0": [1]}, size_bytes=GB
            ),
            PlanRequest(replicas=1),
            "3 replicas (3.0 GB) are missing or too many for 1 of each partition, t-0, t-1 and "
            "t-2: out of sync or on a broker that is down; plan again when they are in sync.",
        ),
        (
            held(1, 2, racks={1: "a", 2: "a", 3: "b"}, adding={"t-0": [2]}),
            PlanRequest(racks_only=True),
            "1 replica (1.0 GB) shares a rack with another one, t-0: moving already; plan again "
            "when that has ended.",
        ),
        *(
            (
                on_one(),
                PlanRequest(limits=limits),
                f"{words}; raise it, or plan again when this is done.",
            )
            for limits, words in (
                (Limits(max_bytes=GB // 2), "--max-bytes allows no more: 0 B of 500 MB are used"),
                (Limits(max_moves=2), "--max-moves allows no more: all 2 are used"),
                (
                    Limits(max_per_broker=2),
                    "--max-per-broker allows no more: broker 1 can take part in no more",
                ),
            )
        ),
        (
            cluster(SPREAD, size_bytes=dict.fromkeys(SPREAD, 2 * GB) | {"big-0": 3 * GB}),
            PlanRequest(band=0.02),
            "big-0 alone is 53% of a broker's share of disk: pieces of that size hardly fit a "
            "band of ±2%; split the topic, or widen the band.",
        ),
        (
            on_one(**TIGHT),
            PlanRequest(),
            "Brokers 2,3 have no disk left for what would help (500 MB may be filled at most); "
            "add disk, or lower retention.",
        ),
        *(
            (
                on_one_to_3(ON_ONE | others, **more),
                wanted,
                f"{what} of broker 1's share of disk: no plan evens that out beside {do}.",
            )
            for others, more, wanted, what, do in (
                (
                    {f"u-{n}": [2] for n in range(3)},
                    {},
                    PlanRequest(keep="t"),
                    "What --keep leaves alone is 225%",
                    "it; lift it for some",
                ),
                (
                    {f"u-{n}": [2] for n in range(9)},
                    {},
                    PlanRequest(keep="t"),
                    "What --keep leaves alone is 150%",
                    "it; lift it for some",
                ),
                (
                    {f"u-{n}": [2] for n in range(3)},
                    {},
                    PlanRequest(topics="u"),
                    "What was not chosen is 225%",
                    "it; choose more topics",
                ),
                (
                    {"u-0": [2], "v-0": [3]},
                    {"size_bytes": dict.fromkeys(ON_ONE, 2 * GB) | {"u-0": GB, "v-0": GB}},
                    PlanRequest(topics="u|v", keep="v"),
                    "What was not chosen is 270%",
                    "it; choose more topics",
                ),
                (
                    {"u-0": [2]},
                    {},
                    PlanRequest(frozen=frozenset(map(tp, ON_ONE))),
                    "What is to rest is 270%",
                    "it; wait",
                ),
            )
        ),
        *(
            (
                on_one_to_3(ON_ONE | {"u-0": [1], "u-1": [1]}),
                wanted,
                "2 replicas (2.0 GB) stay where they are, u-0 and u-1: of topics to keep; lift "
                "--keep for what has to go.",
            )
            for wanted in (
                PlanRequest(drain=(1,), keep="u"),
                PlanRequest(drain=(1,), brokers=(2, 3), keep="u"),
            )
        ),
    ],
)
def test_infeasible_request_is_reported_with_what_to_do(
    state: ClusterState, plan_request: PlanRequest, words: str
) -> None:
    suggestion = suggest_plan(state, load_of(state, MB), plan_request)
    assert words in suggestion.notes
    assert not is_reached(suggestion, plan_request)


def test_no_broker_gives_and_takes_more_replicas_than_allowed() -> None:
    state = on_one(brokers=[1, 2, 3, 4])
    for wanted in (
        PlanRequest(),
        PlanRequest(drain=(1,)),
        PlanRequest(fill=(2,)),
        PlanRequest(replicas=3),
    ):
        suggestion = suggest_plan(
            state, load_of(state, MB), replace(wanted, limits=Limits(max_per_broker=4))
        )
        assert suggestion.plan.moves
        for broker in (1, 2, 3, 4):
            part = [broker in {*move.adding, *move.removing} for move in suggestion.plan]
            assert sum(part) <= 4


# -- what is not known, or cannot be touched -----------------------------------------------------


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            cluster(ON_ONE | {"u-0": [1, 2]}, brokers=[1, 2, 3], adding={"u-0": [2]}),
            "1 partition is moving already and left as it is.",
        ),
        (
            on_one(leaders={"t-0": -1, "t-1": -1}),
            "2 partitions are without a leader and left as they are.",
        ),
        (
            cluster(ON_ONE | {"u-0": [1, 2]}, brokers=[1, 2, 3], dead=[2], isr={"u-0": [1]}),
            "1 partition is out of sync or on a broker that is down and left as it is.",
        ),
        (
            on_one(racks={1: "a", 2: "b"}),
            "Broker 3 has no rack while others have one: nothing goes there from a rack; "
            "set broker.rack.",
        ),
        (on_one(), "No broker tells the size of its disks: nothing keeps them from filling up."),
        (
            on_one(size_bytes={f"t-{n}": GB for n in range(7)}),
            "The size of 2 of 9 partitions is not known: what they copy is not counted.",
        ),
    ],
)
def test_missing_information_and_unmovable_partitions_are_reported(
    state: ClusterState, words: str
) -> None:
    assert words in suggest_plan(state, load_of(state, MB), PlanRequest()).notes


def test_partitions_with_unknown_produce_or_consume_rates_are_counted() -> None:
    state = on_one()
    load = load_of(state, MB)
    load.out_bytes_per_s[:4] = np.nan
    load.in_bytes_per_s[:1] = np.nan
    notes = suggest_plan(state, load, PlanRequest()).notes
    assert any(note.startswith("What is produced to 1 of 9 partitions is not") for note in notes)
    assert (
        "What is read of 3 of 9 partitions is not known: it is taken to be what it is for the "
        "others, by what is produced."
    ) in notes
    load.out_bytes_per_s[:] = np.nan
    assert (
        "What is read of 8 of 9 partitions is not known: of what they send only what followers "
        "fetch is counted."
    ) in suggest_plan(state, load, PlanRequest()).notes


def test_partitions_of_unknown_load_cause_no_copies() -> None:
    """As nothing, what broker 0 leads would make it look idle."""
    ring = [0, 1, 2, 3]
    held = {f"t-{n}": [ring[n % 4], ring[(n + 1) % 4]] for n in range(80)}
    state = cluster(held, brokers=ring, size_bytes=GB)
    load = load_of(state, MB)
    load.in_bytes_per_s[state.leader == 0] = np.nan
    load.out_bytes_per_s[state.leader == 0] = np.nan
    suggestion = suggest_plan(state, load, PlanRequest())
    assert not suggestion.plan.moves
    assert is_reached(suggestion, PlanRequest())


def test_cluster_with_only_one_broker_up_is_not_reported_as_even() -> None:
    state = cluster({f"t-{n}": [n % 4] for n in range(8)}, brokers=range(4), dead=[1, 2, 3])
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest())
    assert not is_reached(suggestion, PlanRequest())
    assert "Only broker 0 of 4 brokers is up and may take part: nothing can be evened out." in (
        suggestion.notes
    )


def test_disk_sizes_and_capacities_known_for_only_some_brokers_are_reported() -> None:
    state = on_one(log_dirs={1: (LogDir("/data", 9 * GB, 5 * GB),)}, can_take_in={1: 100e6})
    notes = suggest_plan(state, load_of(state, MB), PlanRequest()).notes
    assert (
        "Brokers 2,3 have disks of unknown size: shares of disk are equal parts, "
        "and nothing keeps those from filling up."
    ) in notes
    assert (
        "Brokers 2,3 have no capacity of in: shares of it are equal parts; "
        "give all brokers one, or none."
    ) in notes


def test_reassignments_of_topics_outside_the_request_are_not_reported() -> None:
    state = cluster({"t-0": [1], "u-0": [1, 2]}, brokers=[1, 2], adding={"u-0": [2]}, size_bytes=GB)
    notes = suggest_plan(state, Load.unknown(state), PlanRequest(topics="t")).notes
    assert not any("moving already" in note for note in notes)


@pytest.mark.parametrize(
    "plan_request",
    [PlanRequest(replicas=2), PlanRequest(racks_only=True)],
    ids=["replicas", "racks"],
)
def test_reassignment_in_flight_toward_the_request_counts_as_reaching_it(
    plan_request: PlanRequest,
) -> None:
    state = cluster(
        {"t-0": [1, 2, 3], "u-0": [1, 3]},
        racks={1: "a", 2: "a", 3: "b"},
        adding={"t-0": [3]},
        removing={"t-0": [2]},
    )
    suggestion = suggest_plan(state, load_of(state, MB), plan_request)
    assert is_reached(suggestion, plan_request)
    assert not suggestion.plan.moves


def test_a_limit_of_bytes_is_not_blamed_where_nothing_is_copied() -> None:
    state = cluster({f"t-{n}": [1, 2] for n in range(3)}, size_bytes=GB)
    wanted = PlanRequest(leaders_only=True, limits=Limits(max_bytes=GB // 2))
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    assert not is_reached(suggestion, wanted)
    assert not any("--max-bytes" in note for note in suggestion.notes)


def test_a_limit_of_bytes_is_not_blamed_where_no_copy_would_help() -> None:
    state = cluster({"t-0": [1], "t-1": [2]}, size_bytes={"t-0": 10 * GB, "t-1": 7 * GB})
    wanted = PlanRequest(limits=Limits(max_bytes=8 * GB))
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    assert not is_reached(suggestion, wanted)
    assert not any("--max-bytes" in note for note in suggestion.notes)


UNSIZED = {f"t-{n}": [1, 2] for n in range(6)}


@pytest.mark.parametrize(
    ("disk_bytes", "max_bytes", "moves", "words"),
    [
        (None, MB, 0, "they are not copied, as --max-bytes cannot be held against them."),
        ((GB, GB), inf, 0, "they are copied to no broker that tells its free disk."),
        (None, inf, 4, "what they copy is not counted."),
    ],
)
def test_partitions_of_unknown_size_move_only_without_byte_limit_and_disk_sizes(
    disk_bytes: tuple[int, int] | None, max_bytes: float, moves: int, words: str
) -> None:
    state = cluster(UNSIZED, brokers=[1, 2, 3], disk_bytes=disk_bytes)
    suggestion = suggest_plan(
        state, load_of(state, MB), PlanRequest(limits=Limits(max_bytes=max_bytes))
    )
    assert (suggestion.moves, suggestion.unsized) == (moves, moves)
    assert f"The size of 6 of 6 partitions is not known: {words}" in suggestion.notes


@pytest.mark.parametrize("limits", [Limits(max_bytes=MB), Limits()])
@pytest.mark.parametrize("plan_request", [PlanRequest(drain=(2,)), PlanRequest(replicas=3)])
def test_required_moves_of_replicas_of_unknown_size_are_not_planned(
    plan_request: PlanRequest, limits: Limits
) -> None:
    state = cluster(UNSIZED, brokers=[1, 2, 3], disk_bytes=(GB, GB))
    plan_request = replace(plan_request, limits=limits)
    suggestion = suggest_plan(state, load_of(state, MB), plan_request)
    assert not suggestion.plan.moves
    assert not is_reached(suggestion, plan_request)
    assert suggestion.notes[0].startswith("6 replicas (of unknown size)")
    assert "no limit of bytes and no free disk can be held against it" in suggestion.notes[0]


def test_shortfall_of_a_leaders_only_plan_is_not_blamed_on_disk_usage() -> None:
    sizes = {"t-0": 10 * GB, "t-1": GB, "t-2": GB}
    state = cluster({name: [1, 2] for name in sizes}, size_bytes=sizes)
    wanted = PlanRequest(leaders_only=True)
    suggestion = suggest_plan(state, Load.unknown(state), wanted)
    assert not is_reached(suggestion, wanted)
    assert not any("disk" in note for note in suggestion.notes)
    assert (
        "Broker 1 ends at 133% of its share of leaders: no change of leaders was found that brings "
        "it nearer."
    ) in suggestion.notes


def test_topic_kept_in_place_is_not_advised_to_be_split() -> None:
    held = {f"t-{n}": [1 + n % 3] for n in range(7)} | {"big-0": [1]}
    sizes = {f"t-{n}": 2 * GB for n in range(7)} | {"big-0": 3 * GB}
    state = cluster(held, size_bytes=sizes)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(band=0.02, keep="big"))
    assert not any("big-0" in note for note in suggestion.notes)
    assert any(note.startswith("t-0 alone is 35% of a broker's share") for note in suggestion.notes)


def test_drained_broker_that_unchosen_topics_leave_in_use_is_reported() -> None:
    """What was asked is done; who takes the broker down reads that it is not empty."""
    state = cluster(ON_ONE | {"u-0": [1], "v-0": [1]}, brokers=[1, 2], size_bytes=GB)
    wanted = PlanRequest(drain=(1,), topics="u")
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    assert is_reached(suggestion, wanted)
    assert (
        "Broker 1 is not empty then: 10 replicas of topics that were not chosen stay on it."
    ) in suggestion.notes
    for more in (replace(wanted, keep="v"), replace(wanted, brokers=(2,))):
        again = suggest_plan(state, load_of(state, MB), more)
        assert is_reached(again, more), "what was not chosen is not asked for by anything else"
        assert suggestion.notes[0] in again.notes
    whole = suggest_plan(state, load_of(state, MB), PlanRequest(drain=(1,), topics=".*"))
    assert not any("not empty" in note for note in whole.notes)


def test_rack_of_few_brokers_is_reported_only_where_it_matters() -> None:
    held = {f"t-{n}": [1, 2 + n % 3] for n in range(6)} | {"u-0": [2, 3]}
    state = cluster(held, racks={1: "a", 2: "b", 3: "b", 4: "b"}, size_bytes=GB)
    words = "Broker 1 has to carry 200% of the mean: few brokers in the rack hold a replica of"
    notes = suggest_plan(state, load_of(state, MB), PlanRequest()).notes
    assert any(note.startswith(words) for note in notes)
    nothing = suggest_plan(state, load_of(state, MB), PlanRequest(drain=(4,), topics="u"))
    assert not nothing.plan.moves
    assert not any("of the mean" in note for note in nothing.notes)


REFUSED = HiddenTopics(unknown_brokers=(1, 2), why_unknown="this user may not describe log dirs")


def with_hidden_topics(hidden: HiddenTopics | None) -> ClusterState:
    """Return three brokers that hold 8 GB each of what may be seen."""
    held = {f"t-{n}": [1 + n % 3, 1 + (n + 1) % 3] for n in range(12)}
    return replace(cluster(held, size_bytes=GB), hidden=hidden)


def hides(broker: int, replicas: int, size_bytes: int) -> HiddenTopics:
    return HiddenTopics(1, (HiddenLogDir(broker, "/data", 1, replicas, size_bytes),))


@pytest.mark.parametrize(
    ("hidden", "moves", "reached", "words"),
    [
        (None, 0, True, ""),
        (HiddenTopics(), 0, True, ""),
        (hides(1, 2, 2 * GB), 1, True, "Their bytes and replicas count, and stay."),
        (REFUSED, 0, True, "What is even is so for the topics that are seen."),
        (hides(1, 90, 90 * GB), 8, False, "Topics that are hidden are 237% of broker 1's share"),
    ],
)
def test_hidden_topics_count_in_the_balance_and_stay_in_place(
    hidden: HiddenTopics | None, moves: int, reached: bool, words: str
) -> None:
    state = with_hidden_topics(hidden)
    wanted = PlanRequest()
    suggestion = suggest_plan(state, Load.unknown(state), wanted)
    assert (suggestion.moves, is_reached(suggestion, wanted)) == (moves, reached)
    assert words in " ".join(suggestion.notes)
    assert any("hidden" in note for note in suggestion.notes) is bool(words)


SILENT = HiddenTopics(unknown_brokers=(1,))
SOME_HIDDEN = replace(hides(2, 2, GB), unknown_brokers=(1,))
GETS = "Whether broker 1 gets empty is not known"
DOWN = "Broker 1 is down: whether it holds replicas of topics that are hidden is not known."


@pytest.mark.parametrize(
    ("hidden", "alive", "plan_request", "reached", "words"),
    [
        (hides(1, 2, GB), True, PlanRequest(drain=(1,)), False, "Broker 1 keeps 2 replicas"),
        (hides(2, 2, GB), True, PlanRequest(drain=(1,)), True, ""),
        (hides(1, 2, GB), True, PlanRequest(replace=((1, 4),)), False, "Broker 1 keeps 2 replicas"),
        (REFUSED, True, PlanRequest(drain=(1,)), False, GETS),
        (REFUSED, True, PlanRequest(drain=(3,)), False, "Whether broker 3 gets empty is not known"),
        (HiddenTopics(), True, PlanRequest(drain=(1,)), True, ""),
        (SILENT, True, PlanRequest(drain=(1,)), False, GETS),
        (SILENT, True, PlanRequest(drain=(2,)), True, ""),
        # What is down tells nothing: only what is seen otherwise says whether to doubt it.
        (SILENT, False, PlanRequest(drain=(1,)), True, DOWN),
        (SILENT, False, PlanRequest(replace=((1, 4),)), True, DOWN),
        (HiddenTopics(unknown_brokers=(1, 2)), False, PlanRequest(drain=(1,)), False, GETS),
        (REFUSED, False, PlanRequest(drain=(1,)), False, GETS),
        (SOME_HIDDEN, False, PlanRequest(drain=(1,)), False, GETS),
        (hides(1, 2, GB), False, PlanRequest(drain=(1,)), False, "Broker 1 keeps 2 replicas"),
    ],
)
def test_broker_that_holds_hidden_topics_is_not_reported_as_emptied(
    hidden: HiddenTopics, alive: bool, plan_request: PlanRequest, reached: bool, words: str
) -> None:
    brokers = [Broker(id, alive=alive or id != 1) for id in (1, 2, 3, 4)]
    state = with_hidden_topics(hidden).with_brokers(brokers)
    suggestion = suggest_plan(state, Load.unknown(state), plan_request)
    notes = [
        n for n in suggestion.notes if n.startswith(("Broker 1 keeps", "Broker 1 is", "Whether b"))
    ]
    assert words is not DOWN or sum("hidden" in note for note in suggestion.notes) == 1
    assert [n for n in notes if n.startswith(words)] if words else not notes, suggestion.notes
    assert len(notes) == bool(words)
    assert is_reached(suggestion, plan_request) is reached
