"""Where the cursor goes on the map: rows, columns, zoom, troubles. Pure: views in, views out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from core.cluster.state import ClusterState
from core.load.view.heat import partition_map
from core.load.view.verdicts import Verdict, Weight
from tui.map_view import Lit, MapView, Model, Zoom


def at_row(view: MapView, model: Model, index: int) -> MapView:
    """Return the view with the cursor on a row, the nearest one when there is no such row."""
    if not model.rows:
        return view
    row = model.rows[max(0, min(index, len(model.rows) - 1))]
    if model.partitions is None:
        return replace(view, cursor_topic=model.heat.topics[row])
    return replace(view, cursor_partition=int(model.state.partition[model.partitions.rows[row]]))


def at_column(view: MapView, model: Model, column: int) -> MapView:
    """Return the view with the cursor on a broker, by column number."""
    if not len(model.state.brokers):
        return view
    column = max(0, min(column, len(model.state.brokers) - 1))
    return replace(view, broker=int(model.state.broker_ids[column]))


def inward(view: MapView, model: Model) -> MapView:
    """Return the view zoomed in where the cursor is: on the cell's hottest partition."""
    view = replace(view, broker=model.broker)
    if view.zoom is Zoom.TOPICS:
        view = replace(view, cursor_topic=model.topic, cursor_partition=_hottest_here(model))
    else:
        view = replace(view, cursor_partition=model.tp.partition if model.tp else None)
    return view.zoomed_in()


def _hottest_here(model: Model) -> int | None:
    """Return the partition of the cursor's topic that carries most on the cursor's broker."""
    if model.topic is None:
        return None
    view = model.view
    found = partition_map(model.state, model.load, model.topic, view.metric, view.order)
    held = [row for row in found.rows.tolist() if model.broker in model.state.replicas(row)]
    led = [row for row in held if model.state.leader[row] == model.broker]
    for row in led or held:
        return int(model.state.partition[row])
    return None


def outward(view: MapView) -> MapView:
    """Return the view zoomed out, or without its filter; the cursor stays on its topic."""
    if view.topic is not None and not (view.filter or view.detail):
        view = replace(view, cursor_topic=view.topic)
    return view.zoomed_out()


def lit_up(view: MapView, lit: Lit | None) -> MapView:
    """Return the view with other partitions marked: of topics, the cursor on the first of them."""
    view = replace(view, lit=lit)
    if lit is None:
        return view
    return replace(_of_topics(view), cursor_topic=None)


def _of_topics(view: MapView) -> MapView:
    """Return the view of all topics, without what was marked or filtered in one."""
    return replace(view, topic=None, detail=False, filter="", marked=frozenset())


def still_there(view: MapView, state: ClusterState) -> MapView:
    """Return the view of all topics where the one that was open does not exist (any more).

    The cursor stays on it: the map may come back from a time before there was such a topic.
    """
    if view.topic is None or view.topic in state.topic_index:
        return view
    return replace(_of_topics(view), cursor_topic=view.topic, cursor_partition=None)


def next_trouble(verdicts: Sequence[Verdict], selected: str | None, step: int) -> Verdict | None:
    """Return the trouble after (or before) the selected one, going round; None without any."""
    found = [verdict for verdict in verdicts if verdict.weight is not Weight.FINE]
    if not found:
        return None
    ids = [verdict.id for verdict in found]
    at = ids.index(selected) + step if selected in ids else 0 if step > 0 else -1
    return found[at % len(found)]


def at_verdict(view: MapView, verdict: Verdict) -> MapView:
    """Return the view of topics on the metric, broker and topic that a verdict names."""
    view = _of_topics(view)
    if verdict.metric is not None:
        view = replace(view, metric=verdict.metric, metric_chosen=True)
    if verdict.broker is not None:
        view = replace(view, broker=verdict.broker)
    if verdict.topic is not None:
        view = replace(view, cursor_topic=verdict.topic)
    return view


def at_worst(view: MapView, model: Model) -> MapView:
    """Return the view with the cursor on the topic that is most above the broker's fair share."""
    if not model.rows:
        return view
    rows = np.array(model.rows)
    over = model.heat.values[rows, model.column] - model.heat.fair[rows, model.column]
    worst = rows[np.argmax(np.nan_to_num(over, nan=-np.inf))]
    return replace(view, cursor_topic=model.heat.topics[worst])


def scrolled(top: int, cursor: int, rows: int, count: int) -> int:
    """Return the first row in sight, moved as little as brings the cursor into sight."""
    top = max(min(top, cursor), cursor - rows + 1)
    return max(0, min(top, count - rows))
