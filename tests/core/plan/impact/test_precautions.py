"""What is to be left alone while a plan is carried out, and who may fail."""

from __future__ import annotations

import pytest
from clusters import cluster, tp

from core.plan.impact.precautions import find_precautions
from core.plan.plan import Move, Plan

STATE = cluster(
    {"t-0": [0, 1], "t-1": [0, 1], "t-2": [1, 0], "t-3": [0, 1]}, leaders={"t-2": -1, "t-3": 1}
)
LEAVE = "Until it ends, delete none of these topics and add no partitions to them."
ONE = "Producers that do not retry may fail as 1 leader changes."
BY_ELECTION = "1 leader changes by an election only: --elect, or trimtab elect when it has ended."
TWO = "Producers that do not retry may fail as 2 leaders change."


@pytest.mark.parametrize(
    ("targets", "elects", "said"),
    [
        ({"t-0": (0, 2)}, False, [LEAVE]),
        ({"t-0": (2, 1)}, False, [LEAVE, ONE]),
        ({"t-0": (2, 1), "t-1": (2, 3)}, False, [LEAVE, TWO]),
        ({"t-0": (2, 0)}, False, [LEAVE, BY_ELECTION]),
        ({"t-0": (2, 0)}, True, [LEAVE, ONE]),
        ({"t-0": (1, 0)}, False, [BY_ELECTION]),
        ({"t-0": (1, 0)}, True, [ONE]),
        ({"t-0": (1,)}, False, [ONE]),
        ({"t-2": (2, 0)}, False, [LEAVE]),
        ({"t-3": (0, 1, 2)}, False, [LEAVE]),
        ({"t-3": (0, 1, 2), "t-0": (1, 0)}, False, [LEAVE, BY_ELECTION]),
        ({"t-3": (0, 1, 2), "t-0": (1, 0)}, True, [LEAVE, TWO]),
    ],
    ids=[
        "the leader stays",
        "the leader leaves",
        "two leave",
        "another is preferred",
        "another is preferred and elected",
        "a re-order leaves its leader alone",
        "a re-order with an election",
        "the leader's replica goes",
        "nobody leads that could change",
        "another than the preferred one leads already",
        "one of them as before, one by an election",
        "both by an election",
    ],
)
def test_what_is_said(targets: dict[str, tuple[int, ...]], elects: bool, said: list[str]) -> None:
    plan = Plan.of([Move(tp(n), STATE.replicas(STATE.find(tp(n))), t) for n, t in targets.items()])
    assert list(find_precautions(STATE, plan, elects=elects)) == said


def test_partitions_that_are_gone_change_no_leader() -> None:
    plan = Plan.of([Move(tp("u-0"), (0, 1), (1, 0))])
    assert find_precautions(STATE, plan, elects=True) == find_precautions(STATE, plan) == ()
