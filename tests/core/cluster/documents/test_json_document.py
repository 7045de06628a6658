"""The cluster document: what is written is read again, and bad ones are told in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.cluster.access.hidden_topics import HiddenTopics
from core.cluster.client import ClusterClient, OffsetAt
from core.cluster.documents.cluster_document import (
    ClusterDocument,
    DocumentGroup,
    document_to_json,
    fetch_document_groups,
)
from core.cluster.documents.json_object import InvalidDocumentError, JsonObject
from core.cluster.documents.reader import read_document
from core.cluster.groups import GROUPS_HIDDEN, Group, Member
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs, ReplicaLog, with_log_dirs
from core.cluster.metadata import UNKNOWN, Broker, LogDir, PartitionRow, Topic, TopicPartition
from core.cluster.state import ClusterState
from core.errors import DocumentError

LEAST: dict[str, Any] = {
    "brokers": [{"id": 1}, {"id": 2}],
    "partitions": [{"topic": "t", "partition": 0, "leader": 1, "replicas": [1, 2]}],
}


def write(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "cluster.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def whole() -> ClusterDocument:
    described = ClusterState.build(
        cluster_id="c",
        fetched_at=datetime(2026, 1, 31, 2, 0, tzinfo=UTC),
        controller=100,
        brokers=[
            Broker(1, "a", "h1", 9092, True, (LogDir("/d", 100, 50),), 1e6, 2e6),
            Broker(2, None, "h2", 9092, False, (LogDir("/e", None, None, "KAFKA_STORAGE_ERROR"),)),
        ],
        topics=[Topic("t", "id-of-t", 2, 1000, "compact"), Topic("u")],
        partitions=[
            PartitionRow("t", 0, 1, (1, 2), (1,), leader_epoch=7),
            PartitionRow("t", 1, -1, (2, 1), (), adding=(1,), removing=(2,)),
            PartitionRow("u", 0, 1, (1,), (1,)),
        ],
    )
    state = with_log_dirs(
        described,
        [
            BrokerLogs(
                1,
                (LogDir("/d", 100, 50),),
                (ReplicaLog("t", 0, 40, 0, "/d"), ReplicaLog("t", 1, 0, 9, "/d")),
            )
        ],
    )
    tp = TopicPartition("t", 0)
    group = DocumentGroup("g", "stable", (Member("m", "client", "/h", (tp,)),), {tp: 3})
    rates = np.array([1.5, np.nan, 0.0])
    return ClusterDocument(state, rates, rates * 2, (group,))


def test_written_document_is_read_back_unchanged(tmp_path: Path) -> None:
    document = document_to_json(whole())
    again = read_document(write(tmp_path, document))
    assert document_to_json(again) == document
    assert list(again.state.rows()) == list(whole().state.rows())
    assert again.state.brokers == whole().state.brokers


def test_unknown_values_are_written_as_null_never_as_zero() -> None:
    first, second, third = document_to_json(whole())["partitions"]
    assert (first["size_bytes"], second["size_bytes"], third["size_bytes"]) == (40, 0, None)
    assert (first["in_bytes_per_s"], second["in_bytes_per_s"]) == (1.5, None)
    assert third["in_bytes_per_s"] == 0.0
    assert first["replica_detail"][1] == {
        "broker": 2,
        "size_bytes": None,
        "log_dir": None,
        "lag": None,
    }
    assert second["leader_epoch"] is None


def test_minimal_document_leaves_all_other_values_unknown(tmp_path: Path) -> None:
    document = read_document(write(tmp_path, LEAST))
    state = document.state
    assert state.row(0).isr == (1, 2)
    assert state.size_bytes.tolist() == [UNKNOWN, UNKNOWN]
    assert np.isnan(document.in_bytes_per_s).all()
    assert state.topic("t") == Topic("t")
    assert state.hidden is None
    unknown = read_document(write(tmp_path, LEAST | {"hidden_topics": None})).state.hidden
    assert unknown is not None
    assert unknown.count is None


def test_down_broker_absent_from_document_leaves_hidden_topics_unknown(tmp_path: Path) -> None:
    """As in documents of before such brokers were named in them."""
    up, document = LEAST["brokers"][:-1], LEAST | {"hidden_topics": {"topics": 0, "log_dirs": []}}
    read = read_document(write(tmp_path, document)).state.hidden
    assert read is not None
    assert read.is_complete
    without = read_document(write(tmp_path, document | {"brokers": up})).state.hidden
    assert without is not None
    assert (without.count, without.unknown_brokers) == (None, (2,))


@pytest.mark.parametrize(
    ("written", "known"), [({}, None), ({"groups": None}, None), ({"groups": []}, ())]
)
def test_absent_groups_are_unknown_and_an_empty_group_list_means_none(
    tmp_path: Path, written: dict[str, Any], known: tuple[()] | None
) -> None:
    document = read_document(write(tmp_path, LEAST | written))
    assert document.groups == known
    assert document_to_json(document)["groups"] == (None if known is None else [])


GROUPS = (
    Group("away", "unknown", "", None, (), {}, fault=Fault("COORDINATOR_NOT_AVAILABLE")),
    Group("etl", "stable", "range", 1, (), {TopicPartition("t", 0): 2}),
    Group("late", "stable", "range", 1, (), {}, committed_fault=Fault("REQUEST_TIMED_OUT")),
)


BUSY = Fault("COORDINATOR_LOAD_IN_PROGRESS")


class Listing:
    """A cluster that lists `groups`; all but one of its coordinators when it is told so."""

    def __init__(self, *groups: Group, lost: Sequence[Fault] = ()) -> None:
        self._groups, self._lost = groups, lost

    def describe_groups(self, lost: Callable[[Fault], None]) -> tuple[Group, ...]:
        for fault in self._lost:
            lost(fault)
        return self._groups

    def fetch_offsets(
        self, partitions: Collection[TopicPartition], _: OffsetAt
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 9)


def listed(
    *groups: Group, lost: Sequence[Fault] = (), before: Sequence[DocumentGroup] | None = None
) -> dict[str, dict[TopicPartition, int] | None] | None:
    document_groups = fetch_document_groups(
        cast(ClusterClient, Listing(*groups, lost=lost)), before
    )
    if document_groups is None:
        return None
    return {group.id: None if group.unknown else dict(group.lag) for group in document_groups}


def test_group_with_an_unavailable_coordinator_is_kept_with_unknown_lag(tmp_path: Path) -> None:
    known = {TopicPartition("t", 0): 7}
    assert listed(*GROUPS) == {"away": None, "etl": known, "late": None}
    document = ClusterDocument(
        whole().state,
        *(np.full(3, np.nan),) * 2,
        fetch_document_groups(cast(ClusterClient, Listing(*GROUPS))),
    )
    written = document_to_json(document)
    assert [group["lag"] and len(group["lag"]) for group in written["groups"]] == [None, 1, None]
    again = read_document(write(tmp_path, written))
    assert again.groups == document.groups


def test_groups_that_were_not_listed_are_kept_from_before_with_unknown_lag() -> None:
    before = fetch_document_groups(cast(ClusterClient, Listing(*GROUPS)))
    assert listed(GROUPS[0], lost=[BUSY]) is None
    assert listed(GROUPS[0], lost=[BUSY], before=before) == {
        "away": None, "etl": None, "late": None
    }  # fmt: skip
    assert listed(GROUPS[0], before=before) == {"away": None}


@pytest.mark.parametrize("lost", [[GROUPS_HIDDEN], [GROUPS_HIDDEN, BUSY], [BUSY]])
@pytest.mark.parametrize("known", [False, True], ids=["at first", "known before"])
def test_group_list_is_unknown_if_some_groups_may_be_hidden(lost: list[Fault], known: bool) -> None:
    """Nothing that deletes is advised or done then: there may be a group that nobody has seen."""
    before = fetch_document_groups(cast(ClusterClient, Listing(*GROUPS))) if known else None
    assert listed(*GROUPS, lost=lost, before=before) is None


def test_unknown_keys_are_ignored(tmp_path: Path) -> None:
    extended = LEAST | {"colour": "red", "brokers": [{"id": 1, "mood": "good"}, {"id": 2}]}
    assert read_document(write(tmp_path, extended)).state.partition_count == 1


def test_partition_size_without_replica_detail_is_that_of_the_leader(tmp_path: Path) -> None:
    partition = LEAST["partitions"][0] | {"size_bytes": 70}
    state = read_document(write(tmp_path, LEAST | {"partitions": [partition]})).state
    assert state.size_bytes.tolist() == [70, UNKNOWN]
    assert state.partition_size_bytes.tolist() == [70]


def test_broker_named_only_by_partitions_is_not_alive(tmp_path: Path) -> None:
    state = read_document(write(tmp_path, LEAST | {"brokers": [{"id": 1}]})).state
    assert {broker.id: broker.alive for broker in state.brokers} == {1: True, 2: False}


def test_empty_isr_is_not_read_as_an_unknown_isr(tmp_path: Path) -> None:
    partition = LEAST["partitions"][0] | {"isr": []}
    state = read_document(write(tmp_path, LEAST | {"partitions": [partition]})).state
    assert state.row(0).isr == ()


def changed(**partition: object) -> dict[str, Any]:
    return LEAST | {"partitions": [LEAST["partitions"][0] | partition]}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "is not JSON"),
        ([], "the document is not an object"),
        ({}, "the document has no 'partitions'"),
        ({"partitions": []}, "the document has no 'brokers'"),
        (LEAST | {"format": "trimtab.cluster/2"}, "this trimtab reads trimtab.cluster/1"),
        (LEAST | {"format": "something/1"}, "its format is 'something/1'"),
        (LEAST | {"brokers": [{"id": "one"}]}, r"'id' of brokers\[0\] is not a whole number"),
        (LEAST | {"brokers": [{"id": True}]}, r"'id' of brokers\[0\] is not a whole number"),
        (LEAST | {"brokers": [{"id": 1}, {"id": 1}]}, "broker 1 is in it twice"),
        (LEAST | {"partitions": LEAST["partitions"] * 2}, "partition t-0 is in it twice"),
        (LEAST | {"partitions": ["t"]}, r"partitions\[0\] is not an object"),
        (LEAST | {"fetched_at": "today"}, "'fetched_at' of the document is not a time"),
        (changed(replicas=None), r"partitions\[0\] has no 'replicas'"),
        (changed(replicas=[]), r"partitions\[0\] has no replicas"),
        (changed(replicas=[1, 1]), "names a broker twice"),
        (changed(replicas=["1"]), "is not a list of broker ids"),
        (changed(in_bytes_per_s=-1), "is not a rate"),
        (changed(in_bytes_per_s="fast"), "is not a rate"),
        (changed(size_bytes=-5), "is negative"),
        (changed(partition=2**31), "'partition' of .* is out of range"),
        (changed(size_bytes=2**63), "'size_bytes' of .* is out of range"),
        (changed(partition=-1), "'partition' of .* is out of range"),
        (LEAST | {"brokers": [{"id": -1}]}, "'id' of .* is out of range"),
        (changed(leader=3), "t-0 is led by broker 3, which is none of its replicas"),
        (changed(isr=[1, 3, 4]), "t-0 has broker 3 in 'isr', which is none of its replicas"),
        (changed(adding=[3]), "t-0 has broker 3 in 'adding', which is none of its replicas"),
        (changed(removing=[9]), "t-0 has broker 9 in 'removing', which is none of its replicas"),
        (
            changed(replica_detail=[{"broker": 5, "size_bytes": 1}]),
            "t-0 has broker 5 in 'replica_detail', which is none of its replicas",
        ),
        ("", "is empty"),
        (" \n", "is empty"),
        ('{"brokers": [], "brokers": []}', 'it has "brokers" twice in one object'),
        ('{"partitions": [{"topic": "t", "topic": "u"}]}', 'it has "topic" twice in one object'),
    ],
)
def test_bad_json_documents_are_reported_in_one_sentence(
    tmp_path: Path, document: object, message: str
) -> None:
    with pytest.raises(DocumentError, match=message) as caught:
        read_document(write(tmp_path, document))
    assert "\n" not in caught.value.title


def test_missing_file_is_reported_as_a_document_error(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="No such file"):
        read_document(tmp_path / "none.json")


WORDS = st.sampled_from(["t", "", "1"])
JSON = st.recursive(
    st.none() | st.booleans() | st.sampled_from([-2, 0, 1, 5, 2**40, 2**70]) | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=5,
)
KEYS = st.sampled_from(["topic", "partition", "leader", "replicas", "isr", "replica_detail", "id"])


@given(st.dictionaries(KEYS, JSON), st.dictionaries(KEYS, JSON))
def test_arbitrary_json_is_read_or_refused_with_a_document_error(
    tmp_path_factory: pytest.TempPathFactory, broker: object, partition: object
) -> None:
    path = tmp_path_factory.getbasetemp() / "whatever.json"
    path.write_text(json.dumps({"brokers": [broker], "partitions": [partition]}))
    with suppress(DocumentError):
        read_document(path)


@pytest.mark.parametrize("capacity", [0, 0.0, 1e-300, -1])
def test_zero_negligible_or_negative_capacity_is_refused(capacity: float) -> None:
    with pytest.raises(InvalidDocumentError, match=r"'in' of brokers\[0\]"):
        JsonObject({"in": capacity}, "brokers[0]").capacity("in")


@pytest.mark.parametrize(
    ("brokers", "clause"),
    [
        ((1,), "broker 1 does not tell its log dirs"),
        ((1, 2), "brokers 1, 2 do not tell their log dirs"),
        ((1, 2, 3, 4), "brokers 1, 2, 3 and 1 more do not tell their log dirs"),
    ],
)
def test_reason_for_unknown_brokers_is_recognized_in_documents_of_any_version(
    brokers: tuple[int, ...], clause: str
) -> None:
    assert HiddenTopics(unknown_brokers=brokers) == HiddenTopics(0, (), brokers, clause)
    assert HiddenTopics(0, (), brokers, clause).has_only_unknown_brokers
