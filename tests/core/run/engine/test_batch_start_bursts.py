"""The first seconds of a throttled run on a simulated cluster, with its batches and without."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from run_help import MB, cluster, plan_of, set_config

from core.cluster.configs import Resource
from core.cluster.log_dirs import with_log_dirs
from core.cluster.simulation.cluster import SimulatedCluster
from core.load.load import Load
from core.plan.batches import plan_batches
from core.plan.plan import Move, Plan
from core.run.journal.throttle_values import joined
from core.run.throttles.changes import batch_lists

SECONDS = 3


def two_leaders() -> SimulatedCluster:
    """Return a cluster in which brokers 1 and 2 lead eight partitions each."""
    client = cluster({"t": [(1 + i % 2,) for i in range(16)]})
    client.advance(20)
    return client


def all_to_3(client: SimulatedCluster) -> Plan:
    return plan_of(client, {("t", i): (3,) for i in range(16)})


def arrived_bytes(client: SimulatedCluster, moves: Sequence[Move], rate: int) -> int:
    """Submit these moves, throttled; return what is on broker 3 a little later."""
    for (topic, side), entries in batch_lists(moves).items():
        for broker in {b for move in moves for b in (*move.before, *move.after)}:
            set_config(client, Resource.broker(broker), side.rate_config, str(rate))
        set_config(client, Resource.topic(topic), side.list_config, joined(entries))
    client.alter_reassignments({move.tp: move.after for move in moves})
    client.advance(SECONDS)
    (logs,) = client.describe_log_dirs([3])
    return sum(log.size_bytes for log in logs.replicas)


@pytest.mark.parametrize("rate", [2 * MB, 3 * MB, 5 * MB, 10 * MB, 30 * MB])
def test_a_run_gets_no_more_than_four_seconds_of_its_rate_in_three(rate: int) -> None:
    client = two_leaders()
    plan = all_to_3(client)
    state = with_log_dirs(client.describe_cluster(), client.describe_log_dirs(range(1, 7)))

    batches = plan_batches(state, Load.unknown(state), plan, rate_bytes_per_s=rate).batches

    first = [plan.moves[i] for i in batches[0]]
    assert 0 < arrived_bytes(client, first, rate) <= 4 * rate


def test_all_of_it_at_once_would_bring_more() -> None:
    client = two_leaders()
    assert arrived_bytes(client, all_to_3(client).moves, 2 * MB) > 4 * 2 * MB
