"""Throttles as values: what is listed, set, read back and put back, case by case."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from clusters import tp
from hypothesis import given, settings
from hypothesis import strategies as st
from run_help import move

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    ConfigValue,
    Resource,
)
from core.cluster.kafka_errors import Fault
from core.cluster.simulation.configs import SimulatedConfigs
from core.plan.copies import Side
from core.plan.plan import Move
from core.run.journal.throttle_values import (
    ListIntent,
    RateIntent,
    entries,
    joined,
    list_now,
    missing,
    own_list,
)
from core.run.throttles.changes import (
    batch_lists,
    delete_changes,
    intend_lists,
    intend_rates,
    list_changes,
    not_in_force,
    rate_changes,
    restore_changes,
    subtract_changes,
)


def planned(name, before, after) -> Move:
    return Move(tp(name), tuple(before), tuple(after))


def listed(text: str) -> frozenset[str]:
    return frozenset(text.split(","))


KAFKA = (
    [
        planned("foo-0", (1, 2, 3), (1, 2, 5)),
        planned("foo-1", (4, 5, 6), (6, 7, 8)),
        planned("foo-2", (1, 2), (3, 4)),
        planned("foo-3", (1, 2), (5, 6)),
        planned("foo-4", (1, 2), (3,)),
        planned("foo-5", (1, 2), (3, 4, 5, 6)),
        planned("bar-0", (2, 3, 4), (1, 2, 3)),
    ],
    {
        "foo": listed("0:1,0:2,0:3,1:4,1:5,1:6,2:1,2:2,3:1,3:2,4:1,4:2,5:1,5:2"),
        "bar": listed("0:2,0:3,0:4"),
    },
    {
        "foo": listed("0:5,1:7,1:8,2:3,2:4,3:5,3:6,4:3,5:3,5:4,5:5,5:6"),
        "bar": listed("0:1"),
    },
)
"""Of Kafka's tool, each partition in flight as one move from the replicas that it had before."""
TOPICCTL = (
    [planned("t-3", (1, 2, 3), (1, 7, 3)), planned("t-5", (1, 5, 6), (8, 10, 9))],
    {"t": listed("3:1,3:2,3:3,5:1,5:5,5:6")},
    {"t": listed("3:7,5:8,5:9,5:10")},
)


@pytest.mark.parametrize(("moves", "leader", "follower"), [KAFKA, TOPICCTL])
def test_follower_lists_match_those_of_other_tools_and_leader_lists_include_them(
    moves, leader, follower
):
    both = {(topic, Side.LEADER): leader[topic] | follower[topic] for topic in leader}
    arriving = {(topic, Side.FOLLOWER): pairs for topic, pairs in follower.items()}
    assert batch_lists(moves) == both | arriving


@pytest.mark.parametrize("after", [(1, 2, 0), (2, 0, 1), (0, 1)])
def test_move_that_copies_nothing_needs_no_throttle_list_entries(after):
    assert batch_lists([planned("t-0", (0, 1, 2), after)]) == {}


@pytest.mark.parametrize(
    ("existing", "to_append"),
    [
        (None, ("0:0", "0:1", "0:2")),
        ("", ("0:0", "0:1", "0:2")),
        ("1:0,1:1", ("0:0", "0:1", "0:2")),
        ("0:1, 1:1", ("0:0", "0:2")),
        ("0:0,0:1,0:2", ()),
        ("*", ()),
    ],
)
def test_only_missing_entries_are_appended_and_a_star_is_left_unchanged(existing, to_append):
    wanted = batch_lists([planned("t-0", (0, 1), (0, 2))])["t", Side.LEADER]
    assert missing(wanted, existing) == to_append


def test_entries_are_sorted_numerically_by_partition_and_broker():
    assert joined({"10:1", "2:10", "2:9"}) == "2:9,2:10,10:1"
    assert entries(joined({"10:1", "2:10"})) == {"10:1", "2:10"}


T, B = Resource.topic("t"), Resource.broker(2)
GONE = Fault("UNKNOWN_TOPIC_OR_PARTITION")


def own(value: str) -> ConfigValue:
    return ConfigValue(value, ConfigSource.TOPIC)


def held(
    configs: Mapping[Resource, Mapping[str, ConfigValue]],
) -> dict[tuple[str, Side], frozenset[str]]:
    return {("t", side): entries(own_list(configs[T], side)) for side in Side}


def test_cruise_controls_example_list_is_extended_and_restored() -> None:
    """p0 [0,1]→[0,2], the list had `1:0,1:1`."""
    configs = {T: {LEADER_LIST: own("1:0,1:1")}}
    leader, follower = intend_lists([move("t", 0, (0, 1), (0, 2))], configs, {}, held(configs), {})
    assert leader == ListIntent("t", Side.LEADER, "1:0,1:1", ("0:0", "0:1", "0:2"))
    assert follower == ListIntent("t", Side.FOLLOWER, None, ("0:2",))
    assert [(c.op, c.value) for c in list_changes([leader, follower])] == [
        (ConfigOp.APPEND, "0:0,0:1,0:2"),
        (ConfigOp.APPEND, "0:2"),
    ]
    there = frozenset({"0:0", "0:1", "0:2", "1:0", "1:1"})
    assert subtract_changes(leader, leader.pairs, there) == [
        ConfigChange(T, LEADER_LIST, ConfigOp.SUBTRACT, "0:0,0:1,0:2")
    ]
    assert delete_changes(leader, frozenset({"1:0", "1:1"})) == []
    assert delete_changes(follower, frozenset()) == [
        ConfigChange(T, FOLLOWER_LIST, ConfigOp.DELETE)
    ]


@pytest.mark.parametrize(
    ("prior", "now", "unverified", "taken", "unset"),
    [
        (None, "0:1", False, "0:1", False),
        (None, "0:1,1:1", False, "0:1", False),
        (None, "1:1", False, None, False),
        (None, "1:1", True, "0:1", False),
        (None, "", False, None, True),
        (None, "", True, "0:1", True),
        ("", "0:1", False, "0:1", False),
        ("", "", False, None, False),
        ("5:5", "0:1,5:5", False, "0:1", False),
        ("5:5", "5:5", False, None, False),
        ("5:5", "*", False, None, False),
        (None, "*", True, None, False),
    ],
)
def test_restoring_a_list_removes_only_our_pairs_and_unsets_one_that_was_unset(
    prior: str | None, now: str, unverified: bool, taken: str | None, unset: bool
) -> None:
    intent, there = ListIntent("t", Side.LEADER, prior, ("0:1",)), entries(now)
    changes = subtract_changes(intent, intent.pairs, there, unverified=unverified)
    assert [c.value for c in changes] == ([] if taken is None else [taken])
    assert bool(delete_changes(intent, there)) is unset


@pytest.mark.parametrize(
    ("shown", "there", "now"),
    [
        (None, "", None),
        ("", "", ""),
        ("1:1", "", None),
        ("1:1,0:1", "0:1,1:1", "1:1,0:1"),
        (None, "9:5", "9:5"),
        ("*", "9:5", "9:5"),
    ],
)
def test_list_value_follows_the_controllers_entries_rather_than_the_shown_config(
    shown: str | None, there: str, now: str | None
) -> None:
    assert list_now(shown, entries(there)) == now


def test_deleted_topic_needs_no_throttle_lists() -> None:
    assert intend_lists([move("t", 0, (1,), (2,))], {T: GONE}, {}, {}, {}) == ()


@pytest.mark.parametrize(
    ("value", "source", "sets", "back"),
    [
        (None, ConfigSource.DEFAULT, 100, (ConfigOp.DELETE, None)),
        (str(2**63 - 1), ConfigSource.DEFAULT, 100, (ConfigOp.DELETE, None)),
        ("900", ConfigSource.BROKER, 100, (ConfigOp.SET, "900")),
        ("900", ConfigSource.BROKER_DEFAULT, 100, (ConfigOp.DELETE, None)),
        ("900", ConfigSource.STATIC, 100, (ConfigOp.DELETE, None)),
        ("100", ConfigSource.BROKER, None, None),
        ("50", ConfigSource.BROKER, None, None),
        ("50", ConfigSource.BROKER_DEFAULT, None, None),
        ("50", ConfigSource.STATIC, None, None),
    ],
)
def test_rate_is_set_and_restored_by_its_source_unless_the_found_one_is_as_low(
    value: str | None,
    source: ConfigSource,
    sets: int | None,
    back: tuple[ConfigOp, str | None] | None,
) -> None:
    configs = {B: {} if value is None else {FOLLOWER_RATE: ConfigValue(value, source)}}
    intents = intend_rates([move("t", 0, (1,), (2,))], 100, configs, ())
    intent = next(i for i in intents if i.side is Side.FOLLOWER)
    assert intent.rate_bytes_per_s == sets
    assert len(rate_changes([intent])) == (sets is not None)
    ours = {B: {FOLLOWER_RATE: ConfigValue("100", ConfigSource.BROKER)}}
    changes = restore_changes(intent, ours)
    assert [(c.op, c.value) for c in changes] == ([] if back is None else [back])


def test_lower_external_rate_is_overridden_only_on_request() -> None:
    configs = {B: {FOLLOWER_RATE: ConfigValue("50", ConfigSource.BROKER)}}
    moves = [move("t", 0, (1,), (2,))]
    asked = intend_rates(moves, 100, configs, (), override=True)
    assert {i.rate_bytes_per_s for i in asked if i.side is Side.FOLLOWER} == {100}


def test_broker_that_is_down_gets_no_rate() -> None:
    intents = intend_rates([move("t", 0, (1, 3), (2, 3))], 100, {B: {}}, ())
    assert {i.broker for i in intents} == {2}


def test_read_back_reports_the_lists_and_rates_that_are_not_in_force() -> None:
    lists = [ListIntent("t", Side.LEADER, None, ("0:1",))]
    rates = [RateIntent(2, Side.LEADER, None, ConfigSource.DEFAULT, 100)]
    there = {
        T: {LEADER_LIST: own("0:1,9:9")},
        B: {LEADER_RATE: ConfigValue("100", ConfigSource.BROKER)},
    }
    assert not_in_force(lists, rates, there) == ()
    assert not_in_force(lists, rates, {T: {LEADER_LIST: own("*")}, B: there[B]}) == ()
    assert not_in_force(lists, rates, {}) == ("the leader list of t", "the leader rate of broker 2")


pairs = st.sets(st.sampled_from([f"{p}:{b}" for p in range(3) for b in range(4)]), max_size=6)


@settings(deadline=None)
@given(
    before=st.one_of(st.none(), st.just("*"), pairs.map(lambda s: ",".join(sorted(s)))),
    external_pairs=pairs,
    order=st.permutations([0, 1]),
)
def test_prior_and_concurrently_added_list_entries_remain_after_all_moves_end(
    before: str | None, external_pairs: set[str], order: list[int]
) -> None:
    """Two moves are listed, somebody appends, the moves end in any order."""
    configs = SimulatedConfigs({T: {} if before is None else {LEADER_LIST: before}}, {})
    moves = [move("t", 0, (0, 1), (0, 2)), move("t", 1, (1, 2), (3, 2))]

    def found() -> dict[Resource, dict[str, ConfigValue]]:
        return {T: configs.effective(T)}

    intents = {i.side: i for i in intend_lists(moves, found(), {}, held(found()), {})}
    assert configs.apply(list_changes(intents.values())) is None
    came = external_pairs - {pair for i in intents.values() for pair in i.pairs}
    if came and before != "*":
        added = ConfigChange(T, LEADER_LIST, ConfigOp.APPEND, ",".join(sorted(came)))
        assert configs.apply([added]) is None
    for partition in order:
        for intent in intents.values():
            ended = [pair for pair in intent.pairs if pair.startswith(f"{partition}:")]
            there = configs.entries(T, intent.side.list_config)
            assert configs.apply(subtract_changes(intent, ended, there)) is None
            left = configs.entries(T, intent.side.list_config)
            assert configs.apply(delete_changes(intent, left)) is None
    value = configs.effective(T)[LEADER_LIST]
    after = value.value if value.source is ConfigSource.TOPIC else None
    if before == "*":
        assert after == "*"
    elif before is None and not came:
        assert after is None
    else:
        assert after is not None
        assert entries(after) == entries(before) | came
    assert configs.effective(T)[FOLLOWER_LIST].source is ConfigSource.DEFAULT
