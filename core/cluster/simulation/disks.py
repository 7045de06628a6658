"""The simulated brokers' log dirs: their room, which are offline, and replicas between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from core.cluster.client import Fault
from core.cluster.simulation.spec import BrokerSpec
from core.cluster.state import TopicPartition

BYTES_PER_S = 200e6
"""How fast a broker copies between its log dirs when nothing throttles it."""


@dataclass(slots=True)
class DirMove:
    """One replica on its way to another log dir of its broker."""

    to: int
    copied_bytes: float = 0.0
    left_behind: bool = False
    """The replica is not there any more: brokers show the copy, and go on with it no further."""


class Disks:
    """Every broker's log dirs, by broker id and index; `moves` by (partition row, broker).

    `_preferred` are the dirs in which replicas are to be made that are not there yet: brokers keep
    that in memory, until the replica is made or they restart.
    """

    def __init__(self, brokers: Iterable[BrokerSpec]) -> None:
        self.paths = {b.id: tuple(path for path, _ in b.log_dirs) for b in brokers}
        self.total_bytes = {b.id: tuple(size for _, size in b.log_dirs) for b in brokers}
        self.count = max(len(paths) for paths in self.paths.values())
        self.offline: dict[int, set[int]] = {b: set() for b in self.paths}
        self.removed: dict[int, set[int]] = {b: set() for b in self.paths}
        """Log dirs that are not among the broker's any more."""
        self.moves: dict[tuple[int, int], DirMove] = {}
        self._full: dict[int, set[int]] = {b: set() for b in self.paths}
        self._replicas = {b: [0] * len(paths) for b, paths in self.paths.items()}
        self._preferred: dict[tuple[int, int], int] = {}

    def choose(self, row: int, broker: int) -> int:
        """Return the log dir for a new replica: the one asked for, else that with the fewest."""
        counts = self._replicas[broker]
        preferred = self._preferred.pop((row, broker), None)
        away = self.offline[broker] | self.removed[broker]
        if preferred is not None and preferred not in away:
            counts[preferred] += 1
            return preferred
        online = [d for d in range(len(counts)) if d not in away]
        chosen = min(online or [0], key=lambda d: counts[d])
        counts[chosen] += 1
        return chosen

    def drop(self, row: int, broker: int, log_dir: int) -> None:
        """Forget one replica."""
        self._replicas[broker][log_dir] -= 1
        self.moves.pop((row, broker), None)

    def begin_move(
        self, tp: TopicPartition, row: int, broker: int, log_dir: int | None, path: str
    ) -> Fault | None:
        """Begin to copy a replica from its log dir to another one; None is no replica yet.

        To the dir where it lies ends a copy that was under way. Refused in the order of Kafka's
        ReplicaManager.alterReplicaLogDirs.
        """
        there = path in self.paths[broker]
        if not there or (to := self.paths[broker].index(path)) in self.removed[broker]:
            return Fault("LOG_DIR_NOT_FOUND", f"{path} is no log dir of broker {broker}.")
        if to in self.offline[broker]:
            return Fault("KAFKA_STORAGE_ERROR", f"{path} is offline.")
        if log_dir in self.offline[broker]:
            return Fault("KAFKA_STORAGE_ERROR", f"Partition {tp} is offline.")
        if log_dir is None:
            self._preferred[row, broker] = to
            return Fault("REPLICA_NOT_AVAILABLE", f"Broker {broker} has no replica of {tp}.")
        known = self.moves.get((row, broker))
        if known is not None and known.to != to:
            del self.moves[row, broker]
        if to != log_dir and (row, broker) not in self.moves:
            self.moves[row, broker] = DirMove(to)
        return None

    def moving_on(self, broker: int) -> int:
        """Return how many replicas a broker copies between its log dirs."""
        return sum(at == broker and not m.left_behind for (_, at), m in self.moves.items())

    def copied_bytes(self, broker: int, log_dir: int) -> float:
        """Return what copies under way take in a log dir."""
        return sum(
            move.copied_bytes
            for (_, at), move in self.moves.items()
            if at == broker and move.to == log_dir
        )

    def arrive(self, row: int, broker: int, before: int) -> int:
        """End a move between log dirs and return where the replica is now."""
        move = self.moves.pop((row, broker))
        self._replicas[broker][before] -= 1
        self._replicas[broker][move.to] += 1
        return move.to

    def usable_bytes(self, broker: int, log_dir: int, used_bytes: float) -> int:
        if log_dir in self._full[broker]:
            return 0
        return max(0, int(self.total_bytes[broker][log_dir] - used_bytes))

    def lose(self, broker: int, log_dir: int) -> bool:
        """Take a full log dir offline; returns whether the broker has one left.

        Copies into it are gone. One out of it goes no further: its replica is offline.
        """
        self._full[broker].add(log_dir)
        self.offline[broker].add(log_dir)
        for (row, at), move in list(self.moves.items()):
            if at == broker and move.to == log_dir:
                del self.moves[row, at]
        away = self.offline[broker] | self.removed[broker]
        return len(away) < len(self.paths[broker])

    def remove(self, broker: int, log_dir: int) -> None:
        """Take a log dir out of the broker's configuration: it starts without it."""
        self.removed[broker].add(log_dir)
        self._full[broker].discard(log_dir)
        self.offline[broker].discard(log_dir)

    def full(self) -> dict[int, tuple[str, ...]]:
        """Return the full log dirs, by broker."""
        return {
            broker: tuple(self.paths[broker][d] for d in sorted(dirs))
            for broker, dirs in self._full.items()
            if dirs
        }

    def free(self, broker: int) -> None:
        """Make room; what is offline comes back with `restart`."""
        self._full[broker].clear()

    def restart(self, broker: int) -> None:
        self.offline[broker] = set(self._full[broker])
        self._preferred = {key: d for key, d in self._preferred.items() if key[1] != broker}
