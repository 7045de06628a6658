"""What an ended run is followed by: what it left undone, or what it did undone, as it is now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from clusters import NOON, cluster, tp
from run_help import move, new_journal

from core.cluster.metadata import LogDir, Topic
from core.cluster.state import ClusterState
from core.errors import UsageError
from core.plan.plan import Plan
from core.run.journal.journal import Journal
from core.run.journal.records import Kind
from core.run.journal.replay import fold
from core.run.retry_rollback import FollowUp, FollowUpPlan, plan_followup

MOVES = tuple(move("t", n, (1, 2), (3, 2)) for n in range(5))
ENDS = ("done", "failed", "cancelled", "skipped", None)
"""How each of them ended; None is one that never began."""


@pytest.fixture
def journal() -> Any:
    plan = Plan("test-cluster", MOVES)
    made = new_journal(plan)
    with made as journal:
        preflight = {"sizes": [1] * 5, "leaders": [1] * 5, "min_insync": {}, "said": []}
        journal.write(NOON, Kind.PREFLIGHT, preflight)
        ended(journal, *(phase or "queued" for phase in ENDS))
        yield journal


def ended(journal: Journal, *phases: str, first: int = 0) -> None:
    moved = [
        {"index": first + index, "phase": phase, "why": "", "leader": None}
        for index, phase in enumerate(phases)
    ]
    journal.write(NOON, Kind.MOVED, {"moves": moved, "stop": ""})


def added(journal: Journal, index: int, after: tuple[int, ...], role: str) -> None:
    entry = {
        "topic": "t",
        "partition": MOVES[index].tp.partition,
        "before": list(MOVES[index].after if role == "rollback" else MOVES[index].before),
        "after": list(after),
        "topic_id": None,
        "batch": 1,
        "role": role,
        "instead_of": index,
    }
    rollback = role == "rollback"
    added = {"moves": [entry], "refused": [], "rollback": rollback}
    journal.write(NOON, Kind.MOVES_ADDED, added)


def now(**replicas: tuple[int, ...]) -> ClusterState:
    """Return the cluster as the run left it, but for what is said."""
    assignments = {"t-0": (3, 2), **{f"t-{n}": (1, 2) for n in range(1, 5)}}
    assignments |= {name.replace("_", "-"): held for name, held in replicas.items()}
    return cluster(assignments, brokers=range(1, 7))


def followup(
    journal: Journal, way: FollowUp, state: ClusterState | None = None, only: tuple[str, ...] = ()
) -> FollowUpPlan:
    history = fold(journal.records())
    return plan_followup(history, way, state or now(), [tp(name) for name in only])


def changes(followup_plan: FollowUpPlan) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    return {str(m.tp): (m.before, m.after) for m in followup_plan.plan}


def test_failed_cancelled_skipped_and_unstarted_moves_are_retried(journal: Journal) -> None:
    followup_plan = followup(journal, FollowUp.RETRY)
    assert changes(followup_plan) == {f"t-{n}": ((1, 2), (3, 2)) for n in range(1, 5)}
    assert followup_plan.left == ()


def test_only_moves_that_were_done_are_rolled_back(journal: Journal) -> None:
    assert changes(followup(journal, FollowUp.ROLLBACK)) == {"t-0": ((3, 2), (1, 2))}


def test_retargeted_partition_is_rolled_back_from_its_new_target(journal: Journal) -> None:
    added(journal, 2, (4, 2), "retarget")
    ended(journal, "done", first=5)
    followup_plan = followup(journal, FollowUp.ROLLBACK, now(t_2=(4, 2)))
    assert changes(followup_plan) == {"t-0": ((3, 2), (1, 2)), "t-2": ((4, 2), (1, 2))}
    assert "t-2" not in changes(followup(journal, FollowUp.RETRY, now(t_2=(4, 2))))


def test_partition_already_rolled_back_is_not_rolled_back_twice(journal: Journal) -> None:
    added(journal, 0, (1, 2), "rollback")
    ended(journal, "done", first=5)
    with pytest.raises(UsageError, match="rolled back already"):
        followup(journal, FollowUp.ROLLBACK, now(t_0=(1, 2)))
    assert "t-0" not in changes(followup(journal, FollowUp.RETRY, now(t_0=(1, 2))))


def test_failed_rollback_move_is_retried_and_nothing_else(journal: Journal) -> None:
    added(journal, 0, (1, 2), "rollback")
    ended(journal, "failed", first=5)
    assert changes(followup(journal, FollowUp.RETRY)) == {"t-0": ((3, 2), (1, 2))}


def test_retry_of_a_fully_done_run_is_refused(journal: Journal) -> None:
    ended(journal, "done", "done", "done", "done", "done")
    with pytest.raises(UsageError, match="left nothing undone"):
        followup(journal, FollowUp.RETRY)


def test_retry_and_rollback_are_restricted_to_the_named_partitions(journal: Journal) -> None:
    assert list(changes(followup(journal, FollowUp.RETRY, only=("t-2", "t-4")))) == ["t-2", "t-4"]
    with pytest.raises(UsageError, match="t-0 has neither failed nor been left out"):
        followup(journal, FollowUp.RETRY, only=("t-2", "t-0"))
    with pytest.raises(UsageError, match="t-1 was not moved by run"):
        followup(journal, FollowUp.ROLLBACK, only=("t-1",))


def test_retry_and_rollback_start_from_the_current_replica_order(journal: Journal) -> None:
    followup_plan = followup(journal, FollowUp.RETRY, now(t_1=(2, 1)), only=("t-1",))
    assert changes(followup_plan) == {"t-1": ((2, 1), (3, 2))}
    followup_plan = followup(journal, FollowUp.ROLLBACK, now(t_0=(2, 3)))
    assert changes(followup_plan) == {"t-0": ((2, 3), (1, 2))}


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (cluster({"u-0": (1, 2, 3)}), "is not there any more"),
        (now(t_1=(3, 2)), "has 3,2 already"),
        (now(t_1=(4, 2)), "has 4,2 by now, not 1,2"),
        (now(t_1=(1, 2, 4)), "has 1,2,4 by now, not 1,2"),
        (cluster({"t-1": (1, 2)}, brokers=(1, 2)), "broker 3, which the cluster does not have"),
        (cluster({"t-1": (1, 2)}, brokers=(1, 2, 3), dead=(3,)), "broker 3, which is down"),
        (
            cluster({"t-1": (1, 2, 4)}, brokers=range(1, 6), adding={"t-1": (4,)}),
            "is moving just now",
        ),
    ],
)
def test_move_that_no_longer_applies_is_left_out_with_a_reason(
    journal: Journal, state: ClusterState, why: str
) -> None:
    followup_plan = followup(journal, FollowUp.RETRY, state, only=("t-1",))
    assert not followup_plan.plan.moves
    (left,) = followup_plan.left
    assert str(left).startswith("t-1 ")
    assert why in str(left)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/b", "would go to log dir /b of broker 3, which is offline"),
        ("/c", "would go to log dir /c of broker 3, which it does not have"),
    ],
)
def test_move_to_an_offline_or_missing_log_dir_is_left_out_with_a_reason(
    path: str, why: str
) -> None:
    named = replace(MOVES[0], log_dirs=(path, "any"))
    plan = Plan("test-cluster", (named, *MOVES[1:]))
    state = now(t_0=(1, 2))
    dirs = (LogDir("/a", 10**12, 10**12), LogDir("/b", error="offline"))
    state = state.with_brokers([replace(broker, log_dirs=dirs) for broker in state.brokers])
    with new_journal(plan) as journal:
        followup_plan = followup(journal, FollowUp.RETRY, state)
    assert [str(left) for left in followup_plan.left] == [f"t-0 {why}"]
    assert list(changes(followup_plan)) == [f"t-{n}" for n in range(1, 5)]


def test_recreated_topic_is_treated_as_another_topic() -> None:
    state = cluster({"t-0": (1, 2)}, brokers=(1, 2, 3), topics=(Topic("t", "new"),))
    plan = Plan("test-cluster", (replace(MOVES[0], topic_id="old"),))
    with new_journal(plan) as journal:
        followup_plan = followup(journal, FollowUp.RETRY, state)
    assert "another topic's by now" in str(followup_plan.left[0])
