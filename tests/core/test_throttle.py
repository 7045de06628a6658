"""Throttles as values: what is set, read back and put back, case by case."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_help import move

from core.cluster.client import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    ConfigValue,
    Fault,
    Resource,
)
from core.cluster.simulation.configs import SimulatedConfigs
from core.plan.throttle_lists import entries
from core.run.limits.throttle import (
    ListIntent,
    RateIntent,
    Side,
    intend_lists,
    intend_rates,
    list_changes,
    not_in_force,
    rate_changes,
    remove_changes,
    restore_changes,
)

T, B = Resource.topic("t"), Resource.broker(2)
GONE = Fault("UNKNOWN_TOPIC_OR_PARTITION")


def own(value: str) -> ConfigValue:
    return ConfigValue(value, ConfigSource.TOPIC)


def test_cruise_controls_case_is_set_and_restored() -> None:
    """p0 [0,1]→[0,2], the list had `1:0,1:1`."""
    found = {T: {LEADER_LIST: own("1:0,1:1")}}
    leader, follower = intend_lists([move("t", 0, (0, 1), (0, 2))], found, {})
    assert leader == ListIntent("t", Side.LEADER, "1:0,1:1", ("0:0", "0:1", "0:2"))
    assert follower == ListIntent("t", Side.FOLLOWER, None, ("0:2",))
    assert [(c.op, c.value) for c in list_changes([leader, follower])] == [
        (ConfigOp.APPEND, "0:0,0:1,0:2"),
        (ConfigOp.APPEND, "0:2"),
    ]
    meanwhile = {T: {LEADER_LIST: own("0:0,0:1,0:2,1:0,1:1"), FOLLOWER_LIST: own("0:2")}}
    assert remove_changes(leader, leader.pairs, meanwhile) == [
        ConfigChange(T, LEADER_LIST, ConfigOp.SUBTRACT, "0:0,0:1,0:2")
    ]
    assert remove_changes(follower, follower.pairs, meanwhile) == [
        ConfigChange(T, FOLLOWER_LIST, ConfigOp.DELETE)
    ]


@pytest.mark.parametrize(
    ("prior", "now", "pairs", "expected"),
    [
        (None, "0:1", ("0:1",), (ConfigOp.DELETE, None)),
        (None, "0:1,1:1", ("0:1",), (ConfigOp.SUBTRACT, "0:1")),
        (None, "", ("0:1",), (ConfigOp.DELETE, None)),
        (None, None, ("0:1",), None),
        ("", "0:1", ("0:1",), (ConfigOp.SUBTRACT, "0:1")),
        ("5:5", "0:1,5:5", ("0:1",), (ConfigOp.SUBTRACT, "0:1")),
        ("5:5", "5:5", ("0:1",), None),
        ("5:5", "*", ("0:1",), None),
    ],
)
def test_a_list_is_put_back(
    prior: str | None,
    now: str | None,
    pairs: tuple[str, ...],
    expected: tuple[ConfigOp, str | None] | None,
) -> None:
    found = {T: {} if now is None else {LEADER_LIST: own(now)}}
    changes = remove_changes(ListIntent("t", Side.LEADER, prior, pairs), pairs, found)
    assert [(c.op, c.value) for c in changes] == ([] if expected is None else [expected])


def test_a_topic_that_is_gone_needs_nothing() -> None:
    intent = ListIntent("t", Side.LEADER, None, ("0:1",))
    assert remove_changes(intent, intent.pairs, {T: GONE}) == []
    assert intend_lists([move("t", 0, (1,), (2,))], {T: GONE}, {}) == ()


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
def test_a_rate_is_set_and_put_back(
    value: str | None,
    source: ConfigSource,
    sets: int | None,
    back: tuple[ConfigOp, str | None] | None,
) -> None:
    found = {B: {} if value is None else {FOLLOWER_RATE: ConfigValue(value, source)}}
    intents = intend_rates([move("t", 0, (1,), (2,))], 100, found, ())
    intent = next(i for i in intents if i.side is Side.FOLLOWER)
    assert intent.rate_bytes_per_s == sets
    assert len(rate_changes([intent])) == (sets is not None)
    ours = {B: {FOLLOWER_RATE: ConfigValue("100", ConfigSource.BROKER)}}
    changes = restore_changes(intent, ours)
    assert [(c.op, c.value) for c in changes] == ([] if back is None else [back])


def test_a_lower_foreign_rate_is_overridden_only_when_asked() -> None:
    found = {B: {FOLLOWER_RATE: ConfigValue("50", ConfigSource.BROKER)}}
    moves = [move("t", 0, (1,), (2,))]
    asked = intend_rates(moves, 100, found, (), override=True)
    assert {i.rate_bytes_per_s for i in asked if i.side is Side.FOLLOWER} == {100}


def test_a_broker_that_is_down_is_left_out() -> None:
    intents = intend_rates([move("t", 0, (1, 3), (2, 3))], 100, {B: {}}, ())
    assert {i.broker for i in intents} == {2}


def test_reading_back_names_what_is_off() -> None:
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
    others=pairs,
    order=st.permutations([0, 1]),
)
def test_whatever_was_there_and_came_meanwhile_is_there_afterwards(
    before: str | None, others: set[str], order: list[int]
) -> None:
    """Two moves are listed, somebody appends, the moves end in any order."""
    configs = SimulatedConfigs({T: {} if before is None else {LEADER_LIST: before}}, {})
    moves = [move("t", 0, (0, 1), (0, 2)), move("t", 1, (1, 2), (3, 2))]

    def found() -> dict[Resource, dict[str, ConfigValue]]:
        return {T: configs.effective(T)}

    intents = {i.side: i for i in intend_lists(moves, found(), {})}
    assert configs.apply(list_changes(intents.values())) is None
    came = others - {pair for i in intents.values() for pair in i.pairs}
    if came and before != "*":
        added = ConfigChange(T, LEADER_LIST, ConfigOp.APPEND, ",".join(sorted(came)))
        assert configs.apply([added]) is None
    for partition in order:
        for intent in intents.values():
            ended = [pair for pair in intent.pairs if pair.startswith(f"{partition}:")]
            assert configs.apply(remove_changes(intent, ended, found())) is None
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
