"""`trimtab topics`: shown, created, altered, deleted; and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from in_process import Hand, audited
from run_help import Faulty, Run, cluster, plan_of

from core.cli.topics.config_effects import ConfigEffect, build_config_effects
from core.cluster.configs import (
    LEADER_LIST,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    ConfigValue,
    InheritedConfig,
    Resource,
    ResourceKind,
)
from core.cluster.groups import Group
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import ClusterState
from core.errors import AccessDeniedError, UnreachableError

LAYOUT = {"orders": [(1, 2), (2, 3), (3, 1)], "payments": [(1, 3)], "__consumer_offsets": [(1, 2)]}
RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}


@pytest.fixture
def hand(hand: Hand) -> Hand:
    """Type at a cluster of six brokers in three racks; orders has its own min.insync.replicas."""
    configs = {"orders": {"min.insync.replicas": "2"}}
    return hand.on(cluster(LAYOUT, racks=RACKS, topic_configs=configs))


def replicas(client: SimulatedCluster, topic: str) -> list[tuple[int, ...]]:
    state = client.describe_cluster()
    return [state.replicas(row) for row in state.partitions_of(topic)]


# -- shown -----------------------------------------------------------------------------------------


def test_topics_are_listed_with_their_under_replicated_partitions(hand: Hand) -> None:
    hand.cluster.stop_broker(3)
    topics = hand.json("topics", "ls", "[a-z]+")
    counts_by_topic = {t["topic"]: (t["partition_count"], t["under_replicated"]) for t in topics}
    assert counts_by_topic == {"orders": (3, 2), "payments": (1, 1)}
    assert "2 under-replicated" in hand("topics", "ls")[1]


def test_topic_is_described_with_isr_state_and_config_values_and_defaults(hand: Hand) -> None:
    hand.cluster.stop_broker(3)
    (topic,) = hand.json("topics", "describe", "orders")
    assert [p["leader"] for p in topic["partitions"]] == [1, 2, 1]
    assert [p["under_min_isr"] for p in topic["partitions"]] == [False, True, True]
    (least,) = (c for c in topic["configs"] if c["name"] == "min.insync.replicas")
    assert (least["value"], least["source"]) == ("2", "dynamic topic")
    assert least["default"]["value"] == "1"
    _, out, _ = hand("topics", "describe", "orders")
    assert "under-replicated, under min ISR" in out
    assert "min.insync.replicas  2      dynamic topic  1" in out
    assert "retention.ms" not in out
    assert "retention.ms" in hand("topics", "describe", "orders", "--all-configs")[1]


def test_unreadable_configs_do_not_prevent_describing_a_topic(hand: Hand) -> None:
    through = Faulty(hand.cluster)

    def denied(*_: Any) -> Any:
        raise AccessDeniedError("The cluster says no.")

    through.replaced["describe_configs"] = denied
    (topic,) = hand.on(hand.cluster, through).json("topics", "describe", "orders")
    assert topic["configs_unknown"] == "NOT_KNOWN: The cluster says no"
    assert topic["partitions"][0]["under_min_isr"] is None
    refused = Fault("TOPIC_AUTHORIZATION_FAILED")
    through.replaced["describe_configs"] = lambda real, resources, *_: (
        real(resources) | {Resource.topic("orders"): refused}
    )
    code, out, _ = hand("topics", "describe")
    assert code == 0
    assert out.count("Its configs are not known: TOPIC_AUTHORIZATION_FAILED.") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ls", "("), "is not a regular expression"),
        (("describe", "ordes"), "Did you mean orders?"),
        (("describe", "x.*"), "No topic matches x.*."),
        (("delete", "ordes"), "There is no topic ordes.\nDid you mean orders?"),
        (("alter", "paymets", "--partitions", "3"), "Did you mean payments?"),
        (("alter", "orders"), "Nothing to alter"),
        (("alter", "orders", "--partitions", "2"), "Kafka cannot take any away"),
        (("alter", "orders", "--partitions", "3"), "has 3 partitions already"),
        (("alter", "orders", "--set", "retention.ms"), "Write it like retention.ms=60000"),
        (("alter", "orders", "--set", "a=1", "--unset", "a"), "a is both set and unset"),
        (("create", "new"), "Add --partitions N or --replicas"),
        (("create", "orders", "--partitions", "3"), "is there already"),
        (("create", "a/b", "--partitions", "3"), "is no name for a topic"),
        (("create", "new", "--partitions", "3", "--rf", "7"), "7 replicas on 6 brokers"),
        (("create", "new", "--replicas", "1:x"), "Not replicas"),
        (("create", "new", "--partitions", "3", "--in", "unlimited"), "is not a rate here"),
    ],
)
def test_invalid_topics_arguments_are_reported_and_change_nothing(
    hand: Hand, words: tuple[str, ...], message: str
) -> None:
    more = () if words[0] in ("ls", "describe") else ("--yes",)
    code, _, err = hand("topics", *words, *more)
    assert (code, message in err) == (2, True), err
    assert audited() == []


# -- created ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["load", "kafka"])
def test_topic_is_created_across_racks_as_the_dry_run_showed(hand: Hand, rule: str) -> None:
    words = ("topics", "create", "new", "--partitions", "6", "--rule", rule)
    words += ("--config", "retention.ms=60000")
    would = hand.json(*words, "--dry-run")
    assert replicas(hand.cluster, "new") == []
    done = hand.json(*words, "--yes")
    assert done["partitions"] == would["partitions"]
    assignment = replicas(hand.cluster, "new")
    assert [list(r) for r in assignment] == [p["replicas"] for p in done["partitions"]]
    assert all({RACKS[b] for b in r} == {"a", "b", "c"} for r in assignment)
    configs = hand.cluster.describe_configs([Resource.topic("new")], ["retention.ms"])[
        Resource.topic("new")
    ]
    assert not isinstance(configs, Fault)
    assert configs["retention.ms"].source is ConfigSource.TOPIC
    assert audited() == ["create topics", "answer"]


def test_topic_is_created_with_the_given_replicas(hand: Hand) -> None:
    hand.json("topics", "create", "new", "--replicas", "3:1,2:6", "--yes")
    assert replicas(hand.cluster, "new") == [(3, 1), (2, 6)]


@pytest.mark.parametrize(
    "more_options",
    [
        ("--partitions", "1"),
        ("--rf", "3"),
        ("--rule", "load"),
        ("--in", "1MB/s"),
        ("--size", "1GB"),
    ],
)
def test_placement_options_are_refused_together_with_given_replicas(
    hand: Hand, more_options: tuple[str, str]
) -> None:
    words = ("topics", "create", "new", "--replicas", "1:2", *more_options, "--yes")
    code, _, err = hand(*words)
    assert (code, audited()) == (2, [])
    assert f"--replicas and {more_options[0]} exclude each other." in err


def test_topic_creation_refused_by_the_cluster_is_reported(hand: Hand) -> None:
    words = ("topics", "create", "new", "--partitions", "1", "--config", "no.such=1", "--yes")
    code, _, err = hand(*words)
    assert code == 1
    assert "Topic new was not created: INVALID_CONFIG" in err


# -- altered ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["load", "kafka"])
def test_no_partitions_are_added_while_too_few_brokers_are_up(hand: Hand, rule: str) -> None:
    for broker in (2, 3, 4, 5, 6):
        hand.cluster.stop_broker(broker)
    code, _, err = hand("topics", "alter", "orders", "--partitions", "6", "--rule", rule, "--yes")
    assert code == 2
    assert "2 replicas on 1 brokers that are up" in err
    assert "Start broker 2, 3, 4, 5, 6 first." in err
    assert audited() == []


def test_partitions_are_added_and_configs_set(hand: Hand) -> None:
    before = replicas(hand.cluster, "orders")
    words = ("topics", "alter", "orders", "--partitions", "5", "--set", "retention.ms=60000")
    words += ("--unset", "min.insync.replicas")
    done = hand.json(*words, "--yes")
    assert replicas(hand.cluster, "orders")[:3] == before
    added = [list(r) for r in replicas(hand.cluster, "orders")[3:]]
    assert added == [p["replicas"] for p in done["added"]]
    assert [p["partition"] for p in done["added"]] == [3, 4]
    assert all(len(r) == 2 for r in added)
    resource = Resource.topic("orders")
    configs = hand.cluster.describe_configs([resource])[resource]
    assert not isinstance(configs, Fault)
    assert configs["retention.ms"].value == "60000"
    assert configs["min.insync.replicas"].source is ConfigSource.DEFAULT


HOUR, WEEK = "3600000", "604800000"


@pytest.mark.parametrize(
    ("sets", "shown", "deleted"),
    [
        (
            ("retention.ms=3600000",),
            f"{WEEK} → {HOUR}",
            "beyond 1 h 00 m is deleted for good",
        ),
        (("retention.ms=-1",), f"{WEEK} → -1", ""),
        (("retention.bytes=1000000",), "-1 → 1000000", "beyond 1.0 MB is deleted for good"),
        (("cleanup.policy=compact",), "delete → compact", "All but the newest record of each key"),
        (("cleanup.policy=compact", "retention.ms=1"), f"{WEEK} → 1", "All but the newest record"),
        (("cleanup.policy=compact,delete",), "delete → compact,delete", "All but the newest"),
        (("min.insync.replicas=1",), "2 → 1", ""),
    ],
)
def test_change_that_deletes_data_is_reported_and_topic_name_is_requested(
    hand: Hand, sets: tuple[str, ...], shown: str, deleted: str
) -> None:
    options = [word for change in sets for word in ("--set", change)]
    words = ("topics", "alter", "orders", *options)
    code, out, err = hand(*words, "--dry-run")
    assert (code, shown in out) == (0, True), out
    assert deleted in err
    assert ("for good" in err) == bool(deleted)
    code, _, err = hand(*words)
    assert code == 2
    assert f"asks for the {'topic' if deleted else 'cluster'}'s name" in err
    assert ("orders: 3 partitions, 60 MB before replication." in err) == bool(deleted)
    name = "orders" if deleted else hand.cluster.describe_cluster().cluster_id[:8]
    hand.types("another")
    assert hand(*words)[0] == 2
    hand.types(name)
    assert hand(*words)[0] == 0


def test_yes_option_reports_deleted_data_without_requesting_confirmation(hand: Hand) -> None:
    words = ("topics", "alter", "orders", "--set", "retention.ms=-1", "--yes", "--json")
    assert hand(*words)[0] == 0
    code, out, err = hand("topics", "alter", "orders", "--unset", "retention.ms", "--yes", "--json")
    warning = "What is beyond 7 d 0 h is deleted for good; now it keeps everything."
    assert (code, err) == (0, f"orders: {warning}\n")
    done = json.loads(out)
    assert done["deletes"] == [warning]
    assert done["changes"] == [
        {"name": "retention.ms", "op": "delete", "value": None, "before": "-1"}
    ]


def test_retention_change_with_unreadable_configs_is_treated_as_a_reduction(hand: Hand) -> None:
    through = Faulty(hand.cluster)
    refused = {Resource.topic("orders"): Fault("TOPIC_AUTHORIZATION_FAILED")}
    through.replaced["describe_configs"] = lambda real, *resources: real(*resources) | refused
    words = ("topics", "alter", "orders", "--set", "retention.ms=3600000")
    code, _, err = hand.on(hand.cluster, through)(*words)
    assert (code, "whether orders is kept in remote storage" in err.lower()) == (3, True)
    code, out, err = hand(*words, "--allow", "remote-storage")
    assert (code, "retention.ms ? → 3600000" in out) == (2, True)
    assert "not known: TOPIC_AUTHORIZATION_FAILED" in err
    assert "beyond 1 h 00 m is deleted for good; now it keeps what is not known" in err
    assert "asks for the topic's name" in err


REMOTE = "remote.storage.enable"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("retention.ms=3600000", 3),
        ("retention.bytes=1000000", 3),
        (f"{REMOTE}=false", 3),
        ("retention.ms=-1", 0),
        ("local.retention.ms=3600000", 0),
    ],
)
def test_change_that_deletes_data_in_remote_storage_is_refused_unless_allowed(
    hand: Hand, change: str, code: int
) -> None:
    remote = ConfigChange(Resource.topic("orders"), REMOTE, ConfigOp.SET, "true")
    assert hand.cluster.alter_configs([remote]) == {remote.resource: None}
    words = ("topics", "alter", "orders", "--set", change, "--yes")
    assert hand(*words)[0] == code
    assert hand(*words, "--allow", "remote-storage")[0] == 0


def test_min_insync_replicas_above_the_replica_count_is_refused_unless_allowed(hand: Hand) -> None:
    words = ("topics", "alter", "orders", "--set", "min.insync.replicas=9", "--yes")
    code, _, err = hand(*words)
    assert (code, audited()) == (3, [])
    assert "orders with 2 replicas and min.insync.replicas=9: every producer" in err
    assert "--allow min-isr" in err
    assert hand(*words, "--allow", "min-isr")[0] == 0


@pytest.mark.parametrize(
    ("brokers", "options"), [("1", ("--config", "min.insync.replicas=2")), ("2", ())]
)
def test_new_topic_with_fewer_replicas_than_min_insync_replicas_is_refused(
    hand: Hand, brokers: str, options: tuple[str, ...]
) -> None:
    every = Resource(ResourceKind.BROKER, "")
    hand.cluster.alter_configs([ConfigChange(every, "min.insync.replicas", ConfigOp.SET, brokers)])
    words = ("topics", "create", "new", "--partitions", "1", "--rf", "1", *options, "--yes")
    for more in ((), ("--dry-run",)):
        code, out, err = hand(*words, *more)
        assert (code, out, audited()) == (3, "", [])
        assert "new with 1 replica and min.insync.replicas=2: every producer" in err
        assert "Ask for 2 replicas, or --config min.insync.replicas=1, or add" in err
        assert "--allow min-isr" in err
    assert hand(*words, "--allow", "min-isr")[0] == 0


def test_denied_broker_configs_do_not_prevent_topic_creation(hand: Hand) -> None:
    def denied(*_: Any) -> Any:
        raise AccessDeniedError("The cluster says no.")

    words = ("topics", "create", "new", "--partitions", "1", "--rf", "1", "--yes")
    through = Faulty(hand.cluster)
    through.replaced["describe_configs"] = denied
    assert hand.on(hand.cluster, through)(*words)[0] == 0


@pytest.mark.parametrize(
    ("name", "value", "after"),
    [
        ("log.retention.hours", "168", WEEK),
        ("log.retention.minutes", "60", HOUR),
        ("log.retention.ms", HOUR, HOUR),
        ("log.retention.hours", "-1", "-1"),
    ],
)
def test_value_in_effect_after_unset_is_shown_in_the_topic_configs_unit(
    name: str, value: str, after: str
) -> None:
    beneath = InheritedConfig(name, value, ConfigSource.STATIC)
    values = {"retention.ms": ConfigValue("5", ConfigSource.TOPIC, beneath)}
    unset = ConfigChange(Resource.topic("t"), "retention.ms", ConfigOp.DELETE)
    assert build_config_effects([unset], values) == [ConfigEffect("retention.ms", "5", after)]
    not_set = {"retention.ms": ConfigValue(WEEK, ConfigSource.STATIC)}
    assert build_config_effects([unset], not_set) == [ConfigEffect("retention.ms", WEEK, WEEK)]


# -- deleted ---------------------------------------------------------------------------------------


def test_topic_is_deleted_only_after_its_name_is_confirmed_or_with_yes(hand: Hand) -> None:
    code, _, err = hand("topics", "delete", "orders")
    assert code == 2
    assert "orders: 3 partitions, 60 MB before replication." in err
    assert "asks for the topic's name" in err
    assert replicas(hand.cluster, "orders")
    code, out, err = hand("topics", "delete", "orders", "payments", "--yes", "--json")
    assert "payments: " in err, "what is lost is said, asked for or not"
    done = json.loads(out)
    assert done == {"deleted": ["orders", "payments"], "failed": {}}
    assert replicas(hand.cluster, "orders") == replicas(hand.cluster, "payments") == []


def test_completed_deletion_is_reported_although_cluster_stops_answering(hand: Hand) -> None:
    through = Faulty(hand.cluster)

    def silent(real: Any) -> ClusterState:
        if "delete_topics" in through.calls:
            raise UnreachableError("The cluster does not answer.")
        return real()

    through.replaced["describe_cluster"] = silent
    code, _, err = hand.on(hand.cluster, through)("topics", "delete", "orders", "--yes")
    assert (code, replicas(hand.cluster, "orders")) == (0, [])
    assert "The change is made" in err
    assert "The cluster does not answer." in err
    assert err.endswith("Deleted orders.\n")


@pytest.mark.parametrize("words", [("--partitions", "5"), ("--set", "retention.ms=1000")])
def test_topic_whose_reassignment_began_after_confirmation_is_not_altered(
    words: tuple[str, ...], hand: Hand
) -> None:
    through = Faulty(hand.cluster)

    def begins(real: Any) -> ClusterState:
        if through.calls.count("describe_cluster") == 2:
            hand.cluster.pause_replication(4)
            hand.cluster.alter_reassignments({TopicPartition("orders", 1): (4, 2)})
        return real()

    through.replaced["describe_cluster"] = begins
    code, _, err = hand.on(hand.cluster, through)("topics", "alter", "orders", *words, "--yes")
    assert code == 3
    assert "orders-1 is being reassigned" in err
    assert not {"alter_configs", "add_partitions"} & set(through.calls)


def test_unknown_reassignments_still_list_topics_but_refuse_risky_changes(hand: Hand) -> None:
    through = Faulty(hand.cluster)
    why = "This user may not list partition reassignments."
    through.replaced["describe_cluster"] = lambda real: replace(real(), moves_unknown=why)
    code, out, err = hand.on(hand.cluster, through)("topics", "ls", "--json")
    assert (code, err) == (0, f"What is in flight is not shown: {why}\n")
    assert {topic["moving"] for topic in json.loads(out)} == {None}
    code, _, err = hand("topics", "delete", "orders", "--yes")
    assert (code, err.splitlines()[-2]) == (4, f"trimtab: {why}")
    code, _, err = hand("topics", "alter", "orders", "--set", "retention.ms=1000", "--yes")
    assert (code, "--allow moving" in " ".join(err.split())) == (4, True)
    assert hand("topics", "alter", "orders", "--set", "segment.bytes=1000000", "--yes")[0] == 0
    assert replicas(hand.cluster, "orders")


DENIED = Fault("GROUP_AUTHORIZATION_FAILED")


@pytest.mark.parametrize("hidden", [{"fault": DENIED}, {"committed_fault": DENIED}])
def test_group_that_cannot_be_described_is_reported_as_a_possible_reader(
    hidden: dict[str, Any], hand: Hand
) -> None:
    reads = {TopicPartition("orders", 0): 7}
    groups = (
        Group("billing", "stable", "range", 1, (), reads),
        Group("secret", "unknown", "", None, (), {}, **hidden),
    )
    through = Faulty(hand.cluster)
    through.replaced["describe_groups"] = lambda real, matching=None, lost=None: groups
    _, _, err = hand.on(hand.cluster, through)("topics", "delete", "orders")
    warning = "read by billing, who else has read it is not known: GROUP_AUTHORIZATION_FAILED"
    assert warning in err


def test_partly_known_sizes_are_reported_as_a_minimum(hand: Hand) -> None:
    through = Faulty(hand.cluster)
    through.replaced["describe_log_dirs"] = lambda real, brokers: tuple(
        BrokerLogs(broker_logs.broker, error="timed out") if broker_logs.broker < 3 else broker_logs
        for broker_logs in real(brokers)
    )
    _, _, err = hand.on(hand.cluster, through)("topics", "delete", "orders")
    assert "orders: 3 partitions, at least 40 MB before replication." in err


def test_topic_deletion_is_confirmed_by_typing_the_topic_name(hand: Hand) -> None:
    hand.types(hand.cluster.describe_cluster().cluster_id[:8])
    assert hand("topics", "delete", "orders")[0] == 2
    hand.types("orders")
    assert hand("topics", "delete", "orders")[0] == 0
    assert replicas(hand.cluster, "orders") == []


@pytest.mark.parametrize("bootstrap", ["somewhere:9092", "B2.sim:9092"])
def test_a_cluster_that_is_read_only_is_not_changed(
    hand: Hand, tmp_path: Path, bootstrap: str
) -> None:
    """Also where config.toml names another of its brokers than the one that was asked."""
    config = tmp_path / "config" / "config.toml"
    config.parent.mkdir()
    config.write_text(f'[clusters.it]\nbootstrap = "{bootstrap}"\nread_only = true\n')
    for words in (
        ("elect", "--yes"),
        ("topics", "delete", "orders", "--yes"),
        ("topics", "alter", "orders", "--partitions", "9", "--yes"),
        ("topics", "create", "new", "--partitions", "1", "--yes"),
    ):
        code, _, err = hand(*words)
        assert (code, "read_only" in err) == (3, True)
    assert hand("topics", "create", "new", "--partitions", "1", "--dry-run")[0] == 0
    assert audited() == []


def test_internal_topics_are_not_deleted_unless_allowed(hand: Hand) -> None:
    words = ("topics", "delete", "__consumer_offsets", "--yes")
    assert hand(*words)[0] == 3
    assert hand(*words, "--allow", "internal")[0] == 0


def test_topic_whose_deletion_is_refused_does_not_hide_deleted_topics(hand: Hand) -> None:
    through = Faulty(hand.cluster)
    refused = {"payments": Fault("TOPIC_AUTHORIZATION_FAILED")}
    through.replaced["delete_topics"] = lambda real, names: real(["orders"]) | refused
    code, out, _ = hand.on(hand.cluster, through)(
        "topics", "delete", "orders", "payments", "--yes", "--json"
    )
    assert code == 5
    assert json.loads(out)["deleted"] == ["orders"]


# -- while it moves --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("delete", "orders"),
        ("alter", "orders", "--partitions", "9"),
        ("alter", "orders", "--set", f"{LEADER_LIST}=*"),
        ("alter", "orders", "--set", "retention.ms=3600000"),
        ("alter", "orders", "--set", "cleanup.policy=compact", "--allow", "min-isr"),
    ],
)
def test_topic_being_moved_by_a_run_is_not_altered_or_deleted(
    hand: Hand, start: Callable[..., Run], words: tuple[str, ...]
) -> None:
    run = start(hand.cluster, plan_of(hand.cluster, {("orders", 0): (4, 5)}))
    code, _, err = hand("topics", *words, "--yes")
    assert code == 3
    assert f"run {run.journal.path.name.removesuffix('.run')} moves it" in err
    assert hand("topics", "delete", "payments", "--yes")[0] == 0
    for fine in ("segment.bytes=1000000", "retention.ms=-1"):
        assert hand("topics", "alter", "orders", "--set", fine, "--yes")[0] == 0


def test_retention_may_be_reduced_during_a_reassignment_if_allowed(
    hand: Hand, start: Callable[..., Run]
) -> None:
    """A disk fills, and a paused run holds copies on it: what may go has to go first."""
    start(hand.cluster, plan_of(hand.cluster, {("orders", 0): (4, 5)}))
    words = ("topics", "alter", "orders", "--set", "retention.ms=3600000", "--yes")
    code, _, err = hand(*words)
    assert (code, "--allow moving" in " ".join(err.split())) == (3, True)
    code, _, err = hand(*words, "--allow", "moving")
    assert (code, "deleted for good" in err) == (0, True)


def test_topic_being_reassigned_outside_a_run_is_not_deleted(hand: Hand) -> None:
    hand.cluster.pause_replication(4)
    hand.cluster.alter_reassignments({TopicPartition("orders", 1): (4, 2)})
    code, _, err = hand("topics", "delete", "orders", "--yes")
    assert code == 3
    assert "orders-1 is being reassigned" in err


@pytest.mark.parametrize(
    "words",
    [
        ("elect", "--topics", "orders", "--yes"),
        ("elect", "--partitions", "orders-0", "--yes"),
        ("replicas", "verify", "--topics", "orders"),
        ("topics", "describe", "orders"),
        ("topics", "ls", "orders"),
        ("topics", "delete", "orders", "--yes"),
        ("throttles", "clear", "topic:orders", "--yes"),
    ],
    ids=" ".join,
)
def test_topic_without_describe_permission_is_not_reported_as_absent(
    hand: Hand, words: tuple[str, ...]
) -> None:
    hand.cluster.hide_topics(["orders"])
    code, _, err = hand(*words)
    assert code == 4
    assert "It takes DESCRIBE on orders." in err


def test_hidden_topics_are_reported_alongside_visible_topics(hand: Hand) -> None:
    hand.cluster.hide_topics(["orders"])
    for words in (("topics", "ls"), ("topics", "describe"), ("show",)):
        code, out, err = hand(*words)
        assert (code, "orders" in out) == (0, False), err
        assert err.startswith("1 topic is hidden, as this user may not describe it: brokers hold ")
        assert err.endswith(" Allow DESCRIBE on these topics.\n")
    assert "1 topic hidden" in out
    hidden = hand.json("show")["hidden_topics"]
    assert hidden["topics"] == 1
    assert hidden["bytes"] == sum(log_dir["bytes"] for log_dir in hidden["log_dirs"]) > 0
    code, out, _ = hand("plan", "suggest", "--json")
    suggested = json.loads(out)
    assert suggested["hidden_topics"] == hidden
    assert any("hidden" in note for note in suggested["notes"])
    _, out, _ = hand("doctor", "--json")
    (finding,) = (f for f in json.loads(out)["findings"] if f["name"] == "hidden topics")
    assert not finding["fine"]
