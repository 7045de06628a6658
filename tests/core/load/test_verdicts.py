"""What the map's first line says, of brokers that have what ids Kafka allows."""

from __future__ import annotations

from dataclasses import replace

from clusters import load_of
from simulated import small_spec

from core.cluster.simulation.cluster import SimulatedCluster
from core.load.verdicts import verdicts

HIGHEST = 2**31 - 1


def test_a_broker_with_the_highest_id_takes_no_more_memory() -> None:
    """Counted by id, one verdict would take 16 GiB."""
    spec = small_spec({"t": [(1, HIGHEST), (1, 2)]}, racks={1: "a", 2: "a", HIGHEST: "b"})
    state = SimulatedCluster(spec).describe()
    behind = replace(state, in_sync=state.replica_broker != HIGHEST)
    found = {verdict.id: verdict for verdict in verdicts(behind, load_of(behind))}
    assert found["racks"].sentence == "1 share a rack"
    assert found["out-of-sync"].broker == HIGHEST
