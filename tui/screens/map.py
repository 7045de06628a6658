"""The Map: who carries what. Rows are topics or partitions, columns are brokers."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget

from tui.actions import MAP, bindings_of
from tui.screens.base import DashboardScreen
from tui.session import Session
from tui.widgets.canvas import Canvas, Row


class MapScreen(DashboardScreen):
    """Triage at a glance, and manual edits of the plan."""

    PLACE = MAP
    BINDINGS = bindings_of(MAP)

    def compose_body(self) -> Iterable[Widget]:
        yield Canvas(id="map")

    def show_body(self, session: Session) -> None:
        row = Row(self.size.width, self.palette.style())
        if session.state is not None:
            row.put(1, f"{session.state.partition_count} partitions", self.palette.style())
        self.query_one("#map", Canvas).put_rows([row])
