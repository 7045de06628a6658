"""Reassignments that trimtab did not start: shown and followed, never changed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from core.cli.common.context import Context
from core.cli.common.output import Answer, emit_line, print_lines, say
from core.cli.runs.follow_progress import DETACHED
from core.cluster.metadata import TopicPartition
from core.cluster.observer import fetch_cluster_state
from core.cluster.state import ClusterState
from core.errors import ExitCode
from core.run.external.moves import ForeignMove, ForeignWatch, foreign_moves
from core.run.reporting.runs import with_throttles
from core.text.tables import text_table
from core.units import counted, format_bytes, format_duration, format_rate, format_time, id_list

FOREIGN = "foreign"
"""What `runs show` calls them."""
PACE_SECONDS = 1.0
DUTY = 10
"""A look at the cluster is made again after ten times its duration."""
NOTE = "External moves are shown, never changed. The former order of their replicas is unknown."


def own_partitions(cluster_id: str) -> frozenset[TopicPartition]:
    """Return the partitions that runs of this machine have in flight, also runs that died."""
    return frozenset(
        known.state.moves[index].move.tp
        for known in with_throttles(cluster_id)
        for index in known.state.in_flight
    )


def show_external(context: Context, answer: Answer) -> int:
    """Show external moves once."""
    with context.connected() as connection:
        state = fetch_cluster_state(connection.client)
    state.require_known_moves()
    moves = foreign_moves(state, own_partitions(state.cluster_id))
    if answer.as_json or moves:
        answer.write(lambda: _document(state, moves), lambda: _table(moves))
    if not answer.as_json:
        say(NOTE if moves else "No external moves are in flight.")
    return ExitCode.DONE


def follow_external(context: Context, *, as_json: bool) -> int:
    """Follow others' moves until none is in flight; Ctrl-C lets go."""
    watch, previous = ForeignWatch(), ""
    with context.connected() as connection:
        try:
            while True:
                began = time.monotonic()
                state = fetch_cluster_state(connection.client)
                state.require_known_moves()
                mine = own_partitions(state.cluster_id)
                moves = watch.look(state, mine)
                text = _table(moves) if moves else "No external moves are in flight any more.\n"
                if as_json:
                    emit_line(_document(state, moves))
                elif text != previous:
                    if not previous:
                        say(NOTE)
                    print_lines(text.rstrip("\n"))
                previous = text
                if not moves:
                    return ExitCode.DONE
                time.sleep(max(PACE_SECONDS, DUTY * (time.monotonic() - began)))
        except KeyboardInterrupt:
            say("\nThe moves continue; nothing was changed.")
            return DETACHED


def report_external(context: Context, state: ClusterState) -> None:
    """Say how many moves of others' there are, if any."""
    count = len(foreign_moves(state, own_partitions(state.cluster_id)))
    if count:
        moves = f"{counted(count, 'move')} in flight that no run here started"
        name = context.target.name
        where = f"--cluster {name}" if name else "-b …"
        context.say(f"{moves}: trimtab {where} runs show {FOREIGN}")


def _table(moves: Sequence[ForeignMove]) -> str:
    rows = [
        [
            str(m.tp),
            f"{id_list(sorted(m.before))} → {id_list(m.after)}"
            if m.broker is None
            else f"broker {m.broker}: {m.log_dir_before or '?'} → {m.log_dir}",
            f"{format_bytes(m.arrived_bytes)} / {format_bytes(m.total_bytes)}",
            "" if m.bytes_per_s is None else format_rate(m.bytes_per_s),
            "" if m.left_seconds is None else format_duration(m.left_seconds),
            "never ends: it was overridden in place; only a cancel ends it" if m.endless else "",
        ]
        for m in moves
    ]
    header = ["PARTITION", "REPLICAS → TARGET", "ARRIVED", "NOW", "LEFT", ""]
    return text_table(header, rows, right="  >>>")


def _document(state: ClusterState, moves: Sequence[ForeignMove]) -> dict[str, Any]:
    return {
        "cluster_id": state.cluster_id,
        "at": format_time(state.fetched_at),
        "moves": [
            {
                **m.tp._asdict(),
                "before_unordered": sorted(m.before),
                "after": list(m.after),
                "total_bytes": m.total_bytes,
                "moved_bytes": m.arrived_bytes,
                "bytes_per_s": None if m.bytes_per_s is None else round(m.bytes_per_s, 1),
                "left_seconds": None if m.left_seconds is None else round(m.left_seconds, 1),
                "endless": m.endless,
                "broker": m.broker,
                "log_dir_before": m.log_dir_before,
                "log_dir": m.log_dir,
            }
            for m in moves
        ],
    }
