"""`trimtab elect`: preferred leaders, what is in their way, and the unclean way out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from clusters import tp
from in_process import Hand, audited
from run_help import Faulty, cluster

from core.cluster.kafka_errors import Fault
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import AccessDeniedError

LAYOUT = {"orders": [(1, 2), (2, 3), (3, 1)], "payments": [(1, 3)]}
AWAY = {tp("orders-0"): 2, tp("orders-2"): 1, tp("payments-0"): 3}


def away(**more: Any) -> SimulatedCluster:
    return cluster(LAYOUT, leaders=AWAY, **more)


def leaders(client: SimulatedCluster) -> dict[str, int]:
    return {str(row.tp): row.leader for row in client.describe_cluster().rows()}


def outcomes(document: Any) -> dict[str, str]:
    return {f"{e['topic']}-{e['partition']}": e["outcome"] for e in document["elections"]}


def test_preferred_leaders_are_elected_reported_and_audited(hand: Hand) -> None:
    client = away()
    document = hand.on(client).json("elect", "--yes")
    assert outcomes(document) == dict.fromkeys(("orders-0", "orders-2", "payments-0"), "elected")
    assert leaders(client) == {"orders-0": 1, "orders-1": 2, "orders-2": 3, "payments-0": 1}
    before = {b["broker"]: (b["prefers"], b["leads"], b["away"]) for b in document["brokers"]}
    assert before[1] == (2, 1, 2)
    assert audited() == ["elect", "answer"]
    code, _, err = hand("elect", "--yes")
    assert (code, audited()) == (0, ["elect", "answer"])
    assert "Nothing to elect" in err


@pytest.mark.parametrize(
    "chosen", [("--topics", "orders"), ("--partitions", "orders-0, orders-1,orders-2")]
)
def test_election_is_limited_to_the_chosen_topics_or_partitions(
    hand: Hand, chosen: tuple[str, str]
) -> None:
    client = away()
    document = hand.on(client).json("elect", *chosen, "--yes")
    assert outcomes(document) == {"orders-0": "elected", "orders-2": "elected"}
    assert leaders(client)["payments-0"] == 3


def test_dry_run_changes_no_leader(hand: Hand) -> None:
    client = away()
    code, out, _ = hand.on(client)("elect", "--dry-run")
    assert code == 0
    assert "Would be elected: 3" in out
    assert "auto.leader.rebalance.enable: false" in out
    assert "leader.imbalance.per.broker.percentage: not reported (KRaft" in out
    assert leaders(client)["orders-0"] == 2
    assert audited() == []


def test_preferred_replicas_that_cannot_lead_are_named_and_skipped(hand: Hand) -> None:
    client = cluster(LAYOUT, sick={tp("orders-0"): (1,)}, leaders=AWAY)
    client.stop_broker(3)  # so that payments-0 is led by 1 again
    document = hand.on(client).json("elect", "--yes")
    whys = {f"{e['topic']}-{e['partition']}": e["why"] for e in document["elections"]}
    assert whys == {
        "orders-0": "preferred replica 1 is not in the ISR",
        "orders-2": "preferred replica 3 is down",
    }
    code, out, _ = hand("elect", "--yes")
    assert code == 0, "what must be left is no failure"
    assert "Not changed: 2" in out


def test_election_without_a_terminal_requires_yes(hand: Hand) -> None:
    client = away()
    code, out, err = hand.on(client)("elect")
    assert code == 2
    assert "IMBALANCE" in out, "the imbalance is shown before it asks"
    assert "orders-0" in err
    assert leaders(client)["orders-0"] == 2


def test_terminal_confirmation_requires_the_cluster_name(hand: Hand) -> None:
    client = away()
    hand.on(client).types("another")
    assert hand("elect")[0] == 2
    assert leaders(client)["orders-0"] == 2
    hand.types(client.describe_cluster().cluster_id[:8])
    assert hand("elect")[0] == 0
    assert leaders(client)["orders-0"] == 1


def test_unclean_election_reports_the_records_that_are_lost(hand: Hand) -> None:
    client = cluster({"t": [(1, 2)]}, sick={tp("t-0"): (2,)})
    client.stop_broker(1)
    assert leaders(client) == {"t-0": -1}
    hand.on(client)
    assert hand("elect", "--yes")[0] == 0
    assert leaders(client) == {"t-0": -1}, "a preferred election loses nothing"
    lost = "t-0: what broker 2 has not copied from broker 1 is lost for good"
    unclean = ("elect", "--unclean", "--partitions", "t-0")
    for words, expected in (((), 2), (("--dry-run",), 0), (("--dry-run", "--json"), 0)):
        code, _, err = hand(*unclean, *words)
        assert (code, err.count(lost)) == (expected, 1), words
    code, out, err = hand(*unclean, "--yes", "--json")
    assert (code, err.count(lost)) == (0, 1), "it is for good: said also where nothing is asked"
    document = json.loads(out)
    assert outcomes(document) == {"t-0": "elected"}
    assert document["elections"][0]["down"] == [1]
    assert leaders(client) == {"t-0": 2}


def test_unclean_election_requires_named_partitions(hand: Hand) -> None:
    code, _, err = hand.on(away())("elect", "--unclean", "--yes")
    assert (code, "named" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topics", "("), "is not a regular expression"),
        (("--topics", "ordes"), "Did you mean orders?"),
        (("--partitions", "ordes-0"), "Did you mean orders?"),
        (("--partitions", "orders-9"), "orders has 3, counted from 0"),
        (("--partitions", "orders"), "Write it like orders-3."),
        (("--partitions", "orders-0", "--topics", "x"), "exclude each other"),
    ],
)
def test_invalid_elect_options_are_refused(
    hand: Hand, words: tuple[str, ...], message: str
) -> None:
    code, _, err = hand.on(away())("elect", *words, "--yes")
    assert code == 2
    assert message in err


def test_unreadable_settings_do_not_prevent_an_election(hand: Hand) -> None:
    client = away()
    through = Faulty(client)

    def denied(*_: Any) -> Any:
        raise AccessDeniedError("The cluster says no.")

    through.replaced["describe_configs"] = denied
    document = hand.on(client, through).json("elect", "--yes")
    assert document["rebalance"][0]["unknown"] == "NOT_KNOWN: The cluster says no"
    assert leaders(client)["orders-0"] == 1


def test_refused_election_fails_and_the_remaining_outcomes_are_reported(hand: Hand) -> None:
    client = away()
    through = Faulty(client)

    def partly(real: Any, tps: Any, **more: Any) -> Any:
        refused = {tp("orders-0"): Fault("TOPIC_AUTHORIZATION_FAILED")}
        return real([partition for partition in tps if partition not in refused], **more) | refused

    through.replaced["elect_leaders"] = partly
    code, out, _ = hand.on(client, through)("elect", "--yes", "--json")
    assert code == 5
    assert outcomes(json.loads(out)) == {
        "orders-0": "failed",
        "orders-2": "elected",
        "payments-0": "elected",
    }
