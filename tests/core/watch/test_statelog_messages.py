"""What state-change logs of Kafka 2.0 to 4.3 say, line by line, in the words of their sources."""

from __future__ import annotations

from typing import Any

import pytest

from core.watch.statelog.event import Change, LogEventKind
from core.watch.statelog.messages import parse_message

ID = "zZBg-1TQR2aAmKgVpr87eg"

LINES: list[tuple[str, str, LogEventKind, dict[str, Any]]] = [
    # -- leaders and followers ---------------------------------------------------------------------
    (
        "4.3 leader",
        f"Leader story-0 with topic id Some({ID}) starts at leader epoch 1 from offset 12 with "
        "partition epoch 3, high watermark 0, ISR [2,3], adding replicas [] and removing replicas "
        "[] . Previous leader Some(1) and previous leader epoch was 0.",
        LogEventKind.LEADER,
        {
            "topic": "story",
            "partition": 0,
            "leader_epoch": 1,
            "partition_epoch": 3,
            "isr": (2, 3),
            "previous_leader": 1,
            "previous_epoch": 0,
            "offset": 12,
            "topic_id": ID,
        },
    ),
    (
        "3.9 leader under min ISR",
        f"Leader a.b-c-11 with topic id Some({ID}) starts at leader epoch 0 from offset 0 with "
        "partition epoch 0, high watermark 0, ISR [3], adding replicas [] and removing replicas "
        "[] (under-min-isr). Previous leader None and previous leader epoch was -1.",
        LogEventKind.LEADER,
        {
            "topic": "a.b-c",
            "partition": 11,
            "leader_epoch": 0,
            "partition_epoch": 0,
            "isr": (3,),
            "previous_epoch": -1,
            "offset": 0,
            "topic_id": ID,
        },
    ),
    (
        "3.5 leader",
        f"Leader t-1 with topic id Some({ID}) starts at leader epoch 4 from offset 9 with "
        "partition epoch 7, high watermark 9, ISR [1001], adding replicas [] and removing replicas "
        "[]. Previous leader epoch was 3.",
        LogEventKind.LEADER,
        {
            "topic": "t",
            "partition": 1,
            "leader_epoch": 4,
            "partition_epoch": 7,
            "isr": (1001,),
            "previous_epoch": 3,
            "offset": 9,
            "topic_id": ID,
        },
    ),
    (
        "2.8 to 3.2 leader",
        "Leader t-0 starts at leader epoch 2 from offset 41 with high watermark 40 ISR [1,2,3] "
        "addingReplicas [] removingReplicas []. Previous leader epoch was 1.",
        LogEventKind.LEADER,
        {
            "topic": "t",
            "partition": 0,
            "leader_epoch": 2,
            "isr": (1, 2, 3),
            "previous_epoch": 1,
            "offset": 41,
        },
    ),
    (
        "2.6 leader",
        "Leader test-1 starts at leader epoch 1 from offset 0 with high watermark 0 ISR 0 "
        "addingReplicas  removingReplicas .Previous leader epoch was 0.",
        LogEventKind.LEADER,
        {
            "topic": "test",
            "partition": 1,
            "leader_epoch": 1,
            "isr": (0,),
            "previous_epoch": 0,
            "offset": 0,
        },
    ),
    (
        "2.0 to 2.3 leader, in server.log",
        "t-0 starts at Leader Epoch 5 from offset 7. Previous Leader Epoch was: 4",
        LogEventKind.LEADER,
        {"topic": "t", "partition": 0, "leader_epoch": 5, "previous_epoch": 4, "offset": 7},
    ),
    (
        "2.4 leader, in server.log",
        "t-0 starts at leader epoch 5 from offset 7 with high watermark 7. "
        "Previous leader epoch was 4.",
        LogEventKind.LEADER,
        {"topic": "t", "partition": 0, "leader_epoch": 5, "previous_epoch": 4, "offset": 7},
    ),
    (
        "4.3 follower",
        "Follower story-0 starts at leader epoch 1 from offset 0 with partition epoch 3 and high "
        "watermark 0. Current leader is 2. Previous leader Some(1) and previous leader epoch was "
        "0.",
        LogEventKind.FOLLOWER,
        {
            "topic": "story",
            "partition": 0,
            "leader": 2,
            "leader_epoch": 1,
            "partition_epoch": 3,
            "previous_leader": 1,
            "previous_epoch": 0,
            "offset": 0,
        },
    ),
    (
        "2.8 follower",
        "Follower t-0 starts at leader epoch 2 from offset 41 with high watermark 40. "
        "Previous leader epoch was 1.",
        LogEventKind.FOLLOWER,
        {"topic": "t", "partition": 0, "leader_epoch": 2, "previous_epoch": 1, "offset": 41},
    ),
    # -- the leader epoch stays --------------------------------------------------------------------
    (
        "4.3 registration",
        f"Skipped the become-leader state change for story-2 with topic id Some({ID}), partition "
        "registration PartitionRegistration(replicas=[3, 1, 2], directories=[gfW1LFOCKAFU8an8ks-"
        "JWA, AAAAAAAAAAAAAAAAAAAAAQ, cn0XeVLLyvn7WBH6XZMPAA], isr=[3, 2], removingReplicas=[], "
        "addingReplicas=[], elr=[], lastKnownElr=[], leader=3, leaderRecoveryState=RECOVERED, "
        "leaderEpoch=0, partitionEpoch=3) and isNew=false since it is already the leader with "
        "leader epoch 0. Current high watermark 0, ISR [3,2], adding replicas [] and removing "
        "replicas [].",
        LogEventKind.ISR,
        {
            "topic": "story",
            "partition": 2,
            "leader": 3,
            "leader_epoch": 0,
            "partition_epoch": 3,
            "isr": (3, 2),
            "replicas": (3, 1, 2),
            "topic_id": ID,
        },
    ),
    (
        "3.9 partition state",
        f"Skipped the become-follower state change for t-2 with topic id Some({ID}) and partition "
        "state LeaderAndIsrPartitionState(topicName='t', partitionIndex=2, controllerEpoch=-1, "
        "leader=3, leaderEpoch=6, isr=[3, 2], partitionEpoch=9, replicas=[3, 1, 2], "
        "addingReplicas=[], removingReplicas=[], isNew=false, leaderRecoveryState=0) since it is "
        "already a follower with leader epoch 6.",
        LogEventKind.ISR,
        {
            "topic": "t",
            "partition": 2,
            "leader": 3,
            "leader_epoch": 6,
            "partition_epoch": 9,
            "isr": (3, 2),
            "replicas": (3, 1, 2),
            "topic_id": ID,
        },
    ),
    (
        "3.9 too late",
        f"Skipped the become-follower state change for t-2 with topic id Some({ID}) and partition "
        "state LeaderAndIsrPartitionState(topicName='t', partitionIndex=2, controllerEpoch=-1, "
        "leader=3, leaderEpoch=6, isr=[3], partitionEpoch=8, replicas=[3, 1], addingReplicas=[], "
        "removingReplicas=[], isNew=false, leaderRecoveryState=0) since the follower is already at "
        "a newer partition epoch 9.",
        LogEventKind.SKIPPED,
        {
            "topic": "t",
            "partition": 2,
            "leader": 3,
            "leader_epoch": 6,
            "partition_epoch": 8,
            "isr": (3,),
            "replicas": (3, 1),
            "topic_id": ID,
        },
    ),
    (
        "2.4 leader already",
        "Skipped the become-leader state change after marking its partition as leader with "
        "correlation id 7 from controller 1 epoch 2 for partition t-3 (last update controller "
        "epoch 2) since it is already the leader for the partition.",
        LogEventKind.SKIPPED,
        {"topic": "t", "partition": 3},
    ),
    (
        "2.x ISR, in server.log",
        "ISR updated to [1,2] and zkVersion updated to [5]",
        LogEventKind.ISR,
        {"isr": (1, 2), "partition_epoch": 5},
    ),
    (
        "3.0 ISR, in server.log",
        "ISR updated to 1,2 and version updated to [5]",
        LogEventKind.ISR,
        {"isr": (1, 2), "partition_epoch": 5},
    ),
    (
        "2.0 shrink, in server.log",
        "Shrinking ISR from 1,2,3 to 1,2",
        LogEventKind.ISR,
        {"isr": (1, 2)},
    ),
    (
        "3.0 shrink, in server.log",
        "Shrinking ISR from 1,2,3 to 1,2. Leader: (highWatermark: 5, endOffset: 9). Out of sync "
        "replicas: (brokerId: 3, endOffset: 5).",
        LogEventKind.ISR,
        {"isr": (1, 2)},
    ),
    # -- the older controller ----------------------------------------------------------------------
    (
        "2.0 to 2.8 online",
        "Changed partition topic-0 from OnlinePartition to OnlinePartition with state "
        "LeaderAndIsr(leader=2, leaderEpoch=1, isr=List(2, 3), zkVersion=1)",
        LogEventKind.ELECTED,
        {
            "topic": "topic",
            "partition": 0,
            "leader": 2,
            "leader_epoch": 1,
            "partition_epoch": 1,
            "isr": (2, 3),
        },
    ),
    (
        "3.2 online",
        "Changed partition t-0 from NewPartition to OnlinePartition with state LeaderAndIsr("
        "leader=2, leaderEpoch=0, isr=List(2), leaderRecoveryState=RECOVERED, zkVersion=0)",
        LogEventKind.ELECTED,
        {
            "topic": "t",
            "partition": 0,
            "leader": 2,
            "leader_epoch": 0,
            "partition_epoch": 0,
            "isr": (2,),
        },
    ),
    (
        "3.5 to 3.9 online",
        "Changed partition t-0 from OfflinePartition to OnlinePartition with state LeaderAndIsr("
        "leader=2, leaderEpoch=3, isrWithBrokerEpoch=List(BrokerState(brokerId=2, brokerEpoch=-1), "
        "BrokerState(brokerId=3, brokerEpoch=17)), leaderRecoveryState=RECOVERED, "
        "partitionEpoch=8)",
        LogEventKind.ELECTED,
        {
            "topic": "t",
            "partition": 0,
            "leader": 2,
            "leader_epoch": 3,
            "partition_epoch": 8,
            "isr": (2, 3),
        },
    ),
    (
        "new",
        "Changed partition t-0 state from NonExistentPartition to NewPartition with assigned "
        "replicas 1,2,3",
        LogEventKind.CREATED,
        {"topic": "t", "partition": 0, "replicas": (1, 2, 3)},
    ),
    (
        "offline",
        "Changed partition t-0 state from OnlinePartition to OfflinePartition",
        LogEventKind.OFFLINE,
        {"topic": "t", "partition": 0},
    ),
    (
        "gone",
        "Changed partition t-0 state from OfflinePartition to NonExistentPartition",
        LogEventKind.DELETED,
        {"topic": "t", "partition": 0},
    ),
    (
        "replica offline",
        "Changed state of replica 3 for partition t-0 from OnlineReplica to OfflineReplica",
        LogEventKind.OFFLINE,
        {"topic": "t", "partition": 0, "replica": 3},
    ),
    (
        "replica deleted",
        "Changed state of replica 3 for partition t-0 from OfflineReplica to "
        "ReplicaDeletionStarted",
        LogEventKind.REPLICA,
        {"topic": "t", "partition": 0, "replica": 3},
    ),
    (
        "2.8 out of the ISR",
        "Partition t-0 state changed to (Leader:2,ISR:2,3,LeaderEpoch:4,ZkVersion:6,"
        "ControllerEpoch:2) after removing replica 1 from the ISR as part of transition to "
        "OfflineReplica",
        LogEventKind.ISR,
        {
            "topic": "t",
            "partition": 0,
            "leader": 2,
            "leader_epoch": 4,
            "partition_epoch": 6,
            "isr": (2, 3),
            "replica": 1,
        },
    ),
    (
        "3.5 out of the ISR",
        "Partition t-0 state changed to (Leader:-1,ISR:2,LeaderEpoch:4,LeaderRecoveryState:"
        "RECOVERED,PartitionEpoch:6,ControllerEpoch:2) after removing replica 1 from the ISR as "
        "part of transition to OfflineReplica",
        LogEventKind.ISR,
        {
            "topic": "t",
            "partition": 0,
            "leader": -1,
            "leader_epoch": 4,
            "partition_epoch": 6,
            "isr": (2,),
            "replica": 1,
        },
    ),
    (
        "a log dir lost",
        "Mark replicas t-0 on broker 2 as offline",
        LogEventKind.OFFLINE,
        {"topic": "t", "partition": 0, "replica": 2},
    ),
    (
        "many lost",
        "Mark replicas t-0,u-1 on broker 2 as offline",
        LogEventKind.OFFLINE,
        {"replica": 2},
    ),
    (
        "reassigned",
        "Sent LeaderAndIsr request (Leader:2,ISR:2,3,LeaderEpoch:4,ZkVersion:6,ControllerEpoch:2) "
        "with new replica assignment ReplicaAssignment(replicas=1,2,3, addingReplicas=1, "
        "removingReplicas=) to leader 2 for partition being reassigned t-0",
        LogEventKind.ASSIGNED,
        {"topic": "t", "partition": 0},
    ),
    (
        "no election",
        "Controller 1 epoch 2 failed to change state for partition t-0 from OfflinePartition to "
        "OnlinePartition",
        LogEventKind.FAILED,
        {"topic": "t", "partition": 0},
    ),
    # -- requests ----------------------------------------------------------------------------------
    (
        "2.0 received",
        "Received LeaderAndIsr request PartitionState(controllerEpoch=2, leader=1, leaderEpoch=3, "
        "isr=1,2, zkVersion=5, replicas=1,2,3, isNew=true) correlation id 7 from controller 1 "
        "epoch 2 for partition t-0",
        LogEventKind.REQUEST,
        {
            "topic": "t",
            "partition": 0,
            "leader": 1,
            "leader_epoch": 3,
            "partition_epoch": 5,
            "isr": (1, 2),
            "replicas": (1, 2, 3),
        },
    ),
    (
        "2.4 received",
        "Received LeaderAndIsr request LeaderAndIsrPartitionState(topicName='t', partitionIndex=4, "
        "controllerEpoch=2, leader=1, leaderEpoch=3, isr=[1, 2], zkVersion=5, replicas=[1, 2], "
        "addingReplicas=[], removingReplicas=[], isNew=false) correlation id 7 from controller 1 "
        "epoch 2",
        LogEventKind.REQUEST,
        {
            "topic": "t",
            "partition": 4,
            "leader": 1,
            "leader_epoch": 3,
            "partition_epoch": 5,
            "isr": (1, 2),
            "replicas": (1, 2),
        },
    ),
    (
        "2.0 cached",
        "Cached leader info PartitionState(controllerEpoch=2, leader=1, leaderEpoch=3, isr=[1, 2], "
        "zkVersion=5, replicas=[1, 2], offlineReplicas=[]) for partition t-0 in response to "
        "UpdateMetadata request sent by controller 1 epoch 2 with correlation id 8",
        LogEventKind.METADATA,
        {
            "topic": "t",
            "partition": 0,
            "leader": 1,
            "leader_epoch": 3,
            "partition_epoch": 5,
            "isr": (1, 2),
            "replicas": (1, 2),
        },
    ),
    (
        "2.x forgotten",
        "Deleted partition t-0 from metadata cache in response to UpdateMetadata request sent by "
        "controller 1 epoch 2 with correlation id 9",
        LogEventKind.DELETED,
        {"topic": "t", "partition": 0},
    ),
    (
        "2.8 sending",
        "Sending LeaderAndIsr request to broker 1 with 0 become-leader and 1 become-follower "
        "partitions",
        LogEventKind.REQUEST,
        {},
    ),
    (
        "2.8 handling",
        "Handling LeaderAndIsr request correlationId 4 from controller 0 for 17 partitions",
        LogEventKind.REQUEST,
        {"partition_count": 17},
    ),
    (
        "2.8 finished",
        "Finished LeaderAndIsr request in 142ms correlationId 1 from controller 1001 for 3 "
        "partitions",
        LogEventKind.REQUEST,
        {"partition_count": 3},
    ),
    (
        "2.8 metadata",
        "Add 12 partitions and deleted 0 partitions from metadata cache in response to "
        "UpdateMetadata request sent by controller 1 epoch 2 with correlation id 8",
        LogEventKind.METADATA,
        {"partition_count": 12},
    ),
    (
        "offline log dir",
        "Ignoring LeaderAndIsr request from controller 1 with correlation id 7 epoch 2 for "
        "partition t-0 as the local replica for the partition is in an offline log directory",
        LogEventKind.OFFLINE,
        {"topic": "t", "partition": 0},
    ),
    (
        "an old request",
        "Ignoring LeaderAndIsr request from controller 1 with correlation id 7 epoch 2 for "
        "partition t-0 since its associated leader epoch 3 is smaller than the current leader "
        "epoch 4",
        LogEventKind.SKIPPED,
        {"topic": "t", "partition": 0},
    ),
    (
        "an old controller",
        "Ignoring LeaderAndIsr request from controller 1 with correlation id 7 since its "
        "controller epoch 1 is old. Latest known controller epoch is 2",
        LogEventKind.SKIPPED,
        {},
    ),
    (
        "a leader that is away",
        "Received LeaderAndIsrRequest with correlation id 7 from controller 1 epoch 2 for "
        "partition t-0 (last update controller epoch 2) but cannot become follower since the new "
        "leader 3 is unavailable.",
        LogEventKind.FAILED,
        {"topic": "t", "partition": 0, "leader": 3},
    ),
    # -- brokers under KRaft -----------------------------------------------------------------------
    (
        "many followers",
        "Transitioning 3 partition(s) to local followers.",
        LogEventKind.FETCHERS,
        {"partition_count": 3},
    ),
    (
        "fetchers",
        "Stopped fetchers as part of become-follower for 2 partitions",
        LogEventKind.FETCHERS,
        {"partition_count": 2},
    ),
    (
        "created",
        f"Creating new partition side.way-1-0 with topic id {ID}.",
        LogEventKind.CREATED,
        {"topic": "side.way-1", "partition": 0, "topic_id": ID},
    ),
    ("deleting", "Deleting 1 partition(s).", LogEventKind.DELETED, {"partition_count": 1}),
    (
        "a lost disk",
        "Unable to delete replica t-0 because the local replica for the partition is in an "
        "offline log directory",
        LogEventKind.OFFLINE,
        {"topic": "t", "partition": 0},
    ),
    (
        "no fetching",
        f"Unable to start fetching t-0 with topic ID {ID} due to IllegalStateException",
        LogEventKind.FAILED,
        {"topic": "t", "partition": 0},
    ),
    # -- what is not known -------------------------------------------------------------------------
    ("another", "Something that no version says", LogEventKind.UNKNOWN, {}),
    (
        "a letter among the ids",
        "Changed partition t-0 from NewPartition to OnlinePartition with state "
        "LeaderAndIsr(leader=1, leaderEpoch=0, isr=List(1, 2x), zkVersion=0)",
        LogEventKind.UNKNOWN,
        {},
    ),
    (
        "a list as Scala had it",
        "Changed partition t-0 from NewPartition to OnlinePartition with state "
        "LeaderAndIsr(leader=1, leaderEpoch=0, isr=Vector(1, 2), zkVersion=0)",
        LogEventKind.ELECTED,
        {
            "topic": "t",
            "partition": 0,
            "leader": 1,
            "leader_epoch": 0,
            "partition_epoch": 0,
            "isr": (1, 2),
        },
    ),
    ("a beginning of one", "Leader story-0 with topic", LogEventKind.UNKNOWN, {}),
    ("nothing", "", LogEventKind.UNKNOWN, {}),
]


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [line[1:] for line in LINES],
    ids=[line[0].replace(" ", "-") for line in LINES],
)
def test_a_message_is_read(text: str, kind: LogEventKind, values: dict[str, Any]) -> None:
    assert parse_message(text) == Change(kind, **values)
