"""The lookout: what a run sees of its cluster, no oftener than is needed, and for how long so."""

from __future__ import annotations

from collections.abc import Mapping

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.state import ClusterState, PartitionRow, Reassignment, TopicPartition
from core.run.history import History
from core.run.steps import Observed

DESCRIBE_SECONDS = 1.0
DUTY = 10
"""A full description is asked again after ten times as long as it took."""


class Lookout:
    """Looks at one cluster for one run."""

    def __init__(self, client: ClusterClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._state: ClusterState | None = None
        self._described = 0.0
        self._listed: frozenset[TopicPartition] = frozenset()
        self._steady: dict[TopicPartition, tuple[object, float]] = {}
        self.took_seconds = 0.0
        """How long the last description took."""

    def look(self, history: History, *, afresh: bool) -> Observed:
        """Return what the cluster shows; reassignments first, so that rows are never older.

        While nothing of ours ends, a description may be a second old unless `afresh`.
        """
        reassignments = self._client.reassignments()
        tps = frozenset(history.moves[i].move.tp for i in history.in_flight)
        listed = tps & reassignments.keys()
        now = self._clock.monotonic()
        old = now - self._described >= max(DESCRIBE_SECONDS, DUTY * self.took_seconds)
        if self._state is None or afresh or old or listed != self._listed or listed != tps:
            self._state = self._client.describe()
            self._described = self._clock.monotonic()
            self.took_seconds = self._described - now
        self._listed = listed
        rows = _rows(history, self._state)
        return Observed(
            reassignments=reassignments,
            rows=rows,
            alive=frozenset(broker.id for broker in self._state.brokers if broker.alive),
            steady_seconds=self._steadiness(tps, reassignments, rows),
        )

    def _steadiness(
        self,
        tps: frozenset[TopicPartition],
        reassignments: Mapping[TopicPartition, Reassignment],
        rows: Mapping[TopicPartition, PartitionRow],
    ) -> dict[TopicPartition, float]:
        """Return for how long each partition in flight has looked exactly like this."""
        now = self._clock.monotonic()
        steady: dict[TopicPartition, tuple[object, float]] = {}
        for tp in tps:
            row = rows.get(tp)
            shape = (reassignments.get(tp), row and (row.replicas, row.leader))
            known, since = self._steady.get(tp, (None, now))
            steady[tp] = (shape, since if known == shape else now)
        self._steady = steady
        return {tp: now - since for tp, (_, since) in steady.items()}


def _rows(history: History, state: ClusterState) -> dict[TopicPartition, PartitionRow]:
    """Return the partitions in flight, else those of the next batch, as far as they exist."""
    queued = history.queued
    wanted = history.in_flight or (history.batch(history.moves[queued[0]].batch) if queued else [])
    rows = {}
    for index in wanted:
        move = history.moves[index].move
        at, topic = state.find(move.tp), state.topic(move.tp.topic)
        same = topic is not None and (not move.topic_id or topic.id in (None, move.topic_id))
        if at is not None and same:
            rows[move.tp] = state.row(at)
    return rows
