"""Who leads, who should, what an election can do about it, and how well topics are."""

from __future__ import annotations

from clusters import cluster, tp

from core.cluster.leaders import (
    BrokerLeaders,
    Election,
    leader_imbalance,
    partition_rows,
    preferred_elections,
    unclean_elections,
)
from core.cluster.topics import TopicHealth, topic_health

AWAY = cluster(
    {"t-0": [1, 2], "t-1": [1, 3], "t-2": [2, 1], "u-0": [3, 1], "u-1": [4, 1]},
    leaders={"t-0": 2, "u-0": 1, "u-1": -1},
    isr={"u-0": [1], "u-1": [4]},
    dead=[4],
)


def test_imbalance_counts_partitions_whose_leader_is_not_the_preferred_broker() -> None:
    assert leader_imbalance(AWAY, partition_rows(AWAY, None)) == (
        BrokerLeaders(1, True, prefers=2, leads=2, away=1),
        BrokerLeaders(2, True, prefers=1, leads=2, away=0),
        BrokerLeaders(3, True, prefers=1, leads=0, away=1),
        BrokerLeaders(4, False, prefers=1, leads=0, away=1),
    )
    assert [b.imbalance for b in leader_imbalance(AWAY, partition_rows(AWAY, None))] == [
        0.5,
        0,
        1,
        1,
    ]


def test_leader_imbalance_can_be_limited_to_some_topics() -> None:
    broker, *_ = leader_imbalance(AWAY, partition_rows(AWAY, ["u"]))
    assert (broker.prefers, broker.leads, broker.imbalance) == (0, 1, 0)


def test_preferred_replica_out_of_sync_or_down_blocks_its_election() -> None:
    assert preferred_elections(AWAY, partition_rows(AWAY, None)) == (
        Election(tp("t-0"), 2, 1, (1, 2)),
        Election(tp("u-0"), 1, 3, (1,), "preferred replica 3 is not in the ISR"),
        Election(tp("u-1"), None, 4, (4,), "preferred replica 4 is down"),
    )


def test_unclean_elections_are_only_for_leaderless_partitions() -> None:
    lost = cluster(
        {"t-0": [3, 2, 1], "t-1": [3, 4], "t-2": [1, 2]},
        leaders={"t-0": -1, "t-1": -1},
        isr={"t-0": [3], "t-1": [4]},
        dead=[3, 4],
    )
    assert unclean_elections(lost, partition_rows(lost, None)) == (
        Election(tp("t-0"), None, 2, (3,), down=(3,)),
        Election(tp("t-1"), None, None, (4,), "none of its replicas is up", (3, 4)),
    )


def test_topic_health_counts_under_replicated_offline_and_moving_partitions() -> None:
    state = cluster(
        {"t-0": [1, 2, 3], "t-1": [1, 2], "t-2": [2, 1], "u-0": [1]},
        leaders={"t-2": -1},
        isr={"t-0": [1, 2], "t-1": [1], "t-2": []},
        adding={"t-0": [3]},
    )
    assert topic_health(state, ["u", "t"]) == (
        TopicHealth("u", None, 1, (1,), under_replicated=0, offline=0, moving=0),
        TopicHealth("t", None, 3, (2,), under_replicated=2, offline=1, moving=1),
    )
