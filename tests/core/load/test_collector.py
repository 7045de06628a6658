"""The collector on a simulated cluster: segments, the gate, the live interval."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import small_spec

from core import files, paths
from core.cluster.client import OffsetAt
from core.cluster.groups import GROUPS_HIDDEN, Group
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.spec import GroupSpec
from core.errors import TrimtabError, UnreachableError
from core.load import load_paths as layout
from core.load import load_source as locate
from core.load import spool
from core.load.collector.collector import Collector, PollResult, collect
from core.load.collector.interval import measure_interval
from core.load.load import Source
from core.load.samples import COLUMNS, Flag

TP = TopicPartition("t", 0)


@pytest.fixture
def cluster() -> SimulatedCluster:
    return SimulatedCluster(
        small_spec(
            {"t": [(1, 2), (2, 3)], "quiet": [(3, 1)]},
            in_bytes_per_s={TP: 4_000_000.0, TopicPartition("t", 1): 1_000_000.0},
            groups=(GroupSpec("g", ("t",)),),
        )
    )


def collector(cluster: SimulatedCluster, root: Path) -> Collector:
    return Collector(cluster, cluster.clock, root)


def begun(cluster: SimulatedCluster, root: Path) -> Collector:
    """Return a collector that has polled once, ten seconds ago."""
    poller = collector(cluster, root)
    poller.poll()
    cluster.advance(10)
    return poller


def rows_of(polled: PollResult) -> list[dict[str, Any]]:
    """Return the samples of one poll."""
    return pq.ParquetFile(polled.segment).read().to_pylist()


def poll_for(cluster: SimulatedCluster, root: Path, polls: int) -> list[PollResult]:
    poller = collector(cluster, root)
    out = []
    for _ in range(polls):
        out.append(poller.poll())
        cluster.advance(10)
    return out


def test_poll_writes_one_segment_with_a_row_per_replica(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    polled = poll_for(cluster, tmp_path, 3)
    assert [p.rows for p in polled] == [6, 6, 6]
    assert [p.with_rates for p in polled] == [0, 3, 3]
    assert len({p.poll_id for p in polled}) == 3
    segments = sorted(layout.spool(tmp_path, cluster.spec.cluster_id).rglob("*.parquet"))
    assert segments == [p.segment for p in polled]
    assert not list(layout.incoming(tmp_path).iterdir())
    table = pq.ParquetFile(segments[-1]).read()
    assert table.column_names == [column.name for column in COLUMNS]
    rows = {(r["topic"], r["partition"], r["broker_id"]): r for r in table.to_pylist()}
    led, followed = rows["t", 0, 1], rows["t", 0, 2]
    assert led["dt_ms"] == 10_000
    assert led["in_bytes"] == pytest.approx(40e6, rel=0.02)
    assert led["out_bytes"] == pytest.approx(40e6, rel=0.05)
    assert led["offset_delta"] > 0
    assert followed["offset_delta"] is None
    assert followed["size_bytes"] > 0
    assert rows["quiet", 0, 3]["in_bytes"] == 0.0


def test_offset_deltas_add_up_to_the_growth(cluster: SimulatedCluster, tmp_path: Path) -> None:
    rows = [
        row
        for polled in poll_for(cluster, tmp_path, 5)
        for row in rows_of(polled)
        if (row["topic"], row["partition"]) == TP and row["is_leader"]
    ]
    grown = rows[-1]["end_offset"] - rows[0]["end_offset"]
    assert sum(r["offset_delta"] or 0 for r in rows) == grown


def test_last_interval_is_available_as_live_load(cluster: SimulatedCluster, tmp_path: Path) -> None:
    poll_for(cluster, tmp_path, 1)
    state = cluster.describe_cluster()
    assert locate.newest_load(state, str(tmp_path)).source is None
    poll_for(cluster, tmp_path, 2)
    load = locate.newest_load(state, str(tmp_path))
    assert load.source is Source.LIVE
    assert load.in_bytes_per_s[state.find(TP)] == pytest.approx(4e6, rel=0.02)
    snapshot = locate.newest_snapshot(state.cluster_id, str(tmp_path))
    by_id = {b.broker: b for b in snapshot.brokers}
    assert by_id[2].leader_in_bytes_per_s == pytest.approx(1e6, rel=0.02)
    assert by_id[2].follower_in_bytes_per_s == pytest.approx(4e6, rel=0.02)
    assert by_id[1].out_bytes_per_s == pytest.approx(8e6, rel=0.05)


def test_a_stopped_broker_makes_a_poll_partial(cluster: SimulatedCluster, tmp_path: Path) -> None:
    poller = begun(cluster, tmp_path)
    cluster.stop_broker(1)
    cluster.advance(10)
    rows = {(r["topic"], r["broker_id"]): r for r in rows_of(poller.poll())}
    assert Flag(rows["t", 1]["flags"]) & Flag.PARTIAL_POLL
    assert rows["t", 1]["size_bytes"] is None
    assert rows["quiet", 3]["flags"] == 0


def test_dying_broker_does_not_distort_rates_of_other_brokers(
    cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets, groups = cluster.fetch_offsets, cluster.describe_groups

    def in_vain(partitions: Sequence[TopicPartition], at: OffsetAt) -> dict[TopicPartition, int]:
        offsets_by_tp = offsets(partitions, at)
        cluster.advance(10)
        return {tp: offset for tp, offset in offsets_by_tp.items() if tp.topic != "quiet"}

    def listed_late(**more: Any) -> tuple[Group, ...]:
        cluster.advance(10)
        return groups(**more)

    poller = begun(cluster, tmp_path)
    with monkeypatch.context() as dying:
        dying.setattr(cluster, "fetch_offsets", in_vain)
        dying.setattr(cluster, "describe_groups", listed_late)
        polls = [poller.poll()]
    polls.append(poller.poll())
    cluster.advance(10)
    polls.append(poller.poll())
    # The second of them begins as the commits of the first are read: of no time nothing is told.
    for polled, seconds, commits in zip(polls, (10, 30, 10), (1, 0, 1), strict=True):
        led = next(
            r
            for r in rows_of(polled)
            if (r["topic"], r["partition"], r["broker_id"]) == ("t", 0, 1)
        )
        assert led["dt_ms"] == seconds * 1000
        assert led["in_bytes"] / seconds == pytest.approx(4e6, rel=0.02)
        if commits:
            assert led["out_bytes"] / seconds == pytest.approx(4e6, rel=0.05)
        else:
            assert led["out_bytes"] is None


@pytest.mark.parametrize("known", [None, "its id", "its members"])
def test_reads_of_a_group_without_its_coordinator_are_unknown_not_zero(
    cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str | None
) -> None:
    groups, away = cluster.describe_groups, Fault("COORDINATOR_NOT_AVAILABLE")

    def without(lost: Callable[[Fault], None]) -> tuple[Group, ...]:
        if known is None:
            lost(away)
            return ()
        (group,) = groups()
        if known == "its id":
            return (Group(group.id, "unknown", "", None, (), {}, fault=away),)
        return (replace(group, committed={}, committed_fault=away),)

    poller = begun(cluster, tmp_path)
    with monkeypatch.context() as outage:
        outage.setattr(cluster, "describe_groups", without)
        assert out_bytes_per_s(poller.poll()) == {"t": None, "quiet": 0.0}
    cluster.advance(10)
    assert out_bytes_per_s(poller.poll()) == {"t": pytest.approx(4e6, rel=0.05), "quiet": 0.0}


def test_non_consumer_group_counts_by_its_commits_and_leaves_no_reads_unknown(
    cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Connect's workers: nobody tells of their members, and they are no consumers."""
    groups = cluster.describe_groups

    def of_workers(**more: Any) -> tuple[Group, ...]:
        (group,) = groups(**more)
        return (replace(group, protocol="connect", members=(), fault=Fault("NOT_TOLD")),)

    monkeypatch.setattr(cluster, "describe_groups", of_workers)
    poller = begun(cluster, tmp_path)
    assert out_bytes_per_s(poller.poll()) == {"t": pytest.approx(4e6, rel=0.05), "quiet": 0.0}


def test_permanently_hidden_groups_leave_reads_of_visible_groups_known(
    cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, there = cluster.describe_groups, ["g"]

    def some(lost: Callable[[Fault], None]) -> tuple[Group, ...]:
        lost(GROUPS_HIDDEN)
        return tuple(group for group in groups() if group.id in there)

    monkeypatch.setattr(cluster, "describe_groups", some)
    poller = begun(cluster, tmp_path)
    assert out_bytes_per_s(poller.poll()) == {"t": pytest.approx(4e6, rel=0.05), "quiet": None}
    memory = measure_interval(poller.read(), None).memory
    assert set(memory.commits) == {"g"}
    there.clear()
    assert not measure_interval(poller.read(), memory).memory.commits, (
        "nothing is kept of who is gone"
    )


def test_reads_are_unknown_when_no_group_coordinator_is_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SimulatedCluster(
        small_spec(
            {"t": [(1, 2)], "__consumer_offsets": [(3,)]},
            in_bytes_per_s={TP: 4_000_000.0},
            groups=(GroupSpec("g", ("t",)),),
        )
    )
    poller = collector(cluster, tmp_path)
    poller.poll()
    cluster.stop_broker(3)
    cluster.advance(10)
    monkeypatch.setattr(cluster, "describe_groups", lambda **_: ())
    assert out_bytes_per_s(poller.poll())["t"] is None


def out_bytes_per_s(polled: PollResult) -> dict[str, float | None]:
    """Return what is read of each topic's partition 0."""
    return {
        row["topic"]: None if row["out_bytes"] is None else row["out_bytes"] * 1000 / row["dt_ms"]
        for row in rows_of(polled)
        if row["partition"] == 0 and row["is_leader"]
    }


def test_a_moved_replica_has_its_own_size_series(cluster: SimulatedCluster, tmp_path: Path) -> None:
    poller = collector(cluster, tmp_path)
    poller.poll()
    cluster.alter_reassignments({TP: (1, 3)})
    cluster.advance(10)
    end = cluster.fetch_offsets([TP], OffsetAt.LATEST)[TP]
    poller.poll()
    cluster.advance(60)
    rows = [r for r in rows_of(poller.poll()) if (r["topic"], r["partition"]) == TP]
    assert sorted(r["broker_id"] for r in rows) == [1, 3]
    assert next(r for r in rows if r["is_leader"])["end_offset"] > end


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-200]), "truncated"),
        (lambda path: path.write_bytes(b""), "truncated"),
        (lambda path: _rewrite(path, lambda t: t.slice(1)), "rows"),
        (lambda path: _rewrite(path, lambda t: t.drop_columns(["ts"])), "schema"),
        (lambda path: _rewrite(path, lambda t: t.replace_schema_metadata({})), "format"),
        (lambda path: _rewrite(path, lambda t: _with_head(t, at=None)), "time"),
        (lambda path: _rewrite(path, lambda t: _with_head(t, at="yesterday")), "time"),
    ],
)
def test_the_gate_quarantines_a_bad_segment_with_its_reason(
    cluster: SimulatedCluster, tmp_path: Path, harm: object, reason: str
) -> None:
    cluster_id = cluster.spec.cluster_id
    segment = poll_for(cluster, tmp_path, 1)[0].segment
    name = f"{paths.cluster_folder(cluster_id)}-bad.parquet"
    incoming = layout.incoming(tmp_path) / name
    incoming.write_bytes(segment.read_bytes())
    harm(incoming)  # type: ignore[operator]
    assert spool.admit_segments(tmp_path, cluster_id) == 1
    assert not list(layout.incoming(tmp_path).iterdir())
    assert spool.quarantined_segments(tmp_path, cluster_id) == {reason: 1}
    assert (layout.quarantine(tmp_path, cluster_id) / reason / name).exists()
    assert segment.exists()


def _rewrite(path: Path, change: object) -> None:
    table = pq.ParquetFile(path).read()
    pq.write_table(change(table), path)  # type: ignore[operator]


def _with_head(table: Any, **changed: str | None) -> Any:
    head = {name.decode(): value.decode() for name, value in table.schema.metadata.items()}
    head |= changed
    return table.replace_schema_metadata({n: v for n, v in head.items() if v is not None})


@given(st.data())
def test_gate_never_fails_on_a_segment_with_a_changed_byte(
    one_segment: tuple[Path, bytes, str], data: st.DataObject
) -> None:
    path, whole, cluster_id = one_segment
    at = data.draw(st.integers(0, len(whole) - 1))
    to = data.draw(st.integers(0, 255))
    path.write_bytes(whole[:at] + bytes([to]) + whole[at + 1 :])
    spool.check_segment(path, cluster_id)


@pytest.fixture(scope="module")
def one_segment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, str]:
    simulated = SimulatedCluster(small_spec({"t": [(1, 2)]}))
    segment = poll_for(simulated, tmp_path_factory.mktemp("spool"), 1)[0].segment
    return segment, segment.read_bytes(), simulated.spec.cluster_id


def test_spooled_segment_that_becomes_damaged_is_quarantined(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    first, second = (p.segment for p in poll_for(cluster, tmp_path, 2))
    first.write_bytes(first.read_bytes()[:50])
    assert spool.quarantine_damaged(tmp_path, cluster.spec.cluster_id) == 1
    assert not first.exists()
    assert second.exists()


def test_pipeline_starting_during_a_poll_takes_no_segment_from_its_collector(
    cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole, cluster_id = files.write_whole, cluster.spec.cluster_id
    starting = threading.Thread(target=spool.admit_segments, args=(tmp_path, cluster_id))

    def write_then_start(path: Path, write: Callable[[Path], None], **options: bool) -> None:
        write_whole(path, write, **options)
        if path.parent == layout.incoming(tmp_path):
            starting.start()
            starting.join(0.3)

    monkeypatch.setattr(files, "write_whole", write_then_start)
    polled = collector(cluster, tmp_path).poll()
    starting.join()
    assert polled.segment.exists()
    assert not spool.quarantined_segments(tmp_path, cluster_id)


def test_segments_taken_by_no_pipeline_are_deleted_after_two_days(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    old, *_ = poll_for(cluster, tmp_path, 1)
    hour = old.segment.parent
    left = hour.stat().st_mtime - spool.SPOOL_SECONDS - 60
    os.utime(hour, (left, left))
    cluster.advance(3600)
    new, *_ = poll_for(cluster, tmp_path, 1)
    assert not hour.exists()
    assert new.segment.exists()


def test_partial_segment_of_a_dead_collector_is_deleted(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    poll_for(cluster, tmp_path, 1)
    cluster_id = cluster.spec.cluster_id
    half = layout.incoming(tmp_path) / f".tmp-1-{paths.cluster_folder(cluster_id)}-x.parquet"
    half.touch()
    spool.delete_expired(tmp_path, cluster_id)
    assert half.exists()
    os.utime(half, (0, 0))
    spool.delete_expired(tmp_path, cluster_id)
    assert not half.exists()


def test_after_a_full_disk_the_next_interval_covers_the_time_without_samples(
    cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[PollResult | TrimtabError] = []

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def report(event: PollResult | TrimtabError) -> None:
        heard.append(event)
        if len(heard) == 1:
            monkeypatch.setattr(files, "write_whole", full)
        else:
            monkeypatch.undo()

    poller = collector(cluster, tmp_path)
    collect(
        poller, cluster.clock, interval_seconds=10, keep_on=lambda: len(heard) < 3, report=report
    )
    assert isinstance(heard[1], TrimtabError)
    assert "No space left" in str(heard[1])
    last = heard[2]
    assert isinstance(last, PollResult)
    assert last.segment is not None
    assert {row["dt_ms"] for row in rows_of(last) if row["is_leader"]} == {20_000}


def test_poll_id_is_not_reused_after_a_restart(cluster: SimulatedCluster, tmp_path: Path) -> None:
    first = collector(cluster, tmp_path).poll()
    cluster.advance(0.2)
    second = collector(cluster, tmp_path).poll()
    assert second.poll_id > first.poll_id
    assert second.segment != first.segment


def test_old_segments_are_archived_then_deleted(cluster: SimulatedCluster, tmp_path: Path) -> None:
    cluster_id = cluster.spec.cluster_id
    segment = poll_for(cluster, tmp_path, 1)[0].segment
    written_at = segment.stat().st_mtime
    spool.archive_segment(tmp_path, cluster_id, segment)
    archived = list(layout.archive(tmp_path, cluster_id).rglob("*.parquet"))
    assert [path.name for path in archived] == [segment.name]
    spool.delete_expired(tmp_path, cluster_id, written_at + spool.SPOOL_SECONDS - 60)
    assert archived[0].exists()
    spool.delete_expired(tmp_path, cluster_id, written_at + spool.SPOOL_SECONDS + 60)
    assert not archived[0].exists()


def test_polling_keeps_its_schedule_and_survives_an_unreachable_cluster(
    cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[PollResult | TrimtabError] = []
    poller = collector(cluster, tmp_path)
    read = poller.read

    def sometimes() -> object:
        if len(heard) == 1:
            raise UnreachableError("The cluster does not answer.")
        return read()

    monkeypatch.setattr(poller, "read", sometimes)
    began = cluster.elapsed_seconds
    collect(
        poller,
        cluster.clock,
        interval_seconds=10,
        keep_on=lambda: len(heard) < 4,
        report=heard.append,
    )
    assert [type(event).__name__ for event in heard] == [
        "PollResult", "UnreachableError", "PollResult", "PollResult",
    ]  # fmt: skip
    assert cluster.elapsed_seconds - began == pytest.approx(30, abs=1)
    after_gap = heard[2]
    assert isinstance(after_gap, PollResult)
    assert after_gap.with_rates == 3
    assert np.isfinite(after_gap.poll_id)
