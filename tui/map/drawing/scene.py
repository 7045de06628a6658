"""Scene: what the map is drawn from, and how its blocks share the room there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.load.view.heat import Order
from core.load.view.verdicts import Verdict
from tui.map.drag import Drag
from tui.map.drawing.columns import Columns, partition_columns, topic_columns
from tui.map.drawing.preview import Preview
from tui.map.drawing.topic_rows import Grid
from tui.map.view import Model, Zoom

if TYPE_CHECKING:
    from core.cluster.documents.cluster_document import DocumentGroup
    from core.plan.estimate.estimate import Estimate
    from core.plan.single_move import Suggestion
    from core.run.reporting.views import RunView
    from core.watch.client_health.report import ProbeReport

SIDE = 32
WIDE_SIDE = 46
WIDEST_SIDE = 58
ROOMY = 32
"""Lines from which there is air between the groups."""
COMPACT = 22
MIN_TOTALS = 14
ORDER_WORDS = {
    Order.EXCESS: "excess",
    Order.SKEW: "skew",
    Order.TOTAL: "total",
    Order.NAME: "name",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Which blocks of the map are shown, and how many lines each has. All but `rows` are fixed."""

    width: int
    height: int
    side: int
    racks: bool
    rows: int
    totals: int
    panel: int
    legend: bool
    roomy: bool
    clients: bool = False
    """Whether a line says what clients feel."""

    @property
    def main(self) -> int:
        """Return the width of the map itself."""
        return self.width - self.side

    @property
    def rows_at(self) -> int:
        return 3 if self.racks else 2


def layout_of(width: int, height: int, zoom: Zoom, *, racks: bool, clients: bool = False) -> Layout:
    """Return what fits: below 80×24 the panel goes first, then the totals; a row always stays.

    Beside partitions the panel stands always, so that columns stay where they are when a replica
    is picked up; beside topics on a wide screen, which has the room for plan and run.
    """
    side = 0
    if width >= 170:
        side = WIDEST_SIDE if width >= 190 else WIDE_SIDE
    elif width >= 120 and zoom is not Zoom.TOPICS:
        side = SIDE
    roomy = height >= ROOMY
    racks = racks and roomy
    head = 3 if racks else 2
    totals = 4 if roomy else 3 if height >= MIN_TOTALS else 0
    if zoom is not Zoom.TOPICS and totals:
        totals = 2
    panel = 0
    if height >= COMPACT:
        panel = 3 if roomy else 2
        if zoom is Zoom.PARTITION:
            panel += 3
    legend = roomy
    clients = clients and totals > 0
    gaps = (2 if roomy else 1) * (bool(totals) + bool(panel))
    fixed = head + totals + panel + clients + gaps + 3 * legend
    return Layout(
        width=width,
        height=height,
        side=side,
        racks=racks,
        rows=max(1, height - fixed),
        totals=totals,
        panel=panel,
        legend=legend,
        roomy=roomy,
        clients=clients,
    )


def columns_of(model: Model, layout: Layout, first: int = 0, *, held: bool = False) -> Columns:
    """Return the columns from `first` on, scrolled to the cursor's broker but where `held`."""
    count = len(model.state.brokers)
    if model.partitions is not None:
        columns = partition_columns(layout.main, count)
    else:
        longest = max((len(model.heat.topics[row]) for row in model.rows), default=0)
        columns = topic_columns(layout.main, count, longest)
    columns = columns.starting_at(first)
    return columns if held else columns.showing(model.column)


@dataclass(frozen=True, eq=False, kw_only=True)
class Scene(Grid):
    """Everything that the map is drawn from."""

    layout: Layout
    top: int
    """The first row in sight."""
    verdicts: tuple[Verdict, ...]
    selected_verdict: str | None
    suggestion: Suggestion | None
    suggestion_estimate: Estimate | None
    preview: Preview
    drag: Drag | None
    editing_filter: str | None
    groups: tuple[DocumentGroup, ...] = ()
    run: RunView | None = None
    clients: ProbeReport | None = None
