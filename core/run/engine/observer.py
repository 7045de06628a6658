"""Observes the cluster for a run, no oftener than needed, and how long conditions last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from core.clock import Clock
from core.cluster.balancers import find_balancer, likely_config_editor
from core.cluster.client import ClusterClient
from core.cluster.configs import FOLLOWER_LIST, ConfigValue, Resource
from core.cluster.kafka_errors import Fault, is_missing
from core.cluster.metadata import PartitionRow, Reassignment, TopicPartition
from core.cluster.state import ClusterState
from core.errors import UnreachableError
from core.plan.plan import Move
from core.run.backoff import with_denials_as_faults
from core.run.journal.move_state import RunMove
from core.run.journal.run_state import RunState
from core.run.steps import SETTLE_SECONDS, Observation
from core.run.throttles.rules import required_lists
from core.run.throttles.write_and_read_back import fetch_throttle_configs

DESCRIBE_SECONDS = 1.0
DUTY = 10
"""A full description is asked again after ten times as long as it took."""
THROTTLES_SECONDS = 2.0
"""How often throttles are looked at while moves are in flight; what is odd, a second later."""
GUARDED_SECONDS = 0.5
"""How often where somebody takes them away: what is in flight is copied at wire speed meanwhile."""
ASK_SECONDS = 5.0
"""How long an answer about one topic that is not shown is kept."""

_Answer = dict[str, ConfigValue] | Fault


class Observer:
    """Looks at one cluster for one run."""

    def __init__(self, client: ClusterClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._state: ClusterState | None = None
        self._described = 0.0
        self._listed: frozenset[TopicPartition] = frozenset()
        self._steady: dict[TopicPartition, tuple[object, float]] = {}
        self._answers: dict[str, tuple[float, _Answer]] = {}
        self._throttles: dict[Resource, _Answer] = {}
        self._throttles_due = 0.0
        self.took_seconds = 0.0
        """How long the last description took."""

    def look(self, run: RunState, *, afresh: bool) -> Observation:
        """Return what the cluster shows; reassignments first, so that rows are never older.

        While nothing of ours ends, a description may be a second old unless `afresh`. Raises
        UnreachableError where this is another cluster, which a name or an address may come to lead
        to at any time: the run's is away, and waited for.
        """
        reassignments = self._client.fetch_reassignments()
        tps = frozenset(run.moves[i].move.tp for i in run.in_flight)
        listed = tps & reassignments.keys()
        now = self._clock.monotonic()
        old = now - self._described >= max(DESCRIBE_SECONDS, DUTY * self.took_seconds)
        if self._state is None or afresh or old or listed != self._listed or listed != tps:
            state = self._client.describe_cluster()
            if state.cluster_id != run.cluster_id:
                raise UnreachableError(
                    f"This is cluster {state.cluster_id}; the run works on {run.cluster_id}.",
                    next="If its brokers have other addresses now, say -b HOST:PORT.",
                )
            # Whoever described it has another clock, and that may be set.
            self._state = replace(state, fetched_at=self._clock.now())
            self._described = self._clock.monotonic()
            self.took_seconds = self._described - now
        self._listed = listed
        # Moves in flight, and those of the next batch where it may begin meanwhile.
        next_ = run.next_batch if run.explicit or not run.in_flight else []
        looked_at = [run.moves[index] for index in (*run.in_flight, *next_)]
        moves = [m.move for m in looked_at]
        rows = _rows(moves, self._state)
        steady = self._steady_seconds(looked_at, reassignments, rows)
        # A description leaves out what its user may not see, and what its broker does not know yet.
        absent = {
            move.tp: self._why_hidden(move)
            for move in moves
            if move.tp not in rows and steady[move.tp] >= SETTLE_SECONDS
        }
        return Observation(
            reassignments=reassignments,
            rows=rows,
            alive=frozenset(self._state.alive_ids),
            steady_seconds=steady,
            gone=frozenset(tp for tp, why in absent.items() if not why),
            hidden={tp: why for tp, why in absent.items() if why},
            throttles=self._fetch_throttles(run),
            balancer=find_balancer(self._state),
            editor=likely_config_editor(self._state),
        )

    @property
    def state(self) -> ClusterState:
        """Return the last description; there is one after the first look."""
        assert self._state is not None
        return self._state

    def forget_throttles(self, *, guarded: bool) -> None:
        """Look at throttles anew, twice: they are being changed by the run itself."""
        self._throttles = {}
        self._throttles_due = self._clock.monotonic() + (GUARDED_SECONDS if guarded else 1.0)

    def _fetch_throttles(self, run: RunState) -> dict[Resource, _Answer]:
        """Return the throttles that two looks have shown alike: a broker may lag behind another."""
        now = self._clock.monotonic()
        if now < self._throttles_due or not (run.in_flight or run.queued):
            return {}
        brokers = {broker for broker, _ in run.throttles.rates}.intersection(self.state.alive_ids)
        topics = (topic for topic, _ in required_lists(run))
        configs = fetch_throttle_configs(with_denials_as_faults(self._client), topics, brokers)
        took = self._clock.monotonic() - now
        alike = {r: a for r, a in configs.items() if self._throttles.get(r) == a}
        wait = THROTTLES_SECONDS if len(alike) == len(configs) else 1.0
        if run.guarded:  # of lists the controller is asked, of rates that very broker is
            alike, wait = configs, GUARDED_SECONDS
        self._throttles, self._throttles_due = configs, now + max(wait, DUTY * took)
        return alike

    def _steady_seconds(
        self,
        moves: list[RunMove],
        reassignments: Mapping[TopicPartition, Reassignment],
        rows: Mapping[TopicPartition, PartitionRow],
    ) -> dict[TopicPartition, float]:
        """Return for how long each partition has looked exactly like this, submitted so often.

        Counted from one description to another: one alone, however old, says nothing of that.
        """
        described = self._described
        steady: dict[TopicPartition, tuple[object, float]] = {}
        for m in moves:
            tp, row = m.move.tp, rows.get(m.move.tp)
            shape = (reassignments.get(tp), row and (row.replicas, row.leader), m.tries)
            known, since = self._steady.get(tp, (None, described))
            steady[tp] = (shape, since if known == shape else described)
        self._steady = steady
        return {tp: described - since for tp, (_, since) in steady.items()}

    def _why_hidden(self, move: Move) -> str:
        """Return why a partition is not shown, "" when it does not exist any more."""
        assert self._state is not None
        topic = self._state.topic(move.tp.topic)
        if topic is not None:
            same = bool(move.topic_id) and topic.id == move.topic_id
            return (
                f"{move.tp} is not in the cluster's description, but its topic is" if same else ""
            )
        answer = self._ask(move.tp.topic)
        if is_missing(answer):
            return ""
        allow = f"allow the run's user to describe topic {move.tp.topic}"
        if isinstance(answer, Fault):
            return f"{move.tp} is not to be seen ({answer.name}): {allow}"
        return f"{move.tp} is not in the cluster's description, though it exists: {allow}"

    def _ask(self, topic: str) -> _Answer:
        """Return what the cluster says of one topic's configs, asked for by name."""
        at, answer = self._answers.get(topic, (0.0, Fault("")))
        if topic not in self._answers or self._described - at >= ASK_SECONDS:
            resource = Resource.topic(topic)
            answer = with_denials_as_faults(self._client).describe_configs(
                [resource], [FOLLOWER_LIST]
            )[resource]
            self._answers[topic] = (self._described, answer)
        return answer


def _rows(moves: list[Move], state: ClusterState) -> dict[TopicPartition, PartitionRow]:
    rows = {}
    for move in moves:
        at, topic = state.find(move.tp), state.topic(move.tp.topic)
        same = topic is not None and (not move.topic_id or topic.id in (None, move.topic_id))
        if at is not None and same:
            rows[move.tp] = state.row(at)
    return rows


MIN_SECONDS = 0.1
MAX_SECONDS = 2.0
BUSY_MAX_SECONDS = 1.0
"""The most while rates rise second by second, or nothing tells how far copies are."""
BUSY_SECONDS = 3.0
"""How long rates are thought to be on their way after a step."""


def seconds_to_next_look(elapsed_seconds: float, nearest: float | None) -> float:
    """Return how long to wait, `elapsed_seconds` after the last moves were submitted.

    `nearest` is the share, 0 to 1, that has come of the copy that is nearest to its end, None where
    nothing is copied or that is not known. An end is noticed at most a hundredth of the time so far
    late, as long as copies go on as they have; early figures are not relied on for long.
    """
    if nearest is None:
        return min(BUSY_MAX_SECONDS, max(MIN_SECONDS, elapsed_seconds / 50))
    left = elapsed_seconds * (1 / nearest - 1) if nearest else float("inf")
    wait = min(left / 20, elapsed_seconds / 5)
    return min(MAX_SECONDS, max(MIN_SECONDS, elapsed_seconds / 100, wait))
