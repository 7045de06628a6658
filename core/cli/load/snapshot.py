"""`trimtab snapshot`: what was published about load."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from core.cli.common.context import Context
from core.cli.common.options import Group, answer_options, cluster_id_option
from core.cli.common.output import Answer, emit, say, write_text
from core.cli.load.pipeline_job import resolve_load
from core.cli.load.pipeline_status import format_counts
from core.cluster.known_names import own_name
from core.errors import ExitCode, UsageError
from core.load.load_paths import root_of
from core.load.snapshot.kept import KeptSnapshot, read_kept
from core.load.snapshot.manifest import Manifest, cluster_ids, read_manifest
from core.load.snapshot.reader import verify_snapshot
from core.load.store import Root
from core.text.tables import text_table
from core.units import counted, format_bytes, format_duration, format_rate, format_time

HOTTEST = 10


@click.group(cls=Group)
def snapshot() -> None:
    """List, show and verify load snapshots."""


@snapshot.command("ls")
@click.option("--hourly", is_flag=True, help="Only the first snapshot of each hour.")
@cluster_id_option
@answer_options
@click.pass_obj
def ls(context: Context, hourly: bool, cluster_id: str | None, answer: Answer) -> None:
    """List the snapshots with the total load of the brokers, newest first."""
    kept = read_kept(*_place(context, cluster_id))
    for damaged in kept.left_out:
        say(damaged)
    shown = kept.hours if hourly else kept.snapshots
    header = ("ID", "PUBLISHED", "SOURCE", "PARTITIONS", "IN", "OUT", "SIZE")
    none = "Nothing has been published yet."
    answer.write_table(shown[::-1], _summary_json, header, _summary_row, "   >>>>", none=none)


@snapshot.command()
@click.argument("snapshot_id", required=False, metavar="[ID]")
@cluster_id_option
@answer_options
@click.pass_obj
def show(context: Context, snapshot_id: str | None, cluster_id: str | None, answer: Answer) -> None:
    """Show a snapshot (default: the newest): brokers, hottest partitions, counts, age."""
    root, cluster_id = _place(context, cluster_id)
    manifest = read_manifest(root, cluster_id, snapshot_id)
    if manifest is None:
        raise _nothing(cluster_id, snapshot_id)
    age = _age_seconds(manifest)
    if answer.as_json:
        emit({**manifest.to_json(), "age_seconds": age}, answer.output)
        return
    parts = (
        f"{own_name(manifest.cluster_id)}  {manifest.snapshot_id}  source {manifest.source.value}  "
        f"published {format_time(manifest.published_at)}  {format_duration(age)} old\n",
        _brokers(manifest),
        _hottest(manifest),
        f"samples: {format_counts(manifest.to_json()['counts'])}",
    )
    write_text("".join(f"{part}\n" for part in parts), answer.output)


@snapshot.command()
@click.argument("snapshot_id", required=False, metavar="[ID]")
@cluster_id_option
@answer_options
@click.pass_obj
def verify(
    context: Context, snapshot_id: str | None, cluster_id: str | None, answer: Answer
) -> int:
    """Verify a snapshot (default: the newest): manifest, files, sizes and SHA-256.

    Exit code 6 when something is wrong.
    """
    root, cluster_id = _place(context, cluster_id)
    check = verify_snapshot(root, cluster_id, snapshot_id)
    if check is None:
        raise _nothing(cluster_id, snapshot_id)
    manifest, output = check.manifest, answer.output
    if answer.as_json:
        emit(
            {
                "cluster_id": cluster_id,
                "snapshot_id": check.snapshot_id,
                "verified": not check.problems,
                "published_at": format_time(manifest.published_at) if manifest else None,
                "age_seconds": _age_seconds(manifest) if manifest else None,
                "partitions": sum(file.rows for file in manifest.files) if manifest else None,
                "files": [asdict(file) for file in manifest.files] if manifest else [],
                "problems": [
                    {"file": str(problem.path), "problem": problem.problem, "next": problem.next}
                    for problem in check.problems
                ],
            },
            output,
        )
    elif manifest is not None and not check.problems:
        size = format_bytes(sum(file.bytes for file in manifest.files))
        write_text(
            f"{manifest.snapshot_id} is sound: {counted(len(manifest.files), 'file')} ({size}) as "
            f"published, {counted(sum(file.rows for file in manifest.files), 'partition')}, "
            f"{format_duration(_age_seconds(manifest))} old.\n",
            output,
        )
    else:
        lines = (
            f"{problem.problem}\n  {problem.path}\n  {problem.next}\n" for problem in check.problems
        )
        write_text("".join(lines), output)
    return ExitCode.NO if check.problems else ExitCode.DONE


def _summary_json(kept: KeptSnapshot) -> dict[str, Any]:
    return {
        "snapshot_id": kept.snapshot_id,
        "source": kept.source.value,
        "published_at": format_time(kept.published_at),
        "window_end": format_time(kept.window_end),
        "partitions": kept.partitions,
        "in_bytes_per_s": kept.in_bytes_per_s,
        "out_bytes_per_s": kept.out_bytes_per_s,
        "bytes": kept.bytes,
    }


def _summary_row(kept: KeptSnapshot) -> tuple[str, ...]:
    return (
        kept.snapshot_id,
        format_time(kept.published_at),
        kept.source.value,
        str(kept.partitions),
        format_rate(kept.in_bytes_per_s),
        format_rate(kept.out_bytes_per_s),
        format_bytes(kept.bytes),
    )


def _nothing(cluster_id: str, snapshot_id: str | None) -> UsageError:
    return UsageError(
        f"There is no snapshot {snapshot_id} of {own_name(cluster_id)}."
        if snapshot_id
        else f"Nothing has been published for {own_name(cluster_id)} yet.",
        next="`trimtab snapshot ls` lists them; `trimtab pipeline once` makes one.",
    )


def _age_seconds(manifest: Manifest) -> float:
    return (datetime.now(UTC) - manifest.window_end).total_seconds()


def _brokers(manifest: Manifest) -> str:
    rows = [
        [
            str(b.broker),
            format_rate(b.leader_in_bytes_per_s),
            format_rate(b.follower_in_bytes_per_s),
            format_rate(b.out_bytes_per_s),
            format_bytes(b.size_bytes),
            str(b.leaders),
            str(b.replicas),
        ]
        for b in manifest.brokers
    ]
    header = ("BROKER", "LEADER IN", "FOLLOWER IN", "OUT", "SIZE", "LEADERS", "REPLICAS")
    return text_table(header, rows, ">" * len(header))


def _hottest(manifest: Manifest) -> str:
    rows = [
        [
            f"{hot.topic}-{hot.partition}",
            "?" if hot.leader is None else str(hot.leader),
            format_rate(hot.in_bytes_per_s),
            format_rate(hot.out_bytes_per_s),
            "?" if hot.share is None else f"{hot.share:.0%}",
        ]
        for hot in manifest.hot_partitions[:HOTTEST]
    ]
    return text_table(("HOTTEST", "LEADER", "IN", "OUT", "OF BROKER"), rows, " >>>>")


def _place(context: Context, cluster_id: str | None) -> tuple[Root, str]:
    root = root_of(context.target.snapshots)
    if isinstance(root, Path):
        return resolve_load(context, root, cluster_id)
    known = () if cluster_id else cluster_ids(root)
    otherwise = "Check the address given as --snapshots, or wait until the pipeline publishes."
    return root, context.resolve_cluster_id(
        cluster_id, known, f"{root} has snapshots of", otherwise
    )
