"""Plan files: Kafka's own form, ours beside it, and every file that is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from clusters import cluster, tp
from hypothesis import given
from plan_strategies import plans

from core.cluster.metadata import Topic
from core.errors import DocumentError, ExitCode
from core.plan.formats.plan_document import MoveBase, read_document
from core.plan.formats.plan_file import format_plan_file, read_plan, to_document
from core.plan.plan import Move, Plan
from core.plan.rebase import rebase
from core.text.json_text import compact

STATE = cluster(
    {"foo-0": [0, 1, 2], "foo-1": [1, 2, 0], "bar-0": [2, 3]},
    brokers=range(5),
    topics=[Topic("foo", "foo-id"), Topic("bar", "bar-id")],
)
PLAN = Plan.of(
    [
        Move(tp("foo-1"), (1, 2, 0), (1, 2, 4), "foo-id"),
        Move(tp("bar-0"), (2, 3), (3, 2), "bar-id"),
    ],
    cluster_id="test-cluster",
    notes=("relieve broker 0",),
)


def partitions(*rows) -> str:
    return json.dumps({"version": 1, "partitions": list(rows)})


def row(topic="foo", partition=0, replicas=(0, 1, 3), **more) -> dict:
    return {"topic": topic, "partition": partition, "replicas": list(replicas), **more}


def to_kafka(plan: Plan) -> dict:
    """Return what of a plan file Kafka's tool reads."""
    return {key: value for key, value in to_document(plan).items() if key != "trimtab"}


def test_plan_file_matches_kafkas_format_byte_for_byte():
    """As ReassignPartitionsCommand.formatAsReassignmentJson prints it."""
    assert compact(to_kafka(PLAN)) == (
        '{"version":1,"partitions":['
        '{"topic":"bar","partition":0,"replicas":[3,2],"log_dirs":["any","any"]},'
        '{"topic":"foo","partition":1,"replicas":[1,2,4],"log_dirs":["any","any","any"]}]}'
    )


def test_trimtab_part_of_a_plan_file_comes_after_kafkas_part():
    assert format_plan_file(PLAN).startswith(
        compact(to_kafka(PLAN)).removesuffix("}") + ',"trimtab":{'
    )


def test_a_plan_file_keeps_the_whole_plan(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(format_plan_file(PLAN))
    assert read_plan(path, STATE) == PLAN
    assert read_plan(path) == PLAN


def test_reason_of_a_move_is_stored_outside_kafkas_part_of_the_plan_file():
    plan = Plan.of([replace(move, reason="leaves b2") for move in PLAN])
    assert compact(to_kafka(plan)) == compact(to_kafka(PLAN)), "byte for byte, whatever is said"
    assert [move.reason for move in read_plan(format_plan_file(plan))] == ["leaves b2"] * 2
    assert format_plan_file(read_plan(format_plan_file(plan), STATE)) == format_plan_file(
        replace(plan, cluster_id="test-cluster")
    )
    assert format_plan_file(rebase(STATE, plan).plan) == format_plan_file(plan)
    assert '"because"' not in format_plan_file(PLAN)
    with pytest.raises(DocumentError, match="'because' of base.0. is not a text"):
        read_plan(format_plan_file(plan).replace('"leaves b2"', "7", 1))


def test_reason_stays_with_its_move_and_is_dropped_by_an_edit_or_inverse():
    plan = Plan.of([replace(move, reason="leaves b0") for move in PLAN], cluster_id="test-cluster")
    by_hand = plan.with_move(STATE, tp("foo-1"), 4, 3)
    assert {move.tp: move.reason for move in by_hand} == {
        tp("bar-0"): "leaves b0",
        tp("foo-1"): "",
    }
    assert not any(move.reason for move in plan.inverse())


@given(plans.filter(len))
def test_any_plan_survives_writing_and_reading_its_file(plan):
    assert read_plan(format_plan_file(plan)) == plan
    assert format_plan_file(plan) == compact(to_document(plan)) + "\n"


def test_plan_file_equals_its_compact_document_whatever_text_it_contains():
    moves = [
        Move(tp("a-0"), (1, 2), (1, 2), None, ("/d1", "any"), ("/d0", "any"), '"base":[] \u202e'),
        Move(tp("b-1"), (1, 2), (2, 1), "id", reason="é"),
    ]
    plan = Plan.of(moves, cluster_id='c"partitions":[]', notes=('"base":[]', "\x7f"))
    assert format_plan_file(plan) == compact(to_document(plan)) + "\n"


def test_plain_kafka_file_takes_its_base_from_the_cluster():
    plan = read_plan(partitions(row(replicas=[0, 1, 3]), row("bar", 0, [2, 3])), STATE)
    assert plan.moves == (Move(tp("foo-0"), (0, 1, 2), (0, 1, 3), "foo-id"),)
    assert plan.cluster_id == "test-cluster"


def test_plan_of_a_deleted_topic_is_refused_with_a_hint_to_rebase():
    now = cluster({"bar-0": [2, 3]}, brokers=range(5), topics=[Topic("bar", "bar-id")])
    with pytest.raises(DocumentError, match="foo-1, which is not there any more") as caught:
        read_plan(format_plan_file(PLAN), now)
    assert "trimtab plan rebase PLAN" in caught.value.next


def test_plain_kafka_file_keeps_unchanged_partitions_for_verification():
    document = read_document(partitions(row("bar", 0, [2, 3])))
    assert document.targets == {tp("bar-0"): (2, 3)}


@pytest.mark.parametrize("version", [{}, {"version": 1}])
def test_missing_version_is_read_as_version_1(version):
    text = json.dumps(version | {"partitions": [row()]})
    assert len(read_plan(text, STATE)) == 1


def test_a_byte_order_mark_and_unknown_keys_are_ignored(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text("\ufeff" + partitions(row(comment="mine")), encoding="utf-8")
    assert len(read_plan(path, STATE)) == 1


def with_ours(**change) -> str:
    document = to_document(PLAN)
    document["trimtab"] |= change
    return json.dumps(document)


REFUSED = {
    "twice": ('{"version": 1, "partitions": [], "partitions": []}', '"partitions" twice'),
    "not JSON": ('{"version": 1,\n "partitions": [}', "line 2, column 17"),
    "empty file": ("", "is empty"),
    "a list": ("[]", "it is not an object"),
    "a number": ("7", "it is not an object"),
    "nested too deeply": ("[" * 100_000, "nested too deeply"),
    "no partitions": (partitions(), "has no partitions"),
    "partitions absent": ('{"version": 1}', "has no partitions"),
    "topics to move": ('{"version": 1, "topics": [{"topic": "foo"}]}', "topics to move"),
    "partitions no list": ('{"version": 1, "partitions": {}}', "'partitions' of the document"),
    "same partition twice": (partitions(row(), row(replicas=[1])), "names foo-0 twice"),
    "same broker twice": (partitions(row(replicas=[0, 0])), "puts foo-0 on broker 0 twice"),
    "no replica": (partitions(row(replicas=[])), "without a replica"),
    "version 2": ('{"version": 2, "partitions": []}', "has version 2"),
    "version true": ('{"version": true, "partitions": []}', "has version true"),
    "version text": ('{"version": "1", "partitions": []}', 'has version "1"'),
    "row no object": (partitions("foo-0"), "partitions[0] is not an object"),
    "no topic": (partitions({"partition": 0, "replicas": [1]}), "partitions[0] has no 'topic'"),
    "topic a number": (partitions(row(topic=3)), "'topic' of partitions[0] is not a text"),
    "partition a text": (partitions(row(partition="0")), "'partition' of partitions[0] is"),
    "partition negative": (partitions(row(partition=-1)), "is out of range"),
    "partition true": (partitions(row(partition=True)), "'partition' of partitions[0] is"),
    "replica a fraction": (partitions(row(replicas=[1.5])), "is not a list of broker ids"),
    "replicas absent": (
        partitions({"topic": "t", "partition": 0}),
        "has no 'replicas'",
    ),
    "broker beyond an int": (partitions(row(replicas=[2**31])), "is not a list of broker ids"),
    "log dirs short": (partitions(row(log_dirs=["any"])), "3 replicas and 1 log_dirs"),
    "log dir a number": (partitions(row(log_dirs=["any", 1, "any"])), "'log_dirs' of"),
    "missing topic": (partitions(row(topic="baz")), "topic baz, which the cluster does not have"),
    "missing partition": (partitions(row(partition=7)), "foo has 2 partitions"),
    "missing broker": (partitions(row(replicas=[0, 9])), "broker 9, which the cluster does not"),
    "another cluster": (with_ours(cluster_id="other"), "is for cluster other"),
    "a newer format": (with_ours(format="trimtab.plan/2"), "trimtab.plan/2"),
    "a strange format": (with_ours(format="plan"), "trimtab.format"),
    "ours no object": (
        json.dumps({"partitions": [row()], "trimtab": []}),
        "'trimtab' of the document is not an object",
    ),
    "base with wrong types": (with_ours(base=[{"topic": 1}]), "'topic' of base[0] is not a text"),
    "an empty cluster id": (with_ours(cluster_id=""), "'cluster_id' of 'trimtab' of"),
    "an empty topic id": (
        with_ours(base=[{"topic": "foo", "partition": 0, "replicas": [0], "topic_id": ""}]),
        "'topic_id' of base[0] is empty",
    ),
    "notes with wrong types": (with_ours(notes=[1]), "'notes' of 'trimtab'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_plan_file_is_refused_with_a_title_and_a_next_step(name):
    text, words = REFUSED[name]
    with pytest.raises(DocumentError) as refusal:
        read_plan(text, STATE)
    assert words in refusal.value.title
    assert refusal.value.next
    assert "\n" not in refusal.value.title
    assert refusal.value.exit_code == ExitCode.USAGE


def test_plain_kafka_file_is_refused_without_a_cluster():
    with pytest.raises(DocumentError, match="does not say what foo-0 is now"):
        read_plan(partitions(row()))


def test_unreadable_plan_files_are_refused(tmp_path):
    with pytest.raises(DocumentError, match="cannot be read: No such file"):
        read_plan(tmp_path / "none.json")
    with pytest.raises(DocumentError, match="cannot be read: Is a directory"):
        read_plan(tmp_path)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DocumentError, match="byte 0 is not UTF-8"):
        read_plan(binary)


PLACED = cluster({"foo-0": [0, 1, 2]}, brokers=range(5), size_bytes=1)


def test_kafka_rollback_file_requests_only_the_log_dirs_that_change():
    """Replicas that stay are where it says; only what is to change is asked for."""
    text = partitions(row(replicas=[0, 1, 3], log_dirs=["/data", "any", "/d3"]))
    (move,) = read_plan(text, PLACED)
    assert (move.after, move.log_dirs) == ((0, 1, 3), ("any", "any", "/d3"))
    assert to_kafka(Plan.of([move]))["partitions"][0]["log_dirs"] == ["any", "any", "/d3"]
    (only_stays,) = read_plan(
        partitions(row(replicas=[0, 1, 3], log_dirs=["/data", "/data", "any"])), PLACED
    )
    assert only_stays.log_dirs is None


def test_a_replica_that_stays_may_change_its_log_dir():
    text = partitions(row(replicas=[0, 1, 2], log_dirs=["/d9", "any", "/data"]))
    (move,) = read_plan(text, PLACED)
    assert move.dir_moves == {0: "/d9"}
    assert move.base_log_dirs == {0: "/data"}
    written = to_document(Plan.of([move]))
    assert written["partitions"][0]["log_dirs"] == ["/d9", "any", "any"]
    assert written["trimtab"]["base"][0]["log_dirs"] == ["/data", "any", "any"]
    assert read_plan(format_plan_file(Plan.of([move]))) == Plan.of([move])


def test_log_dir_is_requested_where_the_present_log_dir_is_unknown():
    text = partitions(row(replicas=[0, 1, 2], log_dirs=["/d9", "any", "any"]))
    (move,) = read_plan(text, STATE)
    assert (move.dir_moves, move.base_log_dirs) == ({0: "/d9"}, {})


def test_inverse_plan_restores_the_previous_log_dirs():
    text = partitions(row(replicas=[0, 1, 3], log_dirs=["/d9", "any", "/d3"]))
    (move,) = read_plan(text, PLACED).inverse()
    assert (move.after, move.log_dirs) == ((0, 1, 2), ("/data", "any", "/data"))


def test_inverse_of_a_plan_without_log_dirs_requests_no_log_dirs():
    (move,) = read_plan(partitions(row(replicas=[0, 1, 3])), PLACED).inverse()
    assert move.log_dirs is None


def test_plan_for_a_saved_cluster_without_an_id_can_be_read_back_and_names_none() -> None:
    move = Move(tp("t-0"), (1, 2), (1, 3))
    written = format_plan_file(Plan.of([move], cluster_id=""))
    assert json.loads(written)["trimtab"]["cluster_id"] is None
    assert read_plan(written).moves == (move,)


def proposal(topic="foo", partition=0, old=(0, 1, 2), new=(0, 1, 3), leader=0) -> dict:
    """As ExecutionProposal.getJsonStructure has it; Gson writes TopicPartition's hash, too."""
    return {
        "topicPartition": {"hash": 101574, "partition": partition, "topic": topic},
        "oldLeader": leader,
        "oldReplicas": list(old),
        "newReplicas": list(new),
    }


def answer(*proposals: dict, **more) -> str:
    """As OptimizationResult.getJSONString has it with verbose=true; Gson writes NaN bare."""
    summary = {"numReplicaMovements": len(proposals), "balancedness": float("nan")}
    return json.dumps(
        {"summary": summary, "goalSummary": [], "proposals": list(proposals), "version": 1} | more
    )


def test_cruise_control_proposals_are_read_as_targets_and_base_replicas():
    read = read_document(answer(proposal(), proposal(partition=1, old=(1, 2, 0), new=(2, 1, 0))))
    assert read.targets == {tp("foo-0"): (0, 1, 3), tp("foo-1"): (2, 1, 0)}
    assert read.base == {tp("foo-0"): MoveBase((0, 1, 2)), tp("foo-1"): MoveBase((1, 2, 0))}
    assert read.notes == ("from Cruise Control's proposals",)
    assert read.log_dirs == {}


def test_cruise_control_proposals_give_their_changes_without_a_cluster():
    (move,) = read_plan(answer(proposal()))
    assert (move.before, move.after) == ((0, 1, 2), (0, 1, 3))
    assert read_plan(answer(proposal()), STATE).moves == (move,)


def test_partition_that_is_yet_to_be_created_has_no_base():
    assert read_document(answer(proposal(old=(), leader=-1))).base == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (answer(), "no partitions"),
        (answer(proposals=None), "verbose=true"),
        (json.dumps({"summary": {}, "goalSummary": [], "version": 1}), "verbose=true"),
        (answer(proposal(), proposal()), "foo-0 twice"),
        (answer(proposal(new=())), "foo-0 without a replica"),
        (answer(proposal(new=(1, 1, 2))), "foo-0 on broker 1 twice"),
        (answer({"topicPartition": "foo-0"}), "'topicPartition' of proposals.0. is not an object"),
        (answer(proposal(new=("1",))), "'newReplicas' of proposals.0. is not a list of broker ids"),
    ],
)
def test_cruise_control_proposals_that_cannot_be_carried_out_are_refused(text, says):
    with pytest.raises(DocumentError, match=says):
        read_document(text)


def test_cruise_control_proposal_with_an_unknown_broker_is_refused_as_in_any_plan():
    with pytest.raises(DocumentError, match="broker 9, which the cluster does not have"):
        read_plan(answer(proposal(new=(0, 1, 9))), STATE)
