"""ClusterClient: the calls that everything above the cluster makes, and the values they carry.

Three things speak it: KafkaClient, SimulatedCluster and the simulator's socket. All calls block
and are safe to make from several threads; `core.cluster.connect` opens one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple, Protocol, cast

from core.cluster.configs import ConfigChange, ConfigValue, Resource
from core.cluster.groups import ActiveGroups, Group
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs
from core.cluster.metadata import Reassignment, TopicPartition
from core.cluster.state import ClusterState
from core.errors import ExitCode, TrimtabError


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create: the replicas of partitions 0, 1, …, preferred leaders first."""

    name: str
    replicas: tuple[tuple[int, ...], ...]
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """Partitions to add: how many there must be then, and the replicas of the new ones."""

    total: int
    replicas: tuple[tuple[int, ...], ...]


class OffsetAt(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class ReplicaRecords:
    """Batches as they lie in a replica's log below its high watermark; the last may be cut off."""

    high_watermark: int
    records: bytes = field(repr=False)


class ClusterClient(Protocol):
    """One cluster.

    Every call raises UnreachableError or AccessDeniedError when nothing could be learned; faults
    of single partitions, topics or brokers are in the answer, so that the rest is not lost. Calls
    for configs raise AllDeniedError when there is no rest.
    """

    def ping(self) -> None:
        """Ask any broker for next to nothing, however large the cluster is."""

    def describe_cluster(self) -> ClusterState:
        """Return brokers, topics, assignments, leaders and ISRs; reassignments marked.

        Sizes, lags and log dirs are unknown here: `describe_log_dirs` tells them.
        Topic configs are unknown unless an earlier call has cached them.
        A broker that partitions name and the cluster does not is present with alive=False.
        """

    def describe_log_dirs(self, brokers: Collection[int]) -> tuple[BrokerLogs, ...]:
        """Return what each of these brokers says of its log dirs, one answer a broker.

        Brokers are asked side by side, each with its own deadline; one that does not answer, or
        may not say, has `error` set and everything else empty.
        """

    def fetch_denied_topics(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these topics this user may not describe, whether they exist or not."""

    def fetch_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """Return every partition in flight, ours or not (KIP-455)."""

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...]]
    ) -> dict[TopicPartition, Fault | None]:
        """Submit target assignments; returns a fault or None for each partition."""

    def cancel_reassignments(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Fault | None]:
        """Cancel reassignments; NO_REASSIGNMENT_IN_PROGRESS is a fault like any other."""

    def describe_configs(
        self, resources: Collection[Resource], names: Collection[str] | None = None
    ) -> dict[Resource, dict[str, ConfigValue] | Fault]:
        """Return effective configs, all or only `names`.

        Throttle configs that are unset are absent or have value None or "" by broker version:
        treat these three alike, and look at `source` for who set what.
        """

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        """Apply changes incrementally (KIP-339), one request a broker resource."""

    def fetch_list_entries(
        self, lists: Collection[tuple[Resource, str]]
    ) -> dict[tuple[Resource, str], frozenset[str] | Fault]:
        """Return the entries of topics' list configs as the controller itself holds them now.

        `describe_configs` shows what the broker asked has heard of: that may be a moment old.
        Unset and empty have no entries alike, nor has a topic that is gone. UNSUPPORTED_VERSION
        from a cluster that does not tell.
        """

    def elect_leaders(
        self, partitions: Collection[TopicPartition], *, unclean: bool = False
    ) -> dict[TopicPartition, Fault | None]:
        """Elect preferred leaders; ELECTION_NOT_NEEDED and PREFERRED_LEADER_NOT_AVAILABLE too.

        `unclean` gives partitions without a leader to a live replica out of the ISR instead: what
        that has not copied is lost. ELECTION_NOT_NEEDED and ELIGIBLE_LEADERS_NOT_AVAILABLE.
        """

    def create_topics(self, topics: Collection[NewTopic]) -> dict[str, Fault | None]:
        """Create topics with exactly these replicas; brokers hear of them a moment later."""

    def add_partitions(self, additions: Mapping[str, NewPartitions]) -> dict[str, Fault | None]:
        """Add partitions to topics, by name."""

    def delete_topics(self, names: Collection[str]) -> dict[str, Fault | None]:
        """Delete topics with everything in them."""

    def alter_log_dirs(
        self, moves: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], Fault | None]:
        """Move replicas, named by (partition, broker), to log dir paths."""

    def fetch_offsets(
        self, partitions: Collection[TopicPartition], at: OffsetAt
    ) -> dict[TopicPartition, int]:
        """Return log offsets; partitions without a leader are left out."""

    def fetch_replica_offsets(
        self, offsets_of: Mapping[int, Collection[TopicPartition]], at: OffsetAt
    ) -> dict[tuple[TopicPartition, int], int | Fault]:
        """Return where the logs of single replicas begin or end, on each of these brokers.

        Followers answer too: their ends are what they have copied. UNSUPPORTED_VERSION from a
        cluster that does not tell; BROKER_NOT_AVAILABLE of a broker that does not answer.
        """

    def fetch_records(
        self, offsets_of: Mapping[int, Mapping[TopicPartition, int]], max_bytes: int
    ) -> dict[tuple[TopicPartition, int], ReplicaRecords | Fault]:
        """Read replicas from these offsets on, on each of these brokers, followers too (KIP-392).

        At most `max_bytes` of each; the first one that is asked of a broker gives a whole batch
        whatever its size, the others may give nothing. OFFSET_OUT_OF_RANGE outside of a
        replica's log; otherwise as `fetch_replica_offsets`.
        """

    def describe_groups(
        self, matching: str | None = None, lost: Callable[[Fault], None] | None = None
    ) -> tuple[Group, ...]:
        """Return groups of every type with members and committed offsets, by id.

        All, or those whose whole id an expression matches. One that vanishes meanwhile is left
        out; one that may not be looked at has a fault of its own. Each broker lists its own:
        `lost` hears of every one that did not, whose groups are missing, and of GROUPS_HIDDEN.
        """

    def describe_active_groups(self, limit: int) -> ActiveGroups:
        """Return groups that have members, the first `limit` by id: cheap enough for each second.

        One whose members may not be looked at has a fault of its own, as in `describe_groups`.
        """

    def close(self) -> None:
        """Give connections back; the client is of no use afterwards."""


class TopicRecord(NamedTuple):
    """A record of a topic, and where it lies."""

    partition: int
    offset: int
    value: bytes


class TopicReader(Protocol):
    """Reads one topic, and knows how far it has read. Not safe to share among threads."""

    def read(
        self, partitions: Collection[int], since: datetime, now: datetime
    ) -> Iterator[list[TopicRecord]]:
        """Yield what has come since the last reading; the first, and after a pause, from `since`.

        It ends where the partitions ended as it began. Of a partition without a leader records
        come another time. Raises UnreachableError when all are without, and AccessDeniedError.
        """

    def close(self) -> None:
        """Give connections back."""


class NewRecord(NamedTuple):
    """A record to write to a topic; those of one key come to lie in one partition, in order."""

    key: bytes
    value: bytes
    headers: Mapping[str, bytes]


class UnconfirmedError(TrimtabError):
    """Some of what was to be written may lie there, or come to, though nobody has said so."""

    exit_code = ExitCode.UNREACHABLE


class TopicWriter(Protocol):
    """Writes to one topic. Not safe to share among threads."""

    def write(self, records: Iterable[NewRecord]) -> int:
        """Write these records, each once, and return how many once all in-sync replicas have them.

        Raises UnconfirmedError where that is not known of all of them: what has not been refused is
        still tried for some minutes, in order. Any other TrimtabError says that there are none.
        """

    def close(self) -> None:
        """Give connections back, and what has not been taken yet up."""


class ForwardingClient:
    """Passes calls on to another client, all but those that a subclass has; it is cast to one."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def with_state(
    client: ClusterClient, change: Callable[[ClusterState], ClusterState]
) -> ClusterClient:
    """Return `client` whose descriptions of its cluster `change` changes, or raises for."""
    return cast("ClusterClient", _ClientWithState(client, change))


class _ClientWithState(ForwardingClient):
    def __init__(
        self, client: ClusterClient, change: Callable[[ClusterState], ClusterState]
    ) -> None:
        super().__init__(client)
        self._change_state = change

    def describe_cluster(self) -> ClusterState:
        return self._change_state(self._client.describe_cluster())
