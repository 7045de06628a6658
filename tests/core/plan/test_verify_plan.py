"""Whether replicas lie in the log dirs that a plan asks for."""

from __future__ import annotations

from clusters import cluster, tp

from core.plan.verify import VerifyStatus, verify

STATE = cluster({"t-0": [0, 1], "t-1": [0, 1]}, size_bytes={"t-0": 1})  # t-0 in /data


def test_a_replica_in_another_log_dir_is_not_as_planned() -> None:
    targets = {tp("t-0"): (0, 1)}
    (found,) = verify(STATE, targets, {tp("t-0"): ("any", "/d2")})
    assert found.status is VerifyStatus.OTHER_LOG_DIR
    assert found.sentence == "t-0 lies in /data on broker 1, not in /d2."
    (found,) = verify(STATE, targets, {tp("t-0"): ("any", "/data")})
    assert found.status is VerifyStatus.DONE


def test_a_log_dir_that_is_not_known_is_not_taken_for_the_right_one() -> None:
    (found,) = verify(STATE, {tp("t-1"): (0, 1)}, {tp("t-1"): ("any", "/d2")})
    assert found.status is VerifyStatus.OTHER_LOG_DIR
    assert "not known" in found.sentence


def test_other_replicas_are_said_before_log_dirs() -> None:
    (found,) = verify(STATE, {tp("t-0"): (0, 2)}, {tp("t-0"): ("any", "/d2")})
    assert found.status is VerifyStatus.DIFFERENT
