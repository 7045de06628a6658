"""Replicas compared: what is the same, what is not and whose it is, and what was not compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from replica_logs import GZIP, TP, Replicas, batch, flipped

from core.cluster.client import ReplicaRecords
from core.cluster.configs import ConfigSource, ConfigValue
from core.cluster.kafka_errors import Fault
from core.errors import AccessDeniedError, TrimtabError, UnreachableError
from core.watch.replicas.compare import (
    MAX_DIFFERENCES,
    Difference,
    DifferenceKind,
    PartitionResult,
    ReplicaStatus,
    Verification,
    compare,
)
from core.watch.replicas.record_batches import OldFormatError
from core.watch.replicas.verify import Verifier, VerifyLimits

FIRST = batch(0, ["a", "b", "c"])
SECOND = batch(3, ["d", "e"])
THIRD = batch(5, ["f"])
WHOLE = (FIRST, SECOND, THIRD)
OTHER_SECOND = (FIRST, batch(3, ["d", "E"]), THIRD)
PLENTY = VerifyLimits(60.0, 1 << 30)


def verification(replicas: Replicas, bounds: VerifyLimits = PLENTY) -> Verification:
    state = replicas.describe_cluster()
    rows = state.partitions_of(TP.topic)
    return Verifier(replicas, state, rows, bounds, replicas.client_clock).run()


def verdict(replicas: Replicas, bounds: VerifyLimits = PLENTY) -> PartitionResult:
    (result,) = verification(replicas, bounds).verdicts
    return result


def compacted(replicas: Replicas) -> Replicas:
    def configs(real: Any, resources: Any, names: Any) -> Any:
        return {
            r: {"cleanup.policy": ConfigValue("compact", ConfigSource.TOPIC)} for r in resources
        }

    replicas.replaced["describe_configs"] = configs
    return replicas


def test_replicas_with_equal_batches_are_the_same() -> None:
    result = verdict(Replicas.of({1: WHOLE, 2: WHOLE, 3: WHOLE}))
    assert result.status is ReplicaStatus.SAME
    assert (result.start, result.until, result.end) == (0, 6, 6)
    assert result.size_bytes == sum(map(len, WHOLE))
    assert result.largest_lag == (0, 2)


FOUND: Mapping[str, tuple[Mapping[int, Sequence[bytes]], Difference]] = {
    "a flipped byte": (
        {1: WHOLE, 2: (FIRST, flipped(SECOND, -2), THIRD), 3: WHOLE},
        Difference(DifferenceKind.CORRUPT, 3, 4, (2,), (1, 3), 4),
    ),
    "a flipped byte on the leader": (
        {1: (flipped(FIRST, 70), SECOND, THIRD), 2: WHOLE, 3: WHOLE},
        Difference(DifferenceKind.CORRUPT, 0, 2, (1,), (2, 3), 0),
    ),
    "a flipped checksum": (
        {1: WHOLE, 2: WHOLE, 3: (FIRST, SECOND, flipped(THIRD, 18))},
        Difference(DifferenceKind.CORRUPT, 5, 5, (3,), (1, 2), None),
    ),
    "the same flipped byte everywhere": (
        dict.fromkeys((1, 2), (flipped(FIRST, 70), SECOND, THIRD)),
        Difference(DifferenceKind.CORRUPT, 0, 2, (1, 2), (), None),
    ),
    "another record": (
        {1: WHOLE, 2: WHOLE, 3: OTHER_SECOND},
        Difference(DifferenceKind.OTHER, 3, 4, (3,), (1, 2), 4),
    ),
    "another record, of two": (
        {1: WHOLE, 2: (FIRST, batch(3, ["D", "e"]), THIRD)},
        Difference(DifferenceKind.OTHER, 3, 4, (1, 2), (), 3),
    ),
    "another record, packed": (
        {
            1: (batch(0, ["a", "b"], GZIP),),
            2: (batch(0, ["a", "b"], GZIP),),
            3: (batch(0, ["a", "B"], GZIP),),
        },
        Difference(DifferenceKind.OTHER, 0, 1, (3,), (1, 2), 1),
    ),
    "another leader epoch": (
        {1: WHOLE, 2: (FIRST, flipped(SECOND, 15), THIRD), 3: WHOLE},
        Difference(DifferenceKind.EPOCH, 3, 4, (2,), (1, 3), None),
    ),
    "another leader epoch, of two": (
        {1: WHOLE, 2: (FIRST, flipped(SECOND, 15), THIRD)},
        Difference(DifferenceKind.EPOCH, 3, 4, (1, 2), (), None),
    ),
    "a batch that is not there": (
        {1: WHOLE, 2: (FIRST, THIRD), 3: WHOLE},
        Difference(DifferenceKind.MISSING, 3, 4, (2,), (1, 3), 3),
    ),
    "a length that is none": (
        {1: WHOLE, 2: WHOLE, 3: (FIRST, SECOND[:8] + b"\0\0\0\1" + SECOND[12:], THIRD)},
        Difference(DifferenceKind.UNREADABLE, 3, 3, (3,), (1, 2), 3),
    ),
    "a length beyond the log": (
        {1: WHOLE, 2: WHOLE, 3: (FIRST, SECOND[:8] + b"\1\0\0\0" + SECOND[12:], THIRD)},
        Difference(DifferenceKind.UNREADABLE, 3, 3, (3,), (1, 2), 3),
    ),
    "a bit that makes a batch look like an old message": (
        {1: WHOLE, 2: WHOLE, 3: (FIRST, flipped(SECOND, 16, bit=2), THIRD)},
        Difference(DifferenceKind.UNREADABLE, 3, 3, (3,), (1, 2), 3),
    ),
    "the same on the leader, at the beginning": (
        {1: (flipped(FIRST, 16, bit=2), SECOND, THIRD), 2: WHOLE, 3: WHOLE},
        Difference(DifferenceKind.UNREADABLE, 0, 0, (1,), (2, 3), 0),
    ),
}


@pytest.mark.parametrize(("logs", "expected"), FOUND.values(), ids=list(FOUND))
def test_each_kind_of_difference_is_reported_with_its_offsets_and_brokers(
    logs: Mapping[int, Sequence[bytes]], expected: Difference
) -> None:
    replicas = Replicas.of(logs)
    replicas.ends = dict.fromkeys(logs, 6 if len(logs[1]) == 3 else 2)
    result = verdict(replicas)
    assert result.status is ReplicaStatus.DIFFERENT
    assert result.differences == (expected,)
    assert result.until == result.end, "the rest is compared all the same"


def test_difference_is_found_however_small_the_fetched_pieces() -> None:
    many = [batch(3 * n, [f"a{n}", "b" * 20_000, "c"]) for n in range(20)]
    other = [*many[:11], flipped(many[11], 90), *many[12:]]
    result = verdict(Replicas.of({1: many, 2: other, 3: many}), VerifyLimits(60.0, 3_000_000))
    assert [(d.what, d.first, d.brokers) for d in result.differences] == [
        (DifferenceKind.CORRUPT, 33, (2,))
    ]
    assert (result.until, result.size_bytes) == (60, sum(map(len, many)))


def test_comparison_stops_at_the_end_of_a_lagging_replica_in_the_isr() -> None:
    replicas = Replicas.of({1: WHOLE, 2: WHOLE, 3: (FIRST,)})
    row = replicas.describe_cluster().row(0)
    assert 3 in row.isr
    result = verdict(replicas)
    assert (result.lags, result.largest_lag) == ({1: 0, 2: 0, 3: 3}, (3, 3))
    assert (result.until, result.end, result.status) == (3, 3, ReplicaStatus.SAME), (
        "what not all of the ISR has is not there yet"
    )


def test_out_of_sync_replica_does_not_hold_up_comparison_of_other_replicas() -> None:
    replicas = Replicas.of({1: WHOLE, 2: (FIRST, batch(3, ["d", "E"])), 3: (FIRST,)})
    replicas.ends[2] = 6
    replicas.high[2] = 6
    replicas.client.pause_replication(3)
    replicas.client.advance(60)
    result = verdict(replicas)
    assert dict(result.left_out) == {3: "its high watermark is 3"}
    assert [(d.what, d.first) for d in result.differences] == [
        (DifferenceKind.OTHER, 3),
        (DifferenceKind.MISSING, 5),
    ]


def test_comparison_starts_at_the_highest_log_start_offset() -> None:
    replicas = Replicas.of({1: WHOLE, 2: (SECOND, THIRD), 3: WHOLE})
    replicas.starts[2] = 3
    result = verdict(replicas)
    assert (result.status, result.start, result.until) == (ReplicaStatus.SAME, 3, 6)


def retained(replicas: Replicas, start: int, brokers: Sequence[int]) -> Replicas:
    """Let retention take what is below an offset, once a first piece is asked for."""
    real = replicas.replaced["fetch_records"]

    def read(*words: Any) -> Any:
        if not replicas.read:
            for broker in brokers:
                kept = [b for b in replicas.logs[broker] if int.from_bytes(b[:8], "big") >= start]
                replicas.logs[broker], replicas.starts[broker] = kept, start
        return real(*words)

    replicas.replaced["fetch_records"] = read
    return replicas


@pytest.mark.parametrize("brokers", [(2,), (1, 2), (1, 2, 3)])
def test_records_left_by_retention_during_verification_are_compared(brokers: Sequence[int]) -> None:
    same = verdict(retained(Replicas.of({1: WHOLE, 2: WHOLE, 3: WHOLE}), 3, brokers))
    assert (same.status, same.until, same.end) == (ReplicaStatus.SAME, 6, 6)
    assert same.size_bytes == len(SECOND + THIRD)
    other = verdict(retained(Replicas.of({1: WHOLE, 2: OTHER_SECOND, 3: WHOLE}), 3, brokers))
    assert other.differences == (Difference(DifferenceKind.OTHER, 3, 4, (2,), (1, 3), 4),)


def test_comparison_continues_when_retention_deletes_more_than_a_piece() -> None:
    many = [batch(n, ["x" * 30_000]) for n in range(10)]
    other = [*many[:8], batch(8, ["y" * 30_000]), many[9]]
    replicas = retained(Replicas.of({1: many, 2: other, 3: many}), 5, (2,))
    result = verdict(replicas, VerifyLimits(60.0, 2_000_000))
    assert [(d.what, d.first, d.brokers) for d in result.differences] == [
        (DifferenceKind.OTHER, 8, (2,))
    ]
    assert (result.until, dict(result.left_out)) == (10, {})
    assert result.size_bytes == sum(map(len, many[5:]))


def test_replica_whose_log_ends_before_the_compared_offsets_is_left_out() -> None:
    replicas = Replicas.of({1: WHOLE, 2: WHOLE, 3: WHOLE})
    real = replicas.replaced["fetch_records"]
    replicas.starts = {1: 3, 2: 3, 3: 3}

    def read(*words: Any) -> Any:
        if not replicas.read:
            replicas.logs[2], replicas.starts[2] = [], 0
        return real(*words)

    replicas.replaced["fetch_records"] = read
    result = verdict(replicas)
    assert dict(result.left_out) == {2: "it ends before offset 3"}
    assert (result.until, result.end) == (6, 6)


def test_records_compacted_away_on_some_replicas_are_no_difference() -> None:
    left = batch(0, {0: "a", 2: "c"})
    whole = (batch(0, ["a", "b", "c"]), SECOND, THIRD)
    replicas = compacted(Replicas.of({1: whole, 2: (left, SECOND, THIRD), 3: (left, THIRD)}))
    result = verdict(replicas)
    assert (result.status, result.until) == (ReplicaStatus.SAME, 6)


def test_differing_record_at_one_offset_of_a_compacted_topic_is_reported() -> None:
    whole = (batch(0, ["a", "b", "c"]), SECOND, THIRD)
    other = (batch(0, {0: "a", 2: "X"}), SECOND, THIRD)
    result = verdict(compacted(Replicas.of({1: whole, 2: other, 3: whole})))
    assert result.differences == (Difference(DifferenceKind.OTHER, 0, 2, (2,), (1, 3), 2),)


def test_replica_emptied_by_compaction_is_no_difference() -> None:
    replicas = compacted(Replicas.of({1: WHOLE, 2: (), 3: WHOLE}))
    replicas.ends[2] = replicas.high[2] = 6
    assert verdict(replicas).status is ReplicaStatus.SAME


def test_missing_batch_is_no_difference_where_cleanup_policy_is_unknown() -> None:
    replicas = Replicas.of({1: WHOLE, 2: (FIRST, THIRD), 3: WHOLE})
    replicas.replaced["describe_configs"] = lambda real, resources, names: dict.fromkeys(
        resources, Fault("TOPIC_AUTHORIZATION_FAILED")
    )
    report = verification(replicas)
    assert report.verdicts[0].status is ReplicaStatus.SAME
    assert "Whether orders is compacted is not known" in report.notes[0]


@pytest.mark.parametrize("name", ["TOPIC_AUTHORIZATION_FAILED", "KAFKA_STORAGE_ERROR"])
def test_unreadable_replica_is_reported_and_the_other_replicas_are_compared(name: str) -> None:
    replicas = Replicas.of({1: WHOLE, 2: OTHER_SECOND, 3: WHOLE})
    replicas.faults[3] = Fault(name)
    result = verdict(replicas)
    assert dict(result.left_out) == {3: name}
    assert result.differences == (Difference(DifferenceKind.OTHER, 3, 4, (1, 2), (), 4),)


def test_replicas_unreadable_from_the_same_offset_are_reported_together() -> None:
    broken = (FIRST, SECOND[:8] + b"\0\0\0\1" + SECOND[12:], THIRD)
    replicas = Replicas.of({1: broken, 2: WHOLE, 3: broken})
    replicas.ends = {1: 6, 3: 6}
    assert verdict(replicas).differences == (
        Difference(DifferenceKind.UNREADABLE, 3, 3, (1, 3), (2,), 3),
    )


@pytest.mark.parametrize(("corrupt", "intact"), [((2,), (1, 3)), ((2, 3), (1,))])
def test_replicas_that_fail_with_corrupt_message_are_reported_unreadable(
    corrupt: tuple[int, ...], intact: tuple[int, ...]
) -> None:
    replicas = Replicas.of({1: WHOLE, 2: WHOLE, 3: WHOLE})
    replicas.faults |= dict.fromkeys(corrupt, Fault("CORRUPT_MESSAGE"))
    assert verdict(replicas).differences == (
        Difference(DifferenceKind.UNREADABLE, 0, 0, corrupt, intact, 0),
    )


def test_a_broker_that_is_down_is_left_out() -> None:
    replicas = Replicas.of({1: WHOLE, 2: WHOLE, 3: WHOLE})
    replicas.client.stop_broker(3)
    replicas.client.advance(30)
    result = verdict(replicas)
    assert (result.status, dict(result.left_out)) == (ReplicaStatus.INCOMPLETE, {3: "it is down"})
    assert result.until == result.end == 6


def test_single_replica_counts_as_the_same_without_being_read() -> None:
    replicas = Replicas.of({1: WHOLE})
    assert verdict(replicas).status is ReplicaStatus.SAME
    assert replicas.read == 0


def test_messages_in_the_format_before_kafka_0_11_are_not_compared() -> None:
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1000)
    builder.append(0, timestamp=1, key=b"k", value=b"v")
    old = (bytes(builder.build()),)
    replicas = Replicas.of({1: (), 2: ()})
    replicas.ends = {1: 1, 2: 1}
    replicas.replaced["fetch_records"] = lambda real, offsets_by_broker, room: {
        (TP, broker): ReplicaRecords(1, old[0]) for broker in offsets_by_broker
    }
    result = verdict(replicas)
    assert dict(result.left_out) == {None: "its messages are older than Kafka 0.11"}


def test_old_format_is_judged_only_once_every_replica_has_returned_records() -> None:
    old = flipped(FIRST, 16, bit=2)
    comparison = compare(0, {1: old, 2: b"", 3: FIRST}, {}, compacted=False)
    assert (comparison.short, comparison.unreadable) == ((2,), ())
    comparison = compare(0, {1: old, 2: FIRST, 3: FIRST}, {}, compacted=False)
    assert (comparison.short, comparison.unreadable) == ((), (1,))
    comparison = compare(0, {1: old, 2: FIRST + old}, {}, compacted=False)
    assert (comparison.short, comparison.unreadable) == ((), (1,))
    with pytest.raises(OldFormatError):
        compare(0, {1: old, 2: old + THIRD}, {}, compacted=False)


def test_verification_ends_at_its_byte_limit_and_reports_why() -> None:
    many = [batch(n, ["x" * 30_000]) for n in range(10)]
    report = verification(Replicas.of(dict.fromkeys((1, 2), many)), VerifyLimits(60.0, 200_000))
    assert report.ended == "so many bytes were read"
    assert 200_000 <= report.read_bytes < 300_000
    (result,) = report.verdicts
    assert (result.status, result.end) == (ReplicaStatus.INCOMPLETE, 10)
    assert result.until is not None
    assert 0 < result.until < 10


def once_found(replicas: Replicas, happens: Callable[[], Any]) -> Replicas:
    """Let something happen when all is compared, before what differs is read again."""

    def describe(real: Any) -> Any:
        if replicas.read:
            happens()
        return real()

    replicas.replaced["describe_cluster"] = describe
    return replicas


def test_difference_gone_at_the_second_read_is_not_reported() -> None:
    replicas = Replicas.of({1: WHOLE, 2: OTHER_SECOND, 3: WHOLE})
    once_found(replicas, lambda: replicas.logs.update({2: list(WHOLE)}))
    result = verdict(replicas)
    assert (result.status, result.differences) == (ReplicaStatus.INCOMPLETE, ())
    assert "try again" in result.left_out[None]


def test_lasting_difference_is_reported_when_another_is_gone_at_the_second_read() -> None:
    replicas = Replicas.of(
        {1: WHOLE, 2: (FIRST, flipped(SECOND, -2), flipped(THIRD, -2)), 3: WHOLE}
    )
    once_found(replicas, lambda: replicas.logs.update({2: [FIRST, SECOND, flipped(THIRD, -2)]}))
    result = verdict(replicas)
    assert [(d.what, d.first, d.brokers) for d in result.differences] == [
        (DifferenceKind.CORRUPT, 5, (2,))
    ]
    assert (result.status, result.different) == (ReplicaStatus.DIFFERENT, 1)


def test_differences_beyond_the_listed_maximum_still_count_after_the_second_read() -> None:
    many = [batch(n, ["x"]) for n in range(MAX_DIFFERENCES + 2)]
    corrupt = [flipped(good_batch, -2) for good_batch in many]
    replicas = Replicas.of({1: many, 2: corrupt, 3: many})
    once_found(
        replicas,
        lambda: replicas.logs.update({2: [*many[:MAX_DIFFERENCES], *corrupt[MAX_DIFFERENCES:]]}),
    )
    report = verification(replicas)
    (result,) = report.verdicts
    assert (result.status, result.differences, result.different) == (ReplicaStatus.DIFFERENT, (), 2)
    assert "orders-0" in report.notes[0]
    assert f"the first {MAX_DIFFERENCES} are the same now" in report.notes[0]


@pytest.mark.parametrize(
    ("fails", "why"),
    [
        (Fault("BROKER_NOT_AVAILABLE"), "broker 1: BROKER_NOT_AVAILABLE"),
        (Fault("OFFSET_OUT_OF_RANGE"), "broker 1: OFFSET_OUT_OF_RANGE"),
        (UnreachableError("The cluster is gone."), "The cluster is gone"),
        (AccessDeniedError("The cluster is gone."), "The cluster is gone"),
    ],
)
def test_difference_stands_and_is_noted_when_the_second_read_fails(
    fails: Fault | TrimtabError, why: str
) -> None:
    replicas = Replicas.of({1: WHOLE, 2: WHOLE, 3: OTHER_SECOND})

    def fail() -> None:
        if isinstance(fails, TrimtabError):
            raise fails
        replicas.faults[1] = fails

    report = verification(once_found(replicas, fail))
    (result,) = report.verdicts
    assert result.differences == (Difference(DifferenceKind.OTHER, 3, 4, (3,), (1, 2), 4),)
    assert dict(result.left_out) == {}
    assert report.notes == (
        f"What differs in orders-0 was not read a second time ({why}): verify again to see whether "
        "it still does.",
    )


def test_topic_deleted_during_verification_is_left_out_of_the_comparison() -> None:
    replicas = Replicas.of({1: WHOLE, 2: OTHER_SECOND, 3: WHOLE})

    def deleted() -> None:
        replicas.client.delete_topic("orders")
        replicas.client.advance(1)

    once_found(replicas, deleted)
    assert dict(verdict(replicas).left_out) == {None: "the topic was deleted meanwhile"}
