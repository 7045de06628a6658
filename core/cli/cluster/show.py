"""`trimtab show`: the heat map once as text, or the cluster document with --json."""

from __future__ import annotations

import shutil
from functools import partial

import click
import numpy as np

from core.cli.common.context import Context
from core.cli.common.options import Command, answer_options, refuse_together
from core.cli.common.output import Answer, emit, fill_file, say, write_text
from core.cli.common.times import MOMENT_FORMS, parse_moment
from core.cluster.documents import arrow
from core.cluster.documents.cluster_document import (
    ClusterDocument,
    document_to_json,
    fetch_document_groups,
)
from core.cluster.documents.reader import read_document
from core.cluster.state import ClusterState
from core.errors import UsageError
from core.load.load import Load
from core.load.view.heat import Metric, Order
from core.load.view.text import heat_text
from core.text.terminal import in_ascii
from core.units import counted, format_time

METRICS = ("in", "out", "size", "leaders", "replicas")
ORDERS = ("excess", "skew", "total", "name")


@click.command(cls=Command)
@click.option("--metric", type=click.Choice(METRICS), help="Value of the cells (default: in).")
@click.option(
    "--sort",
    type=click.Choice(ORDERS),
    default="excess",
    help="Order of the rows.",
    show_default=True,
)
@click.option(
    "--topics",
    "limit",
    type=click.IntRange(1),
    default=30,
    help="Maximum number of rows.",
    show_default=True,
)
@click.option(
    "--at",
    "moment",
    metavar="TIME",
    help="As of this time, as far as it was recorded: 30m (ago), 03:10, or a date (default: now).",
)
@answer_options
@click.pass_obj
def show(
    context: Context, metric: str | None, sort: str, limit: int, moment: str | None, answer: Answer
) -> None:
    """Print the heat map of topics by brokers; with --json the cluster document.

    With -o FILE.arrow, writes the document as Arrow, which --from reads fastest.
    """
    output = answer.output
    if output is not None and output.suffix == ".arrow":
        fill_file(partial(arrow.write_arrow, _fetch_document(context, moment)), output)
        return
    if answer.as_json:
        emit(document_to_json(_fetch_document(context, moment)), output)
        return
    state, load = context.picture() if moment is None else _fetch_past_state(context, moment)
    width = shutil.get_terminal_size((120, 40)).columns
    chosen = Metric(metric) if metric else None
    text = heat_text(state, load, chosen, Order(sort), limit, width)
    text += _unknown_note(state, load)
    write_text(in_ascii(text) if context.ascii_only else text, output)


def _unknown_note(state: ClusterState, load: Load) -> str:
    """Say of how many sizes and rates some are not known, as sums are of the others; "" of none."""
    unknown = (
        ("size", "replica", state.size_bytes < 0),
        ("rate of what is produced", "partition", np.isnan(load.in_bytes_per_s)),
        ("rate of what is read", "partition", np.isnan(load.out_bytes_per_s)),
    )
    return "".join(
        f"The {what} of {counted(int(missing.sum()), noun)} is not known: sums are without.\n"
        for what, noun, missing in unknown
        if missing.any() and not missing.all()
    )


def _fetch_document(context: Context, moment: str | None) -> ClusterDocument:
    if moment is not None:
        state, load = _fetch_past_state(context, moment)
        return ClusterDocument(state, load.in_bytes_per_s, load.out_bytes_per_s)
    if context.target.from_file is not None:
        return read_document(context.target.from_file)
    state, load = context.picture()
    with context.connected() as connection:
        groups = fetch_document_groups(connection.client)
    return ClusterDocument(state, load.in_bytes_per_s, load.out_bytes_per_s, groups)


def _fetch_past_state(context: Context, text: str) -> tuple[ClusterState, Load]:
    """Return the cluster and its load as they were, and say from when they are.

    Raises UsageError for a moment that is still to come, or of which no load is kept.
    """
    from core.load.load_paths import root_of
    from core.load.load_source import past_load
    from core.load.snapshot.kept import read_kept
    from core.watch.timeline.past import as_placed, read_state

    refuse_together({"--from": context.target.from_file, "--at": text}, "A file has no past.")
    with context.connected() as connection:
        now, clock = connection.client.describe_cluster(), connection.clock.now()
    moment = parse_moment(text, clock)
    if moment > clock:
        raise UsageError(f"{format_time(moment)} is still to come.", next=MOMENT_FORMS)
    root, recorded = root_of(context.target.snapshots), read_state(now.cluster_id, moment)
    state = as_placed(now, moment) if recorded is None else recorded.state
    load, _ = past_load(root, now.cluster_id, state, moment, read_kept(root, now.cluster_id))
    if load is None or load.as_of is None:
        raise UsageError(
            f"No load is kept of {format_time(moment)}.",
            next="`trimtab snapshot ls --hourly` lists the hours that are kept.",
        )
    placed = "as now, as nobody recorded them" if recorded is None else "of then"
    if recorded is not None and recorded.observed_at < moment:
        placed = f"as recorded last at {format_time(recorded.observed_at)}"
    say(f"As of {format_time(moment)}: load until {format_time(load.as_of)}, replicas {placed}.")
    return state, load
