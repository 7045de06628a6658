"""`trimtab replicas verify`: what it prints, its exit codes, and what it refuses."""

from __future__ import annotations

import json

import pytest
from in_process import Hand
from replica_logs import Replicas, batch, flipped

from core.cluster.kafka_errors import Fault

WHOLE = (batch(0, ["a", "b", "c"]), batch(3, ["d", "e"]))
FLIPPED = (WHOLE[0], flipped(WHOLE[1], -2))


def verify(hand: Hand, replicas: Replicas, *words: str) -> tuple[int, str, str]:
    return hand.on(replicas.client, replicas)("replicas", "verify", *words)


def test_identical_replicas_exit_with_0(hand: Hand) -> None:
    code, out, _ = verify(hand, Replicas.of({1: WHOLE, 2: WHOLE}), "--topics", "ord.*")
    assert code == 0
    assert out.splitlines()[1].split() == ["orders-0", "1", "1,2", "0", "5", "177", "B", "same"]
    assert "1 partition the same on all replicas: 177 B compared, 354 B read" in out


def test_flipped_record_exits_with_6_and_is_named(hand: Hand) -> None:
    replicas = Replicas.of({1: WHOLE, 2: FLIPPED, 3: WHOLE})
    code, out, _ = verify(hand, replicas, "--topics", "orders")
    assert code == 6
    assert "orders-0: offset 3 to 4: corrupt on broker 2, first at 4; brokers 1, 3 agree" in out
    assert out.endswith("read in 0.0 s.\n")
    assert "1 of 1 different" in out


def test_uncompared_replicas_exit_with_5_and_are_reported(hand: Hand) -> None:
    replicas = Replicas.of({1: WHOLE, 2: WHOLE, 3: WHOLE})
    replicas.faults[3] = Fault("TOPIC_AUTHORIZATION_FAILED")
    code, out, _ = verify(hand, replicas, "--topics", "orders")
    assert code == 5
    assert "orders-0: broker 3 is not compared: TOPIC_AUTHORIZATION_FAILED" in out
    assert "1 of 1 the same as far as they were compared" in out


def test_partition_without_any_readable_replica_is_reported(hand: Hand) -> None:
    replicas = Replicas.of({1: WHOLE, 2: WHOLE})
    replicas.faults = dict.fromkeys((1, 2), Fault("CORRUPT_MESSAGE"))
    code, out, _ = verify(hand, replicas, "--topics", "orders")
    assert code == 6
    assert "orders-0: from offset 0 on: brokers 1, 2 cannot be read\n" in out


def test_a_simulated_cluster_has_nothing_to_compare(hand: Hand) -> None:
    simulated = Replicas.of({1: (), 2: ()}).client
    code, out, _ = hand.on(simulated)("replicas", "verify", "--topics", "orders")
    assert code == 5
    assert "a simulated cluster keeps no records" in out
    assert "\n1 of 1 not compared: 0 B compared" in out
    assert "the same" not in out


@pytest.mark.parametrize(
    ("logs", "code"), [({1: WHOLE, 2: WHOLE}, 0), ({1: WHOLE, 2: FLIPPED, 3: WHOLE}, 6)]
)
def test_json_reports_the_differences_of_a_partition(
    hand: Hand, logs: dict[int, tuple[bytes, ...]], code: int
) -> None:
    answer, out, _ = verify(hand, Replicas.of(logs), "--topics", "orders", "--json")
    document = json.loads(out)
    assert answer == code
    assert document["same"] == (code == 0)
    (partition,) = document["partitions"]
    assert (partition["start"], partition["until"], partition["end"]) == (0, 5, 5)
    assert [diff["brokers"] for diff in partition["differences"]] == ([] if code == 0 else [[2]])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topics", "ord("), "is not a regular expression"),
        (("--topics", "order"), "Did you mean orders?"),
        (("--topics", "nothing.like.it"), "No topic matches"),
        (("--topics", "orders", "--for", "0s"), "leaves no time to compare"),
        (("--topics", "orders", "--for", "soon"), "soon"),
        ((), "--topics"),
    ],
)
def test_invalid_options_exit_with_2(hand: Hand, words: tuple[str, ...], message: str) -> None:
    code, _, err = verify(hand, Replicas.of({1: WHOLE, 2: WHOLE}), *words)
    assert code == 2
    assert message in err
