"""What answers to single things come to: values, faults or silence, and who is asked next."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fake_wire import FakeWire
from kafka.errors import KafkaConnectionError, KafkaTimeoutError

from core.cluster.client import OffsetAt
from core.cluster.configs import ConfigChange, ConfigOp, Resource
from core.cluster.kafka.configs import alter_configs, describe_configs
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.groups import fetch_committed
from core.cluster.kafka.log_dirs import alter_log_dirs, describe_log_dirs
from core.cluster.kafka.offsets import fetch_offsets
from core.cluster.kafka.wire import LEFT_OUT, Wire
from core.cluster.kafka_errors import AllDeniedError, Fault
from core.cluster.metadata import TopicPartition
from core.errors import UnreachableError

PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
TOPICS = (Resource.topic("t"), Resource.topic("u"))
TIMED_OUT = "REQUEST_TIMED_OUT"
NOT_LEADER = 6


@pytest.mark.parametrize("answer", [KafkaTimeoutError("broker 2"), KafkaConnectionError()])
@pytest.mark.parametrize(
    ("ask", "matches"),
    [
        (
            lambda wire: fetch_committed(wire, {"g": 2}),
            lambda faults: {id: fault.name for id, fault in faults.items()} == {"g": TIMED_OUT},
        ),
        (
            lambda wire: alter_log_dirs(wire, {(PARTITIONS[0], 2): "/d"}),
            lambda faults: [fault.name for fault in faults.values()] == [TIMED_OUT],
        ),
        (lambda wire: describe_log_dirs(wire, [2]), lambda logs: logs[0].error is not None),
        (
            lambda wire: describe_configs(wire, [Resource.broker(2)], ["a"]),
            lambda configs: configs[Resource.broker(2)].name == TIMED_OUT,
        ),
    ],
    ids=["committed", "alter log dirs", "log dirs", "configs of brokers"],
)
def test_request_without_a_broker_answer_has_an_unknown_outcome(
    ask: Callable[[Any], Any], matches: Callable[[Any], bool], answer: Exception
) -> None:
    """Neither a value nor a refusal: what was asked for may have been done."""
    names = ("OffsetFetch", "AlterReplicaLogDirs", "DescribeLogDirs", "DescribeConfigs")
    assert matches(ask(FakeWire(**dict.fromkeys(names, lambda *_: answer))))


def test_commit_with_an_error_is_unknown_and_not_absent() -> None:
    """A partition with an error is not one without a commit."""

    def partition(offset: int, error: int) -> Any:
        return SimpleNamespace(partition_index=0, committed_offset=offset, error_code=error)

    def committed(*partitions: Any) -> Any:
        topics = [SimpleNamespace(name=f"t{n}", partitions=[p]) for n, p in enumerate(partitions)]
        group = SimpleNamespace(group_id="g", error_code=0, topics=topics)
        wire: Any = FakeWire(OffsetFetch=lambda *_: SimpleNamespace(groups=[group]))
        return fetch_committed(wire, {"g": 2})["g"]

    assert committed(partition(5, 0), partition(-1, 0)) == {TopicPartition("t0", 0): 5}
    assert committed(partition(5, 0), partition(-1, 88)).name == "UNSTABLE_OFFSET_COMMIT"


# -- offsets: who leads ------------------------------------------------------------------------


class Leaders:
    """Brokers of which each partition has one leader, by number; -1 is nobody."""

    def __init__(self, *leaders: int, silent: int | None = None) -> None:
        self.leaders = list(leaders)
        self.silent = silent
        self.wire: Any = FakeWire(Metadata=self.metadata, ListOffsets=self.offsets)

    def metadata(self, broker: int | None, request: Any) -> Any:
        partitions = [
            SimpleNamespace(partition_index=number, leader_id=leader)
            for number, leader in enumerate(self.leaders)
        ]
        topic = SimpleNamespace(name="t", error_code=0, partitions=partitions)
        return SimpleNamespace(topics=[topic])

    def offsets(self, broker: int | None, request: Any) -> Any:
        if broker == self.silent:
            return KafkaTimeoutError("no answer")
        (topic,) = request.topics
        partitions = [
            SimpleNamespace(
                partition_index=p.partition_index,
                error_code=0 if self.leaders[p.partition_index] == broker else NOT_LEADER,
                offset=100 + p.partition_index,
            )
            for p in topic.partitions
        ]
        return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=partitions)])

    def fetch(self) -> tuple[dict[int, int], list[str]]:
        """Return the offsets by partition, and the requests that it took."""
        self.wire.requests.clear()
        offsets = fetch_offsets(self.wire, PARTITIONS, OffsetAt.LATEST)
        sent = [type(request).__name__ for _, request in self.wire.requests]
        return {tp.partition: offset for tp, offset in offsets.items()}, sent


METADATA, OFFSETS = "MetadataRequest", "ListOffsetsRequest"


def test_leaders_are_looked_up_once_and_refreshed_after_not_leader_error() -> None:
    cluster = Leaders(1, 2)
    assert cluster.fetch() == ({0: 100, 1: 101}, [METADATA, OFFSETS, OFFSETS])
    assert cluster.fetch() == ({0: 100, 1: 101}, [OFFSETS, OFFSETS])
    cluster.leaders = [1, 3]
    assert cluster.fetch() == ({0: 100, 1: 101}, [OFFSETS, OFFSETS, METADATA, OFFSETS])


def test_silent_leader_is_not_retried_unless_metadata_names_a_new_leader() -> None:
    cluster = Leaders(1, 2, silent=2)
    assert cluster.fetch() == ({0: 100}, [METADATA, OFFSETS, OFFSETS, METADATA])
    cluster.leaders = [1, 3]  # elected in its place
    assert cluster.fetch() == ({0: 100, 1: 101}, [OFFSETS, OFFSETS, METADATA, OFFSETS])


def test_a_partition_without_a_leader_is_left_out() -> None:
    cluster = Leaders(1, -1)
    assert cluster.fetch() == ({0: 100}, [METADATA, OFFSETS])
    cluster.leaders = [1, 2]
    assert cluster.fetch() == ({0: 100, 1: 101}, [METADATA, OFFSETS, OFFSETS])


# -- configs: altered by one broker, in parts -----------------------------------------------------


def altered(request: Any, code: int = 0) -> Any:
    return SimpleNamespace(
        responses=[
            SimpleNamespace(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=code,
                error_message="why",
            )
            for resource in request.resources
        ]
    )


def test_each_broker_alters_its_own_configs_and_any_broker_all_other_configs() -> None:
    def answer(broker: int | None, request: Any) -> Any:
        return KafkaTimeoutError("no answer") if broker == 2 else altered(request)

    wire: Any = FakeWire(IncrementalAlterConfigs=answer)
    cluster_wide = Resource.broker("")
    changed = [*TOPICS, cluster_wide, Resource.broker(1), Resource.broker(2)]
    answers = alter_configs(wire, [ConfigChange(r, "a", ConfigOp.SET, "1") for r in changed])
    assert {r: fault and fault.name for r, fault in answers.items()} == {
        **dict.fromkeys(changed),
        Resource.broker(2): TIMED_OUT,
    }
    sent = [(b, [r.resource_name for r in request.resources]) for b, request in wire.requests]
    assert sent == [(None, ["t", "u", ""]), (1, ["1"]), (2, ["2"])]


def test_failed_config_change_stops_later_changes_of_the_same_resource() -> None:
    """Kafka refuses one config twice in a request, so they go one after the other."""
    codes = iter((40, 0))
    wire: Any = FakeWire(IncrementalAlterConfigs=lambda _, request: altered(request, next(codes)))
    add = [ConfigChange(TOPICS[0], "a", ConfigOp.APPEND, value) for value in "xy"]
    (fault,) = alter_configs(wire, add).values()
    assert fault == Fault("INVALID_CONFIG", "why")
    assert len(wire.requests) == 1


def test_a_resource_that_an_answer_leaves_out_is_unknown() -> None:
    empty = SimpleNamespace(responses=[], results=[])
    wire: Any = FakeWire(IncrementalAlterConfigs=lambda *_: empty, DescribeConfigs=lambda *_: empty)
    change = ConfigChange(TOPICS[0], "a", ConfigOp.DELETE)
    assert alter_configs(wire, [change]) == {TOPICS[0]: LEFT_OUT}
    assert describe_configs(wire, TOPICS[:1], ["a"]) == {TOPICS[0]: LEFT_OUT}


# -- all of them ---------------------------------------------------------------------------------

DENIED = Fault("TOPIC_AUTHORIZATION_FAILED")
SILENT = Fault(TIMED_OUT)


@pytest.mark.parametrize(
    ("answers", "raised"),
    [
        ([DENIED, DENIED], AllDeniedError),
        ([DENIED, SILENT], None),
        ([SILENT, None], None),
        ([SILENT, SILENT], UnreachableError),
        ([], None),
    ],
)
def test_error_is_raised_only_when_all_answers_are_denials_or_all_are_timeouts(
    answers: list[Fault | None], raised: type[Exception] | None
) -> None:
    """Of silent brokers alone it is not known whether there is a cluster: it is asked for."""
    wire = Wire(ConnectionSettings("127.0.0.1:1", timeout_seconds=1.0))
    if raised is None:
        wire.raise_if_all_failed(answers, "DESCRIBE")
        return
    with pytest.raises(raised):
        wire.raise_if_all_failed(answers, "DESCRIBE")
