"""`trimtab show`: the heat map once as text, or the cluster document with --json."""

from __future__ import annotations

import shutil
from functools import partial

import click
import numpy as np

from core.cli.common.context import Context
from core.cli.common.options import Command, answer_options
from core.cli.common.output import Answer, emit, fill_file, write_text
from core.cluster.documents import arrow
from core.cluster.documents.cluster_document import (
    ClusterDocument,
    document_to_json,
    fetch_document_groups,
)
from core.cluster.documents.reader import read_document
from core.cluster.state import ClusterState
from core.load.load import Load
from core.load.view.heat import Metric, Order
from core.load.view.text import heat_text
from core.text.terminal import in_ascii
from core.units import counted

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
@answer_options
@click.pass_obj
def show(context: Context, metric: str | None, sort: str, limit: int, answer: Answer) -> None:
    """Print the heat map of topics by brokers; with --json the cluster document.

    With -o FILE.arrow, writes the document as Arrow, which --from reads fastest.
    """
    output = answer.output
    if output is not None and output.suffix == ".arrow":
        fill_file(partial(arrow.write_arrow, _fetch_document(context)), output)
        return
    if answer.as_json:
        emit(document_to_json(_fetch_document(context)), output)
        return
    state, load = context.picture()
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
        f"The {what} of {counted(int(missing.sum()), one)} is not known: sums are without.\n"
        for what, one, missing in unknown
        if missing.any() and not missing.all()
    )


def _fetch_document(context: Context) -> ClusterDocument:
    if context.target.from_file is not None:
        return read_document(context.target.from_file)
    state, load = context.picture()
    with context.connected() as connection:
        groups = fetch_document_groups(connection.client)
    return ClusterDocument(state, load.in_bytes_per_s, load.out_bytes_per_s, groups)
