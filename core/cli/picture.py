"""The picture that offline and one-shot commands work on: the cluster with sizes, and its load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from core.cluster.document_reader import read_document
from core.load.snapshot import Load, Source

if TYPE_CHECKING:
    from core.cli.context import Context
    from core.cluster.state import ClusterState


def read_picture(context: Context) -> tuple[ClusterState, Load]:
    """Return state and load from `--from FILE`, else from the live cluster and its snapshots.

    Raises UsageError when neither was named, UnreachableError when the cluster does not answer.
    """
    if context.target.from_file is not None:
        return picture_of_document(context.target.from_file)
    from core.cluster.observe import observe
    from core.load.locate import newest_load

    context.require_target()
    with context.connected() as connection:
        state = observe(connection.client)
    return state, newest_load(state, context.target.snapshots)


def picture_of_document(path: Path) -> tuple[ClusterState, Load]:
    """Return a saved cluster document's state and the rates it carries."""
    document = read_document(path)
    state = document.state
    return state, Load(
        in_bytes_per_s=document.in_bytes_per_s,
        out_bytes_per_s=document.out_bytes_per_s,
        messages_per_s=Load.unknown(state).messages_per_s,
        source=Source.DOCUMENT,
        as_of=state.fetched_at,
    )
