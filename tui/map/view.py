"""The map's view state: zoom, order, filter, cursor, and how keys change them. Pure.

The cursor is kept by name, so that it stays on its topic or partition when rows change places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load
from core.load.view.heat import HeatMap, Metric, Order, PartitionMap, heat_map, partition_map
from core.load.view.totals import BrokerTotals, broker_totals
from core.load.view.verdicts import Verdict, Weight
from tui.screen.text_filter import matches
from tui.session import Highlight


class Zoom(Enum):
    TOPICS = "topics"
    PARTITIONS = "partitions"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True)
class MapView:
    """Zoom, order, filter and cursor."""

    metric: Metric = Metric.IN
    metric_chosen: bool = False
    """Whether the user chose it; until then the map shows leaders while no load is known."""
    order: Order = Order.EXCESS
    filter: str = ""
    topic: str | None = None
    """The topic whose partitions are shown; None shows topics."""
    detail: bool = False
    """Whether the panel shows all of one partition."""
    by_amount: bool = False
    """Colour by amount instead of by deviation from fair share."""
    cursor_topic: str | None = None
    cursor_partition: int | None = None
    broker: int | None = None
    marked: frozenset[TopicPartition] = frozenset()
    highlight: Highlight | None = None
    """What another screen wants to be seen; its topics come first."""

    @property
    def zoom(self) -> Zoom:
        if self.topic is None:
            return Zoom.TOPICS
        return Zoom.PARTITION if self.detail else Zoom.PARTITIONS

    def next_metric(self) -> MapView:
        metrics = list(Metric)
        following = metrics[(metrics.index(self.metric) + 1) % len(metrics)]
        return replace(self, metric=following, metric_chosen=True)

    def next_order(self) -> MapView:
        orders = list(Order)
        return replace(self, order=orders[(orders.index(self.order) + 1) % len(orders)])


@dataclass(frozen=True, eq=False)
class Model:
    """One picture prepared for one view: rows in order, and where the cursor is among them."""

    state: ClusterState
    load: Load
    view: MapView
    totals: BrokerTotals
    heat: HeatMap
    partitions: PartitionMap | None
    rows: tuple[int, ...]
    """Row numbers of `heat`, or of `partitions`, after order and filter."""
    cursor: int
    """Index into `rows`; 0 when there are none."""
    column: int
    """The broker under the cursor, as a column."""

    @property
    def broker(self) -> int:
        return int(self.state.broker_ids[self.column]) if len(self.state.brokers) else -1

    @property
    def topic(self) -> str | None:
        """Return the topic under the cursor, or whose partitions are shown."""
        if self.partitions is not None:
            return self.partitions.topic
        return self.heat.topics[self.rows[self.cursor]] if self.rows else None

    @property
    def no_rows(self) -> str:
        """Say why there are no rows."""
        if not self.state.topics:
            return "no topics yet"
        return "no topic matches" if self.partitions is None else "no partition matches"

    @property
    def partition_row(self) -> int | None:
        """Return the row of the ClusterState under the cursor; None at topic zoom."""
        if self.partitions is None or not self.rows:
            return None
        return int(self.partitions.rows[self.rows[self.cursor]])

    @property
    def tp(self) -> TopicPartition | None:
        row = self.partition_row
        return None if row is None else self.state.tp(row)


def effective_metric(view: MapView, load: Load) -> Metric:
    """Return the metric to show: leaders while no load is known and the user has not chosen."""
    if view.metric_chosen or view.metric not in (Metric.IN, Metric.OUT):
        return view.metric
    return Metric.LEADERS if np.isnan(load.in_bytes_per_s).all() else view.metric


def build_model(
    state: ClusterState, load: Load, view: MapView, previous: Model | None = None
) -> Model:
    """Return the model of a view, whose topic exists; what did not change is from `previous`."""
    view = replace(view, metric=effective_metric(view, load))
    same = previous is not None and previous.state is state and previous.load is load
    if same and previous is not None and previous.view.metric is view.metric:
        heat = previous.heat
    else:
        heat = heat_map(state, load, view.metric)
    totals = previous.totals if same and previous is not None else broker_totals(state, load)
    partitions = None
    if view.topic is not None:
        partitions = partition_map(state, load, view.topic, view.metric, view.order)
        names: Sequence[str] = [f"p{state.partition[row]}" for row in partitions.rows.tolist()]
        order = range(len(names))
    else:
        names = heat.topics
        order = heat.order(view.order).tolist()
    rows = tuple(order)
    if view.filter:
        rows = tuple(row for row in rows if matches(names[row], view.filter))
    if view.highlight is not None and partitions is None:
        highlight = view.highlight.topics
        rows = tuple(sorted(rows, key=lambda row: names[row] not in highlight))
    return Model(
        state=state,
        load=load,
        view=view,
        totals=totals,
        heat=heat,
        partitions=partitions,
        rows=rows,
        cursor=_cursor(state, view, partitions, rows),
        column=_cursor_column(state, view, totals),
    )


def _cursor(
    state: ClusterState,
    view: MapView,
    partitions: PartitionMap | None,
    rows: tuple[int, ...],
) -> int:
    if partitions is not None:
        for at, row in enumerate(rows):
            if state.partition[partitions.rows[row]] == view.cursor_partition:
                return at
        return 0
    at_topic = state.topic_index.get(view.cursor_topic or "")
    return rows.index(at_topic) if at_topic in rows else 0


def _cursor_column(state: ClusterState, view: MapView, totals: BrokerTotals) -> int:
    """Return the cursor's column; at first that of the fullest broker."""
    ids: list[int] = state.broker_ids.tolist()
    if view.broker in ids:
        return ids.index(view.broker)
    values = totals.values[view.metric]
    if not len(values) or np.isnan(values).all():
        return 0
    return int(np.nanargmax(values))


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
    topic, partition = model.topic, model.tp.partition if model.tp else None
    view = replace(view, broker=model.broker, cursor_partition=partition)
    if view.zoom is not Zoom.TOPICS:
        return replace(view, detail=True)
    partition = _hottest_partition(model)
    return replace(view, topic=topic, cursor_topic=topic, cursor_partition=partition, filter="")


def _hottest_partition(model: Model) -> int | None:
    """Return the partition of the cursor's topic that carries most on the cursor's broker."""
    if model.topic is None:
        return None
    view = model.view
    topic_map = partition_map(model.state, model.load, model.topic, view.metric, view.order)
    held = [row for row in topic_map.rows.tolist() if model.broker in model.state.replicas(row)]
    leading = [row for row in held if model.state.leader[row] == model.broker]
    for row in leading or held:
        return int(model.state.partition[row])
    return None


def outward(view: MapView) -> MapView:
    """Return the view one level back: the filter goes first, then marks, then the zoom.

    The cursor stays on its topic.
    """
    if view.filter:
        return replace(view, filter="")
    if view.detail:
        return replace(view, detail=False)
    view = replace(view, cursor_topic=view.topic or view.cursor_topic)
    if view.marked:
        return replace(view, marked=frozenset())
    return replace(view, topic=None, cursor_partition=None)


def with_highlight(view: MapView, highlight: Highlight | None) -> MapView:
    """Return the view with other partitions marked: of topics, the cursor on the first of them."""
    view = replace(view, highlight=highlight)
    if highlight is None:
        return view
    return replace(_all_topics_view(view), cursor_topic=None)


def _all_topics_view(view: MapView) -> MapView:
    """Return the view of all topics, without what was marked or filtered in one."""
    return replace(view, topic=None, detail=False, filter="", marked=frozenset())


def still_there(view: MapView, state: ClusterState) -> MapView:
    """Return the view of all topics where the one that was open does not exist (any more).

    The cursor stays on it: the map may come back from a time before there was such a topic.
    """
    if view.topic is None or view.topic in state.topic_index:
        return view
    return replace(_all_topics_view(view), cursor_topic=view.topic, cursor_partition=None)


def next_trouble(verdicts: Sequence[Verdict], selected: str | None, step: int) -> Verdict | None:
    """Return the trouble after (or before) the selected one, going round; None without any."""
    troubles = [verdict for verdict in verdicts if verdict.weight is not Weight.FINE]
    if not troubles:
        return None
    ids = [verdict.id for verdict in troubles]
    at = ids.index(selected) + step if selected in ids else 0 if step > 0 else -1
    return troubles[at % len(troubles)]


def at_verdict(view: MapView, verdict: Verdict) -> MapView:
    """Return the view of topics on the metric, broker and topic that a verdict names."""
    view = _all_topics_view(view)
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
