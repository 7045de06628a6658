"""The demo's workload: skewed on purpose, the same each time."""

from __future__ import annotations

from collections import Counter

import pytest

from core.cluster.sandbox.workload_spec import skewed_workload


@pytest.mark.parametrize("brokers", [(1, 2, 3, 4), (2, 5), (1, 2, 3, 4, 5, 6, 7, 8)])
def test_one_broker_is_hot_and_one_is_quiet(brokers: tuple[int, ...]) -> None:
    produced: Counter[int] = Counter()
    for topic in skewed_workload(brokers, bytes_per_s=1_000_000).topics:
        for replicas, rate in zip(topic.replicas, topic.bytes_per_s, strict=True):
            produced[replicas[0]] += round(rate)
    fair = 1_000_000 / len(brokers)
    assert produced[brokers[0]] > 1.3 * fair
    assert produced[brokers[-1]] < 0.5 * fair
    assert sum(produced.values()) == pytest.approx(1_000_000, rel=0.001)


def test_replicas_are_on_different_brokers() -> None:
    for topic in skewed_workload((1, 2, 3)).topics:
        assert all(len(set(replicas)) == 2 for replicas in topic.replicas)


def test_one_broker_alone_holds_everything_once() -> None:
    assert {r for t in skewed_workload((9,)).topics for r in t.replicas} == {(9,)}


def test_the_same_seed_gives_the_same_placement() -> None:
    assert skewed_workload((1, 2, 3, 4)) == skewed_workload((1, 2, 3, 4))
    assert skewed_workload((1, 2, 3, 4)) != skewed_workload((1, 2, 3, 4), seed=8)


def test_within_a_topic_few_partitions_carry_most() -> None:
    payments = skewed_workload((1, 2, 3, 4)).topics[0]
    rates = sorted(payments.bytes_per_s, reverse=True)
    assert sum(rates[:3]) > sum(rates[3:])
