"""Cruise Control's proposals as a plan: its JSON in, and what is refused of it."""

from __future__ import annotations

import json

import pytest
from clusters import cluster, tp

from core.errors import DocumentError
from core.plan.formats.plan_file import MoveBase, read_document, read_plan

STATE = cluster({"foo-0": [0, 1, 2], "foo-1": [1, 2, 0]}, brokers=range(5))


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


def test_proposals_are_targets_and_say_what_was_before():
    read = read_document(answer(proposal(), proposal(partition=1, old=(1, 2, 0), new=(2, 1, 0))))
    assert read.targets == {tp("foo-0"): (0, 1, 3), tp("foo-1"): (2, 1, 0)}
    assert read.base == {tp("foo-0"): MoveBase((0, 1, 2)), tp("foo-1"): MoveBase((1, 2, 0))}
    assert read.notes == ("from Cruise Control's proposals",)
    assert read.log_dirs == {}


def test_a_cluster_is_not_needed_to_know_its_changes():
    (move,) = read_plan(answer(proposal()))
    assert (move.before, move.after) == ((0, 1, 2), (0, 1, 3))
    assert read_plan(answer(proposal()), STATE).moves == (move,)


def test_a_partition_that_is_to_be_made_has_no_base():
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
        (answer({"topicPartition": "foo-0"}), r"proposals\[0\].topicPartition: expected an object"),
        (answer(proposal(new=("1",))), r"newReplicas\[0\]: expected a number"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_in_a_sentence(text, says):
    with pytest.raises(DocumentError, match=says):
        read_document(text)


def test_a_misfit_is_refused_as_in_any_plan():
    with pytest.raises(DocumentError, match="broker 9, which the cluster does not have"):
        read_plan(answer(proposal(new=(0, 1, 9))), STATE)
