"""The inspector: explains the cell, its hottest partitions, and one thing to try."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from core.load.view.heat import Metric, ReplicaRole, partition_values, replica_roles
from core.units import counted, format_bytes, format_duration, format_rate
from tui.drawing.spans import Line, Span, Tone, bright, dim, plain
from tui.map.view import Model
from tui.theming import Glyphs

if TYPE_CHECKING:
    from core.plan.estimate.estimate import Estimate
    from core.plan.single_move import Suggestion

HOTTEST = 3
ROLES = {
    ReplicaRole.LEADER: ("●", Tone.YOURS),
    ReplicaRole.FOLLOWER: ("○", Tone.PLAIN),
    ReplicaRole.OUT_OF_SYNC: ("!", Tone.ACT),
    ReplicaRole.ARRIVING: ("▸", Tone.YOURS),
    ReplicaRole.LEAVING: ("◂", Tone.DIM),
    ReplicaRole.NONE: ("·", Tone.DIM),
}
"""How replicas are drawn, by what they are."""


def cell_title(model: Model) -> str:
    if model.topic is None:
        return ""
    tp = model.tp
    if tp is not None:
        return f"{tp.topic} p{tp.partition}"
    return f"{model.topic} on broker {model.broker}"


def cell_lines(model: Model, glyphs: Glyphs, *, short: bool) -> list[Line]:
    """Return what is in the cell under the cursor, and its hottest partitions."""
    if model.partition_row is not None:
        return partition_lines(model, model.partition_row, glyphs)
    if model.topic is None or not model.rows:
        return [(dim(model.no_rows),)]
    state, heat = model.state, model.heat
    at_row, column = model.rows[model.cursor], model.column
    span = state.partitions_of(model.topic)
    mine = slice(int(state.replica_start[span.start]), int(state.replica_start[span.stop]))
    here = state.replica_broker[mine] == model.broker
    leaders = int(np.count_nonzero(state.leader[span.start : span.stop] == model.broker))
    replicas = int(np.count_nonzero(here))
    in_sync = int(np.count_nonzero(state.in_sync[mine][here]))
    sizes = state.size_bytes[mine][here]
    size = float(sizes[sizes >= 0].sum()) if (sizes >= 0).any() else math.nan
    dot = f" {glyphs.dot} "
    counts = [
        plain(f"{counted(leaders, 'leader')}{dot}{counted(replicas, 'replica')}{dot}"),
        Span(
            f"{in_sync} in sync",
            Tone.PLAIN if in_sync == replicas else Tone.ACT,
            in_sync != replicas,
        ),
    ]
    value, fair = float(heat.values[at_row, column]), float(heat.fair[at_row, column])
    metric = heat.metric
    if metric.unit:
        word = {"in": "in", "out": "out", "size": "on disk"}[metric.value]
        amount = f"{format_bytes(value, unit=metric.unit)} {word}"
        share = f" (fair share {format_bytes(fair, unit=metric.unit)})"
    else:
        amount = counted(round(value), metric.value.removesuffix("s"))
        share = f" (fair share {fair:.1f})"
    gap = dot if short else "      "
    facts = [
        plain(gap),
        Span(amount, Tone.BRIGHT if heat.level[at_row, column] > 1 else Tone.PLAIN),
    ]
    facts.append(dim(share if not short else share.replace("share ", "")))
    if metric is not Metric.SIZE and not short and not math.isnan(size):
        facts += [plain(gap), plain(format_bytes(size))]
    words = [dim("hottest  ")]
    for name, what, _ in hottest(model, 0 if short else HOTTEST):
        words += [bright(f"{name} "), Span(f"{what.text}   ", what.tone)]
    return [(*counts, *facts), *([tuple(words)] if len(words) > 1 else [])]


def hottest(model: Model, count: int) -> list[tuple[str, Span, str]]:
    """Return name, mark with rate (or lag), and size of the cell's partitions, worst first."""
    state, topic = model.state, model.topic
    assert topic is not None
    span = state.partitions_of(topic)
    metric = model.view.metric
    if metric in (Metric.LEADERS, Metric.REPLICAS):
        metric = Metric.IN if not np.isnan(model.load.in_bytes_per_s).all() else Metric.SIZE
    values = partition_values(state, model.load, metric)
    held = [row for row in span if model.broker in state.replicas(row)]
    replicas = [(row, replica_roles(state, row)[model.broker]) for row in held]
    if metric.of_leaders:
        # A follower carries nothing of it: those that lead come first, laggards are news anyway.
        replicas = [f for f in replicas if f[1] in (ReplicaRole.LEADER, ReplicaRole.OUT_OF_SYNC)]
    replicas.sort(
        key=lambda f: (f[1] is not ReplicaRole.OUT_OF_SYNC, -np.nan_to_num(values[f[0]]), f[0])
    )
    rows: list[tuple[str, Span, str]] = []
    for row, role in replicas[:count]:
        if role is ReplicaRole.OUT_OF_SYNC:
            at = state.replica_slice(row)
            lag = int(state.lag[at][state.replica_broker[at] == model.broker][0])
            behind = f"{lag:,} behind" if lag > 0 else "out of sync"
            what = Span(f"! {behind}", Tone.ACT)
        else:
            mark = "●" if role is ReplicaRole.LEADER else "○"
            text = format_bytes(float(values[row]), unit=metric.unit or "B/s")
            what = Span(f"{mark} {text}", Tone.LOOK if role is ReplicaRole.LEADER else Tone.PLAIN)
        size = float(state.partition_size_bytes[row])
        rows.append((f"p{state.partition[row]}", what, format_bytes(size) if size >= 0 else "?"))
    return rows


def partition_lines(model: Model, row: int, glyphs: Glyphs) -> list[Line]:
    """Return one partition's replicas with their places, sizes and lags."""
    state = model.state
    at = state.replica_slice(row)
    held = replica_roles(state, row)
    dot = f" {glyphs.dot} "
    topic = state.topics[int(state.topic_of[row])]
    size = float(state.partition_size_bytes[row])
    rate = float(model.load.in_bytes_per_s[row])
    facts = [
        Span(f"leader {int(state.leader[row]) if state.leader[row] >= 0 else 'none'}", Tone.BRIGHT),
        plain(f"{dot}{counted(len(held), 'replica')}"),
        plain(f"{dot}{format_rate(None if math.isnan(rate) else rate)} in"),
        plain(f"{dot}{format_bytes(size if size >= 0 else None)}"),
    ]
    if topic.min_insync is not None:
        facts.append(dim(f"{dot}min.insync {topic.min_insync}"))
    lines: list[Line] = [tuple(facts)]
    words: list[Span] = [dim("replicas  ")]
    for replica, broker in enumerate(state.replica_broker[at].tolist(), at.start):
        role = held[broker]
        mark, tone = ROLES[role]
        words.append(Span(f"{mark} b{broker}", tone, role is ReplicaRole.LEADER))
        lag, own = int(state.lag[replica]), int(state.size_bytes[replica])
        if role in (ReplicaRole.OUT_OF_SYNC, ReplicaRole.ARRIVING):
            behind = f"{lag:,} behind" if lag > 0 else role.value
            words.append(Span(f" {format_bytes(own if own >= 0 else None)}, {behind}", tone))
        words.append(plain("   "))
    lines.append(tuple(words))
    return lines


def replica_details(model: Model, row: int, width: int) -> list[Line]:
    """Return one line a replica: broker, rack, size, lag, log dir (its end: there they differ)."""
    state = model.state
    at = state.replica_slice(row)
    held = replica_roles(state, row)
    lines: list[Line] = []
    for replica, broker in enumerate(state.replica_broker[at].tolist(), at.start):
        known = state.broker_by_id.get(broker)
        place = int(state.log_dir[replica])
        path = state.log_dir_paths[place] if place >= 0 else "log dir ?"
        size, lag = int(state.size_bytes[replica]), int(state.lag[replica])
        role = held[broker]
        words = (
            bright(f"b{broker:<5}"),
            Span(f"{role.value:<12}", Tone.ACT if role is ReplicaRole.OUT_OF_SYNC else Tone.PLAIN),
            dim(f"rack {(known.rack if known else None) or '?':<8}"),
            plain(f"{format_bytes(size if size >= 0 else None):>8}  "),
            dim(f"lag {lag if lag >= 0 else '?'}  "),
        )
        room = max(0, width - sum(len(word.text) for word in words))
        if len(path) > room:
            path = ("…" + path[len(path) - room + 1 :])[:room]
        lines.append((*words, dim(path)))
    return lines


def suggestion_line(
    suggestion: Suggestion | None, estimate: Estimate | None, *, short: bool
) -> Line:
    """Return the one thing to try: effect, bytes, time."""
    if suggestion is None:
        return ()
    unit = suggestion.metric.unit
    before, after = _format_pair(suggestion.before, suggestion.after, unit)
    move = f"p{suggestion.tp.partition} → {suggestion.destination}"
    if suggestion.only_leader:
        move = f"p{suggestion.tp.partition} led by {suggestion.destination}"
    digits = 1 if f"{suggestion.skew_before:.1f}" != f"{suggestion.skew_after:.1f}" else 2
    old_skew, other = f"{suggestion.skew_before:.{digits}f}", f"{suggestion.skew_after:.{digits}f}"
    skew = f"skew {old_skew}× → {other}×"
    cost = "no data moves" if suggestion.only_leader else format_bytes(suggestion.bytes)
    if estimate is not None and not suggestion.only_leader:
        if estimate.never is not None:
            cost += f", never at {format_rate(estimate.rate_bytes_per_s)}"
        elif estimate.seconds is not None:
            cost += (
                f", {format_duration(estimate.seconds)} at {format_rate(estimate.rate_bytes_per_s)}"
            )
    label = "try  " if short else "try      "
    if short:
        text = f"  b{suggestion.source} {before} → {after}, {cost}"
    else:
        text = f"  takes b{suggestion.source} from {before} to {after}, {skew}, {cost}"
    return (dim(label), Span(move, Tone.YOURS, True), plain(text))


def _format_pair(before: float, after: float, unit: str) -> tuple[str, str]:
    """Return two amounts in one unit, which is written once."""
    if not unit:
        return f"{before:.0f}", f"{after:.0f}"
    old_text, other = format_bytes(before, unit=unit), format_bytes(after, unit=unit)
    if old_text == other:
        # Too small a step to be seen in rounded numbers: say one digit more.
        scale = 1e9 if before >= 1e9 else 1e6 if before >= 1e6 else 1e3
        prefix = {1e9: "G", 1e6: "M", 1e3: "k"}[scale]
        return f"{before / scale:.1f}", f"{after / scale:.1f} {prefix}{unit}"
    if old_text.split(" ")[-1] == other.split(" ")[-1]:
        old_text = old_text.split(" ")[0]
    return old_text, other
