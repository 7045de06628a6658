"""What the map's first line says, of brokers that have what ids Kafka allows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import cluster, load_of
from simulated import small_spec

from core.cluster.hidden_topics import HiddenLogDir, HiddenTopics
from core.cluster.metadata import Broker, LogDir
from core.cluster.simulation.cluster import SimulatedCluster
from core.load.view.verdicts import Weight, verdicts

HIGHEST = 2**31 - 1


def test_a_broker_with_the_highest_id_takes_no_more_memory() -> None:
    """Counted by id, one verdict would take 16 GiB."""
    spec = small_spec({"t": [(1, HIGHEST), (1, 2)]}, racks={1: "a", 2: "a", HIGHEST: "b"})
    state = SimulatedCluster(spec).describe_cluster()
    behind = replace(state, in_sync=state.replica_broker != HIGHEST)
    found = {verdict.id: verdict for verdict in verdicts(behind, load_of(behind))}
    assert found["racks"].sentence == "1 share a rack"
    assert found["out-of-sync"].broker == HIGHEST


@pytest.mark.parametrize(
    ("used", "said"),
    [
        (0.5, {"b2 log dir failed"}),
        (0.97, {"b2 log dir failed", "b1 disk 97%"}),
    ],
)
def test_a_log_dir_that_failed_is_no_disk_that_is_fine(used: float, said: set[str]) -> None:
    """Its sizes are unknown, so that by the others alone all disks would seem to be."""
    state = cluster({"t-0": [1, 2]}, size_bytes=1)
    full = LogDir("/a", 1_000, round(1_000 * (1 - used)))
    failed = LogDir("/b", error="KAFKA_STORAGE_ERROR")
    state = state.with_brokers([Broker(1, log_dirs=(full,)), Broker(2, log_dirs=(failed,))])
    found = [one for one in verdicts(state, load_of(state)) if one.id == "disks"]
    assert {one.sentence for one in found} == said
    assert {one.weight for one in found} == {Weight.ACT}


@pytest.mark.parametrize(
    ("hidden", "ids"),
    [
        (None, ["disks", "racks"]),
        (HiddenTopics(), ["disks", "racks"]),
        (HiddenTopics(2, (HiddenLogDir(1, "/a", 2, 3, 500),)), ["skew-size", "hidden", "disks"]),
        (HiddenTopics(why_unknown="nobody told"), ["hidden", "disks"]),
    ],
)
def test_what_is_hidden_is_told_of_and_nothing_is_fine_beside_it_that_it_may_break(
    hidden: HiddenTopics | None, ids: list[str]
) -> None:
    state = cluster({"t-0": [1, 2], "t-1": [2, 1]}, size_bytes=100, disk_bytes=(1_000, 500))
    brokers = [replace(b, rack="ab"[b.id - 1]) for b in state.brokers]
    state = replace(state.with_brokers(brokers), hidden=hidden)
    assert [one.id for one in verdicts(state, load_of(state))] == ids
