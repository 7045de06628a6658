"""Samples the bytes that have arrived, per partition, from the destinations' log dirs.

Of a replica that changes its log dir, those that have been copied into the new one.

Only destinations are asked often; leaders, whose logs grow while they are copied, now and then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.metadata import TopicPartition
from core.run.journal.run_state import RunState
from core.run.steps import Observation

DUTY = 10
"""A call is made again after ten times its duration, so that it never loads a broker."""
LEADERS_SECONDS = 10.0
SOON_SECONDS = 2.5
"""How soon leaders are asked again while a move is young: whether a log outgrows its copy shows
at once."""
FIRST_SECONDS = 0.25
STEADY_SECONDS = 1.0


_Held = tuple[int, TopicPartition, str | None]


class Sampler:
    """Asks log dirs at a pace that follows the run's length and the calls' duration."""

    def __init__(self, client: ClusterClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._due = self._leaders_due = self._first = self._newest = 0.0
        self._leader_sizes: dict[TopicPartition, int] = {}
        self._last_bytes: dict[int, tuple[int, float]] = {}
        self._arrived: dict[int, list[int | None]] = {}
        """What each move's destinations were last seen to hold, while it is in flight."""
        self.disks: dict[int, str] = {}
        """Brokers with a log dir that takes no more, in words, as they last answered."""
        self.nearest: float | None = None
        """Share that had come of the copy nearest to its end; None where that is not known."""

    @property
    def arrived(self) -> dict[int, int]:
        """Return what destinations of moves in flight hold on average, as last seen, by index."""
        known = self._arrived.items()
        return {i: sum(b or 0 for b in parts) // len(parts) for i, parts in known if parts}

    def sample(self, run: RunState, observed: Observation) -> dict[str, Any] | None:
        """Return a journal sample of the moves in flight, or None when none is due.

        `moves`: [index, leader's bytes or null, leader, bytes on each receiving broker or null,
        when any byte last came]; `down`: the brokers that are not alive; `held`: moves of which
        some bytes are those last known; `disks`, if any: what is wrong with which broker's.
        """
        copying = [i for i in run.in_flight if run.moves[i].move.receiving]
        now = self._clock.monotonic()
        if now < self._due:
            return None
        self.nearest = None
        if not copying:  # a disk that was mended lets batches begin again
            self._ask(self.disks.keys() & observed.alive)
            self._due = now + max(STEADY_SECONDS, DUTY * (self._clock.monotonic() - now))
            return None
        self._first = self._first or now
        if any(index not in self._last_bytes for index in copying):
            self._newest = self._leaders_due = now
        moves = [run.moves[i].move for i in copying]
        destinations = {b for move in moves for b in move.receiving}
        involved = {b for move in moves for b in (*move.before, *move.after)}
        if now >= self._leaders_due:
            self._fetch_leader_sizes(run, observed, copying)
        sizes = self._ask((destinations | self.disks.keys()) & observed.alive)
        took = self._clock.monotonic() - now
        rate_control = min(STEADY_SECONDS, max(FIRST_SECONDS, (now - self._first) / 20))
        self._due = now + max(rate_control, DUTY * took)
        moment = self._clock.now().timestamp()
        held = self._merge_sizes(run, copying, sizes)
        self.nearest = self._max_copied_share(run, copying)
        self._last_bytes = {
            index: size for index, size in self._last_bytes.items() if index in copying
        }
        return {
            "moves": [self._entry(run, observed, i, moment) for i in copying],
            "held": held,
            "down": sorted(involved - observed.alive),
        } | ({"disks": {str(b): why for b, why in self.disks.items()}} if self.disks else {})

    def _fetch_leader_sizes(self, run: RunState, observed: Observation, copying: list[int]) -> None:
        tps = {run.moves[i].move.tp for i in copying}
        leaders = {row.leader for tp in tps if (row := observed.rows.get(tp)) is not None}
        sizes = self._ask(leaders & observed.alive)
        for tp in tps:
            row = observed.rows.get(tp)
            if row is not None and (row.leader, tp, None) in sizes:
                self._leader_sizes[tp] = sizes[row.leader, tp, None]
        now = self._clock.monotonic()
        young = now - self._newest < LEADERS_SECONDS
        self._leaders_due = now + (SOON_SECONDS if young else LEADERS_SECONDS)

    def _ask(self, brokers: Iterable[int]) -> dict[_Held, int]:
        """Return bytes of logs by broker, partition and log dir; None is any, but for copies."""
        ids = sorted(brokers)
        sizes: dict[_Held, int] = {}
        for answer in self._client.describe_log_dirs(ids) if ids else ():
            if answer.error is not None:
                continue
            self.disks.pop(answer.broker, None)
            failed = next((log_dir for log_dir in answer.log_dirs if log_dir.error), None)
            if failed is not None:
                why = f"log dir {failed.path} of broker {answer.broker} fails ({failed.error})"
                self.disks[answer.broker] = why
            for log in answer.replicas:
                tp = TopicPartition(log.topic, log.partition)
                sizes[answer.broker, tp, log.log_dir] = log.size_bytes
                if not log.future:
                    sizes[answer.broker, tp, None] = log.size_bytes
        return sizes

    def _merge_sizes(self, run: RunState, copying: list[int], sizes: dict[_Held, int]) -> list[int]:
        """Take sizes in; return the moves of which a size is missing that was known before."""
        held = []
        last, self._arrived = self._arrived, {}
        for index in copying:
            move = run.moves[index].move
            now = [sizes.get((broker, move.tp, None)) for broker in move.adding]
            now += [
                None if there is None else sizes.get((broker, move.tp, path), 0)
                for broker, path in move.dir_moves.items()
                for there in (sizes.get((broker, move.tp, None)),)
            ]
            before = last.get(index, [None] * len(now))
            self._arrived[index] = [b if a is None else a for a, b in zip(now, before, strict=True)]
            if self._arrived[index] != now:
                held.append(index)
        return held

    def _max_copied_share(self, run: RunState, copying: list[int]) -> float | None:
        shares = [
            min(1.0, min(part or 0 for part in self._arrived[index]) / size) if size else 1.0
            for index in copying
            if (size := self._leader_sizes.get(run.moves[index].move.tp)) is not None
        ]
        return max(shares, default=None)

    def _entry(self, run: RunState, observed: Observation, index: int, moment: float) -> list[Any]:
        m = run.moves[index]
        row = observed.rows.get(m.move.tp)
        arrived = self._arrived[index]
        total = sum(size or 0 for size in arrived)
        before, since = self._last_bytes.get(index, (-1, moment))
        if total != before:
            since = moment
        self._last_bytes[index] = (total, since)
        # What it had at preflight is no size of now: from one to the other it would seem to grow.
        size = self._leader_sizes.get(m.move.tp)
        leader = m.leader if row is None else row.leader
        return [index, size, leader, arrived, round(since, 3)]
