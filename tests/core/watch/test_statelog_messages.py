"""What state-change logs of Kafka 2.0 to 4.3 say, line by line, in the words of their sources."""

from __future__ import annotations

import pytest

from core.watch.statelog.event import Change, LogEventKind
from core.watch.statelog.messages import parse_message

ID = "zZBg-1TQR2aAmKgVpr87eg"


LINES: list[tuple[str, LogEventKind, str, str]] = [
    # -- leaders and followers ---------------------------------------------------------------------
    (
        "4.3 leader",
        LogEventKind.LEADER,
        f"Leader story-0 with topic id Some({ID}) starts at leader epoch 1 from offset 12 with "
        "partition epoch 3, high watermark 0, ISR [2,3], adding replicas [] and removing replicas "
        "[] . Previous leader Some(1) and previous leader epoch was 0.",
        "story-0 leader_epoch=1 partition_epoch=3 isr=(2, 3) previous_leader=1 previous_epoch=0 "
        f"offset=12 topic_id={ID}",
    ),
    (
        "3.9 leader under min ISR",
        LogEventKind.LEADER,
        f"Leader a.b-c-11 with topic id Some({ID}) starts at leader epoch 0 from offset 0 with "
        "partition epoch 0, high watermark 0, ISR [3], adding replicas [] and removing replicas "
        "[] (under-min-isr). Previous leader None and previous leader epoch was -1.",
        "a.b-c-11 leader_epoch=0 partition_epoch=0 isr=(3,) previous_epoch=-1 offset=0 "
        f"topic_id={ID}",
    ),
    (
        "3.5 leader",
        LogEventKind.LEADER,
        f"Leader t-1 with topic id Some({ID}) starts at leader epoch 4 from offset 9 with "
        "partition epoch 7, high watermark 9, ISR [1001], adding replicas [] and removing "
        "replicas []. Previous leader epoch was 3.",
        f"t-1 leader_epoch=4 partition_epoch=7 isr=(1001,) previous_epoch=3 offset=9 topic_id={ID}",
    ),
    (
        "2.8 to 3.2 leader",
        LogEventKind.LEADER,
        "Leader t-0 starts at leader epoch 2 from offset 41 with high watermark 40 ISR [1,2,3] "
        "addingReplicas [] removingReplicas []. Previous leader epoch was 1.",
        "t-0 leader_epoch=2 isr=(1, 2, 3) previous_epoch=1 offset=41",
    ),
    (
        "2.6 leader",
        LogEventKind.LEADER,
        "Leader test-1 starts at leader epoch 1 from offset 0 with high watermark 0 ISR 0 "
        "addingReplicas  removingReplicas .Previous leader epoch was 0.",
        "test-1 leader_epoch=1 isr=(0,) previous_epoch=0 offset=0",
    ),
    (
        "2.0 to 2.3 leader, in server.log",
        LogEventKind.LEADER,
        "t-0 starts at Leader Epoch 5 from offset 7. Previous Leader Epoch was: 4",
        "t-0 leader_epoch=5 previous_epoch=4 offset=7",
    ),
    (
        "2.4 leader, in server.log",
        LogEventKind.LEADER,
        "t-0 starts at leader epoch 5 from offset 7 with high watermark 7. Previous leader epoch "
        "was 4.",
        "t-0 leader_epoch=5 previous_epoch=4 offset=7",
    ),
    (
        "4.3 follower",
        LogEventKind.FOLLOWER,
        "Follower story-0 starts at leader epoch 1 from offset 0 with partition epoch 3 and high "
        "watermark 0. Current leader is 2. Previous leader Some(1) and previous leader epoch was "
        "0.",
        "story-0 leader=2 leader_epoch=1 partition_epoch=3 previous_leader=1 previous_epoch=0 "
        "offset=0",
    ),
    (
        "2.8 follower",
        LogEventKind.FOLLOWER,
        "Follower t-0 starts at leader epoch 2 from offset 41 with high watermark 40. Previous "
        "leader epoch was 1.",
        "t-0 leader_epoch=2 previous_epoch=1 offset=41",
    ),
    # -- the leader epoch stays --------------------------------------------------------------------
    (
        "4.3 registration",
        LogEventKind.ISR,
        f"Skipped the become-leader state change for story-2 with topic id Some({ID}), partition "
        "registration PartitionRegistration(replicas=[3, 1, 2], "
        "directories=[gfW1LFOCKAFU8an8ks-JWA, AAAAAAAAAAAAAAAAAAAAAQ, cn0XeVLLyvn7WBH6XZMPAA], "
        "isr=[3, 2], removingReplicas=[], addingReplicas=[], elr=[], lastKnownElr=[], leader=3, "
        "leaderRecoveryState=RECOVERED, leaderEpoch=0, partitionEpoch=3) and isNew=false since it "
        "is already the leader with leader epoch 0. Current high watermark 0, ISR [3,2], adding "
        "replicas [] and removing replicas [].",
        "story-2 leader=3 leader_epoch=0 partition_epoch=3 isr=(3, 2) replicas=(3, 1, 2) "
        f"topic_id={ID}",
    ),
    (
        "3.9 partition state",
        LogEventKind.ISR,
        f"Skipped the become-follower state change for t-2 with topic id Some({ID}) and partition "
        "state LeaderAndIsrPartitionState(topicName='t', partitionIndex=2, controllerEpoch=-1, "
        "leader=3, leaderEpoch=6, isr=[3, 2], partitionEpoch=9, replicas=[3, 1, 2], "
        "addingReplicas=[], removingReplicas=[], isNew=false, leaderRecoveryState=0) since it is "
        "already a follower with leader epoch 6.",
        "t-2 leader=3 leader_epoch=6 partition_epoch=9 isr=(3, 2) replicas=(3, 1, 2) "
        f"topic_id={ID}",
    ),
    (
        "3.9 too late",
        LogEventKind.SKIPPED,
        f"Skipped the become-follower state change for t-2 with topic id Some({ID}) and partition "
        "state LeaderAndIsrPartitionState(topicName='t', partitionIndex=2, controllerEpoch=-1, "
        "leader=3, leaderEpoch=6, isr=[3], partitionEpoch=8, replicas=[3, 1], addingReplicas=[], "
        "removingReplicas=[], isNew=false, leaderRecoveryState=0) since the follower is already "
        "at a newer partition epoch 9.",
        f"t-2 leader=3 leader_epoch=6 partition_epoch=8 isr=(3,) replicas=(3, 1) topic_id={ID}",
    ),
    (
        "2.4 leader already",
        LogEventKind.SKIPPED,
        "Skipped the become-leader state change after marking its partition as leader with "
        "correlation id 7 from controller 1 epoch 2 for partition t-3 (last update controller "
        "epoch 2) since it is already the leader for the partition.",
        "t-3",
    ),
    (
        "2.x ISR, in server.log",
        LogEventKind.ISR,
        "ISR updated to [1,2] and zkVersion updated to [5]",
        "partition_epoch=5 isr=(1, 2)",
    ),
    (
        "3.0 ISR, in server.log",
        LogEventKind.ISR,
        "ISR updated to 1,2 and version updated to [5]",
        "partition_epoch=5 isr=(1, 2)",
    ),
    (
        "2.0 shrink, in server.log",
        LogEventKind.ISR,
        "Shrinking ISR from 1,2,3 to 1,2",
        "isr=(1, 2)",
    ),
    (
        "3.0 shrink, in server.log",
        LogEventKind.ISR,
        "Shrinking ISR from 1,2,3 to 1,2. Leader: (highWatermark: 5, endOffset: 9). Out of sync "
        "replicas: (brokerId: 3, endOffset: 5).",
        "isr=(1, 2)",
    ),
    # -- the older controller ----------------------------------------------------------------------
    (
        "2.0 to 2.8 online",
        LogEventKind.ELECTED,
        "Changed partition topic-0 from OnlinePartition to OnlinePartition with state "
        "LeaderAndIsr(leader=2, leaderEpoch=1, isr=List(2, 3), zkVersion=1)",
        "topic-0 leader=2 leader_epoch=1 partition_epoch=1 isr=(2, 3)",
    ),
    (
        "3.2 online",
        LogEventKind.ELECTED,
        "Changed partition t-0 from NewPartition to OnlinePartition with state "
        "LeaderAndIsr(leader=2, leaderEpoch=0, isr=List(2), leaderRecoveryState=RECOVERED, "
        "zkVersion=0)",
        "t-0 leader=2 leader_epoch=0 partition_epoch=0 isr=(2,)",
    ),
    (
        "3.5 to 3.9 online",
        LogEventKind.ELECTED,
        "Changed partition t-0 from OfflinePartition to OnlinePartition with state "
        "LeaderAndIsr(leader=2, leaderEpoch=3, isrWithBrokerEpoch=List(BrokerState(brokerId=2, "
        "brokerEpoch=-1), BrokerState(brokerId=3, brokerEpoch=17)), "
        "leaderRecoveryState=RECOVERED, partitionEpoch=8)",
        "t-0 leader=2 leader_epoch=3 partition_epoch=8 isr=(2, 3)",
    ),
    (
        "new",
        LogEventKind.CREATED,
        "Changed partition t-0 state from NonExistentPartition to NewPartition with assigned "
        "replicas 1,2,3",
        "t-0 replicas=(1, 2, 3)",
    ),
    (
        "offline",
        LogEventKind.OFFLINE,
        "Changed partition t-0 state from OnlinePartition to OfflinePartition",
        "t-0",
    ),
    (
        "gone",
        LogEventKind.DELETED,
        "Changed partition t-0 state from OfflinePartition to NonExistentPartition",
        "t-0",
    ),
    (
        "replica offline",
        LogEventKind.OFFLINE,
        "Changed state of replica 3 for partition t-0 from OnlineReplica to OfflineReplica",
        "t-0 replica=3",
    ),
    (
        "replica deleted",
        LogEventKind.REPLICA,
        "Changed state of replica 3 for partition t-0 from OfflineReplica to "
        "ReplicaDeletionStarted",
        "t-0 replica=3",
    ),
    (
        "2.8 out of the ISR",
        LogEventKind.ISR,
        "Partition t-0 state changed to (Leader:2,ISR:2,3,LeaderEpoch:4,ZkVersion:6,"
        "ControllerEpoch:2) after removing replica 1 from the ISR as part of transition to "
        "OfflineReplica",
        "t-0 leader=2 leader_epoch=4 partition_epoch=6 isr=(2, 3) replica=1",
    ),
    (
        "3.5 out of the ISR",
        LogEventKind.ISR,
        "Partition t-0 state changed to (Leader:-1,ISR:2,LeaderEpoch:4,"
        "LeaderRecoveryState:RECOVERED,PartitionEpoch:6,ControllerEpoch:2) after removing replica "
        "1 from the ISR as part of transition to OfflineReplica",
        "t-0 leader=-1 leader_epoch=4 partition_epoch=6 isr=(2,) replica=1",
    ),
    (
        "a log dir lost",
        LogEventKind.OFFLINE,
        "Mark replicas t-0 on broker 2 as offline",
        "t-0 replica=2",
    ),
    (
        "many lost",
        LogEventKind.OFFLINE,
        "Mark replicas t-0,u-1 on broker 2 as offline",
        "replica=2",
    ),
    (
        "reassigned",
        LogEventKind.ASSIGNED,
        "Sent LeaderAndIsr request (Leader:2,ISR:2,3,LeaderEpoch:4,ZkVersion:6,ControllerEpoch:2) "
        "with new replica assignment ReplicaAssignment(replicas=1,2,3, addingReplicas=1, "
        "removingReplicas=) to leader 2 for partition being reassigned t-0",
        "t-0",
    ),
    (
        "no election",
        LogEventKind.FAILED,
        "Controller 1 epoch 2 failed to change state for partition t-0 from OfflinePartition to "
        "OnlinePartition",
        "t-0",
    ),
    # -- requests ----------------------------------------------------------------------------------
    (
        "2.0 received",
        LogEventKind.REQUEST,
        "Received LeaderAndIsr request PartitionState(controllerEpoch=2, leader=1, leaderEpoch=3, "
        "isr=1,2, zkVersion=5, replicas=1,2,3, isNew=true) correlation id 7 from controller 1 "
        "epoch 2 for partition t-0",
        "t-0 leader=1 leader_epoch=3 partition_epoch=5 isr=(1, 2) replicas=(1, 2, 3)",
    ),
    (
        "2.4 received",
        LogEventKind.REQUEST,
        "Received LeaderAndIsr request LeaderAndIsrPartitionState(topicName='t', "
        "partitionIndex=4, controllerEpoch=2, leader=1, leaderEpoch=3, isr=[1, 2], zkVersion=5, "
        "replicas=[1, 2], addingReplicas=[], removingReplicas=[], isNew=false) correlation id 7 "
        "from controller 1 epoch 2",
        "t-4 leader=1 leader_epoch=3 partition_epoch=5 isr=(1, 2) replicas=(1, 2)",
    ),
    (
        "2.0 cached",
        LogEventKind.METADATA,
        "Cached leader info PartitionState(controllerEpoch=2, leader=1, leaderEpoch=3, isr=[1, "
        "2], zkVersion=5, replicas=[1, 2], offlineReplicas=[]) for partition t-0 in response to "
        "UpdateMetadata request sent by controller 1 epoch 2 with correlation id 8",
        "t-0 leader=1 leader_epoch=3 partition_epoch=5 isr=(1, 2) replicas=(1, 2)",
    ),
    (
        "2.x forgotten",
        LogEventKind.DELETED,
        "Deleted partition t-0 from metadata cache in response to UpdateMetadata request sent by "
        "controller 1 epoch 2 with correlation id 9",
        "t-0",
    ),
    (
        "2.8 sending",
        LogEventKind.REQUEST,
        "Sending LeaderAndIsr request to broker 1 with 0 become-leader and 1 become-follower "
        "partitions",
        "",
    ),
    (
        "2.8 handling",
        LogEventKind.REQUEST,
        "Handling LeaderAndIsr request correlationId 4 from controller 0 for 17 partitions",
        "partition_count=17",
    ),
    (
        "2.8 finished",
        LogEventKind.REQUEST,
        "Finished LeaderAndIsr request in 142ms correlationId 1 from controller 1001 for 3 "
        "partitions",
        "partition_count=3",
    ),
    (
        "2.8 metadata",
        LogEventKind.METADATA,
        "Add 12 partitions and deleted 0 partitions from metadata cache in response to "
        "UpdateMetadata request sent by controller 1 epoch 2 with correlation id 8",
        "partition_count=12",
    ),
    (
        "offline log dir",
        LogEventKind.OFFLINE,
        "Ignoring LeaderAndIsr request from controller 1 with correlation id 7 epoch 2 for "
        "partition t-0 as the local replica for the partition is in an offline log directory",
        "t-0",
    ),
    (
        "an old request",
        LogEventKind.SKIPPED,
        "Ignoring LeaderAndIsr request from controller 1 with correlation id 7 epoch 2 for "
        "partition t-0 since its associated leader epoch 3 is smaller than the current leader "
        "epoch 4",
        "t-0",
    ),
    (
        "an old controller",
        LogEventKind.SKIPPED,
        "Ignoring LeaderAndIsr request from controller 1 with correlation id 7 since its "
        "controller epoch 1 is old. Latest known controller epoch is 2",
        "",
    ),
    (
        "a leader that is away",
        LogEventKind.FAILED,
        "Received LeaderAndIsrRequest with correlation id 7 from controller 1 epoch 2 for "
        "partition t-0 (last update controller epoch 2) but cannot become follower since the new "
        "leader 3 is unavailable.",
        "t-0 leader=3",
    ),
    # -- brokers under KRaft -----------------------------------------------------------------------
    (
        "many followers",
        LogEventKind.FETCHERS,
        "Transitioning 3 partition(s) to local followers.",
        "partition_count=3",
    ),
    (
        "fetchers",
        LogEventKind.FETCHERS,
        "Stopped fetchers as part of become-follower for 2 partitions",
        "partition_count=2",
    ),
    (
        "created",
        LogEventKind.CREATED,
        f"Creating new partition side.way-1-0 with topic id {ID}.",
        f"side.way-1-0 topic_id={ID}",
    ),
    (
        "deleting",
        LogEventKind.DELETED,
        "Deleting 1 partition(s).",
        "partition_count=1",
    ),
    (
        "a lost disk",
        LogEventKind.OFFLINE,
        "Unable to delete replica t-0 because the local replica for the partition is in an "
        "offline log directory",
        "t-0",
    ),
    (
        "no fetching",
        LogEventKind.FAILED,
        f"Unable to start fetching t-0 with topic ID {ID} due to IllegalStateException",
        "t-0",
    ),
    # -- what is not known -------------------------------------------------------------------------
    (
        "another",
        LogEventKind.UNKNOWN,
        "Something that no version says",
        "",
    ),
    (
        "a letter among the ids",
        LogEventKind.UNKNOWN,
        "Changed partition t-0 from NewPartition to OnlinePartition with state "
        "LeaderAndIsr(leader=1, leaderEpoch=0, isr=List(1, 2x), zkVersion=0)",
        "",
    ),
    (
        "a list as Scala had it",
        LogEventKind.ELECTED,
        "Changed partition t-0 from NewPartition to OnlinePartition with state "
        "LeaderAndIsr(leader=1, leaderEpoch=0, isr=Vector(1, 2), zkVersion=0)",
        "t-0 leader=1 leader_epoch=0 partition_epoch=0 isr=(1, 2)",
    ),
    (
        "a beginning of one",
        LogEventKind.UNKNOWN,
        "Leader story-0 with topic",
        "",
    ),
    (
        "nothing",
        LogEventKind.UNKNOWN,
        "",
        "",
    ),
]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [line[1:] for line in LINES],
    ids=[line[0].replace(" ", "-") for line in LINES],
)
def test_log_message_is_parsed_into_its_kind_and_fields(
    kind: LogEventKind, text: str, expected: str
) -> None:
    change = parse_message(text)
    assert change.kind is kind
    fields = [] if change.topic is None else [f"{change.topic}-{change.partition}"]
    for name, value in zip(Change._fields[3:], change[3:], strict=True):
        if value is not None:
            fields.append(f"{name}={value if name == 'topic_id' else repr(value)}")
    assert " ".join(fields) == expected
