"""Faults made on purpose are real ones, and end with the sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from waiting import eventually

from core.cluster.client import OffsetAt
from core.cluster.connect import Address, Connection, connect
from core.cluster.drills import full_disk
from core.cluster.drills.drill import DrillKind, DrillTarget
from core.cluster.drills.target import find_drill_target
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox import folder as folders
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload_spec import skewed_workload
from core.daemons.process import running_with
from core.errors import UnreachableError

NAME = f"drills-{os.getpid()}"


@pytest.fixture(scope="module")
def side() -> Iterator[Sandbox]:
    """A sandbox of its own under a light load: the shared one stays whole and quiet."""
    made = Sandbox.up(NAME, (1, 2))
    made.start_workload(200_000)
    yield made
    Sandbox.remove(NAME)


@pytest.fixture(scope="module")
def connection(side: Sandbox) -> Iterator[Connection]:
    made = connect(Address(side.bootstrap))
    yield made
    made.client.close()


@pytest.fixture(scope="module")
def ground(side: Sandbox, connection: Connection) -> DrillTarget:
    eventually(lambda: side.has_workload)
    target = find_drill_target(
        Address(side.bootstrap), connection.client.describe_cluster().cluster_id
    )
    assert target is not None
    return target


def do(ground: DrillTarget, connection: Connection, kind: DrillKind, on: str) -> None:
    offers = ground.offers(connection.client.describe_cluster())
    drills = [drill for offer in offers if offer.kind is kind for drill in offer.drills]
    ground.run(next(drill for drill in drills if drill.on == on))


def test_join_and_leave_drills_add_and_remove_a_consumer_of_the_group(
    ground: DrillTarget, connection: Connection
) -> None:
    def members(count: int) -> bool:
        try:
            groups = connection.client.describe_groups("stock")
        except UnreachableError:  # its coordinator is still coming up
            return False
        return len(groups) == 1 and len(groups[0].members) == count

    eventually(lambda: members(1), 60)
    do(ground, connection, DrillKind.JOIN, "group stock")
    eventually(lambda: members(2), 30)
    do(ground, connection, DrillKind.LEAVE, "group stock")
    eventually(lambda: members(1), 30)


def test_a_skewed_topic_gets_more_records(ground: DrillTarget, connection: Connection) -> None:
    topics = {topic.name: topic for topic in skewed_workload((1, 2)).topics}
    more, as_ever = TopicPartition("payments.v2", 0), TopicPartition("orders", 0)

    def messages_per_s(tp: TopicPartition) -> float:
        return topics[tp.topic].bytes_per_s[tp.partition] / topics[tp.topic].message_bytes

    def ends() -> dict[TopicPartition, int]:
        return connection.client.fetch_offsets([more, as_ever], OffsetAt.LATEST)

    eventually(lambda: {more, as_ever} <= ends().keys(), 60)
    do(ground, connection, DrillKind.SKEW, "topic payments.v2")
    as_many = messages_per_s(more) / messages_per_s(as_ever)

    def relative_rate() -> float:
        """Beside another topic: how fast a busy machine sends, and hears of it, is no matter."""
        before = ends()
        eventually(lambda: ends()[as_ever] - before[as_ever] >= 60, 60)
        after = ends()
        return (after[more] - before[more]) / (after[as_ever] - before[as_ever])

    eventually(lambda: relative_rate() > 3 * as_many, 60)
    do(ground, connection, DrillKind.EVEN, "topic payments.v2")


def test_full_disk_takes_a_log_dir_offline_until_it_is_emptied(
    side: Sandbox, ground: DrillTarget, connection: Connection
) -> None:
    path = str(full_disk.log_dir_to_fill(side.node(2)))

    def offline() -> list[str]:
        (logs,) = connection.client.describe_log_dirs([2])
        return [log_dir.path for log_dir in logs.log_dirs if log_dir.error]

    do(ground, connection, DrillKind.FILL, "log dir disk-2 of broker 2")
    assert offline() == [path]
    assert "No space left on device" in side.node(2).server_log.read_text()
    do(ground, connection, DrillKind.EMPTY, "log dir disk-2 of broker 2")
    eventually(lambda: offline() == [], 30)


def test_processes_started_by_drills_end_with_the_sandbox(
    side: Sandbox, ground: DrillTarget, connection: Connection
) -> None:
    do(ground, connection, DrillKind.KILL, "broker 1")
    assert Sandbox.open(NAME).process(1) is None
    do(ground, connection, DrillKind.START, "broker 1")
    do(ground, connection, DrillKind.JOIN, "group billing")
    marks = {str(node.properties) for node in side.nodes}
    marks.add(str(folders.workload_log(side.folder)))
    left = running_with(marks)
    assert len(left) == 4
    assert Sandbox.remove(NAME)
    assert not any(process.alive for process in left)
    assert not side.folder.exists()
