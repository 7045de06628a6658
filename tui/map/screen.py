"""The Map: who carries what. Rows are topics or partitions, columns are brokers.

The screen holds a MapView and what the hands carry, both values; keys and mouse replace them, and
every change draws a Scene. It never asks the cluster; what takes long is worked out ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from textual import events
from textual.widget import Widget

from core.load.view.heat import Metric
from core.load.view.verdicts import Verdict
from tui.actions.action import CARRY, MAP, PAST_MAP
from tui.actions.table import actions_of, bindings_of
from tui.drawing.spans import text_of
from tui.map.drag import Drag
from tui.map.drag_controller import DragController, MapCanvas
from tui.map.drawing.inspector import cell_lines, cell_title
from tui.map.drawing.page import Places, draw_map
from tui.map.drawing.scene import ORDER_WORDS, Scene, columns_of, layout_of
from tui.map.drawing.topic_rows import Brush, rack_names
from tui.map.estimates import MapEstimates
from tui.map.first_line import MapVerdicts, nothing_wrong
from tui.map.view import (
    MapView,
    Model,
    Zoom,
    at_column,
    at_row,
    at_verdict,
    at_worst,
    build_model,
    inward,
    outward,
    scrolled,
    still_there,
    with_highlight,
)
from tui.past.screen import PastScreen
from tui.plan.editing import PlanEditing
from tui.screen.list_screen import CursorKeys, Filtering
from tui.session import Session


class MapScreen(CursorKeys, PastScreen, Filtering, PlanEditing):
    """Triage at a glance, and manual edits of the plan."""

    PLACE = MAP
    BINDINGS = bindings_of(MAP, CARRY, PAST_MAP)
    EDITS = frozenset(
        ("grab", "take_suggestion", "mark", "prefer", "undo", "redo", "export", "apply")
    )

    def __init__(self) -> None:
        super().__init__()
        self.view = MapView()
        self.model: Model | None = None
        self.scene: Scene | None = None
        self.top = self.first = 0
        """The first row, and the first broker by column, in sight."""
        self.places = Places()
        self.drag_controller = DragController(self)
        self.estimates = MapEstimates(self, lambda: self.model, lambda: self.drag)
        self.troubles = MapVerdicts()

    def compose_body(self) -> Iterable[Widget]:
        yield from super().compose_body()
        yield MapCanvas(self.drag_controller)

    @property
    def drag(self) -> Drag | None:
        return self.drag_controller.drag

    @property
    def place(self) -> str:
        if self.then is not None:
            return PAST_MAP
        return MAP if self.drag is None else CARRY

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While something is carried, only what carries it works; digits only then."""
        if action == "digit":
            return self.drag is not None
        if self.drag is not None and action in _NOT_WHILE_CARRYING:
            return False
        return super().check_action(action, parameters)

    # -- drawing ---------------------------------------------------------------------------------

    @property
    def brush(self) -> Brush:
        return Brush(self.palette, self.glyphs, self.dashboard.few_colors)

    def show_body(self, session: Session) -> None:
        canvas = self.query_one(MapCanvas)
        past = self.then is not None
        width, height = self.size.width, max(0, self.size.height - 2 - past)
        if session.state is None or session.load is None:
            row = self.brush.row(width)
            row.put(1, f"asking {session.cluster_name} …", self.brush.style("dim"))
            canvas.put_rows([row])
            return
        if self.view.highlight is not session.highlight:
            self.view, self.top = with_highlight(self.view, session.highlight), 0
        if self.view is not (view := still_there(self.view, session.state)):
            self.view, self.typing = view, False
        self.drag_controller.check(session)
        self.model = model = build_model(session.state, session.load, self.view, self.model)
        session.cursor_at = (model.broker, model.topic if model.rows else None)
        clients = None if past else session.clients
        layout = layout_of(
            width,
            height,
            model.view.zoom,
            racks=bool(rack_names(model)),
            clients=clients is not None,
        )
        self.top = scrolled(self.top, model.cursor, layout.rows, len(model.rows))
        dragging = self.drag is not None and self.drag.by_mouse
        columns = columns_of(model, layout, self.first, held=dragging)
        self.first = columns.first
        self.scene = Scene(
            model=model,
            columns=columns,
            brush=self.brush,
            layout=layout,
            top=self.top,
            verdicts=self.troubles.of(session, model),
            selected_verdict=self.troubles.selected,
            suggestion=None if past else self.estimates.suggestion,
            suggestion_estimate=self.estimates.suggestion_estimate,
            preview=self.estimates.preview,
            drag=self.drag,
            stale=session.lost_since is not None,
            editing_filter=self.view.filter if self.typing else None,
            groups=session.groups or (),
            run=session.run,
            clients=clients,
        )
        rows, self.places = draw_map(self.scene)
        canvas.put_rows(rows)
        if not past:
            self.estimates.compute_soon()

    def footer_words(self) -> Mapping[str, str]:
        shown = self.model.view.metric if self.model else Metric.IN
        enter = {Zoom.TOPICS: "partitions", Zoom.PARTITIONS: "detail", Zoom.PARTITION: ""}
        return {
            **(self.past_words() if self.then else {"earlier": "", "ten_earlier": ""}),
            "sort": f"sort: {ORDER_WORDS[self.view.order]}",
            "metric": f"metric: {shown.value}",
            "undo": "undo" if self.session.history.undo else "",
            "apply": "apply…" if self.session.plan.moves else "",
            "take_suggestion": "suggest" if self.estimates.suggestion else "",
            "enter": enter[self.view.zoom],
        }

    @property
    def busy(self) -> bool:
        """Return whether something is still being worked out."""
        return self.estimates.busy

    # -- moving about ----------------------------------------------------------------------------

    def _look(self, view: MapView) -> None:
        self.view = view
        self.troubles.selected = None
        self.show(self.session)

    def to_row(self, index: int) -> None:
        if self.model is not None:
            self._look(at_row(self.view, self.model, index))

    def go_to(self, verdict: Verdict) -> None:
        """Show where a trouble comes from."""
        session = self.session
        if verdict.id == "moving":
            self.dashboard.show_moves()
        elif session.state is not None and session.load is not None:
            view = at_verdict(self.view, verdict)
            if verdict.broker is not None and verdict.topic is None:
                # Kept, so that drawing it does not build it once more.
                self.model = build_model(session.state, session.load, view, self.model)
                view = at_worst(view, self.model)
            self.view, self.troubles.selected = view, verdict.id
            self.show(session)
            if verdict.id == "hidden" and session.state.hidden is not None:
                self.say(session.state.hidden.advice)

    @property
    def page(self) -> int:
        return max(1, self.scene.layout.rows // 2) if self.scene else super().page

    def step(self, rows: int) -> None:
        """Move the cursor by rows; while something is carried it stays in its own."""
        if self.model is not None and self.drag is None:
            self.to_row(self.model.cursor + rows)

    def action_left(self) -> None:
        self._move_sideways(-1)

    def action_right(self) -> None:
        self._move_sideways(1)

    def _move_sideways(self, step: int) -> None:
        if self.model is None:
            return
        if self.drag is None:
            self._look(at_column(self.view, self.model, self.model.column + step))
        else:
            self.drag_controller.sideways(self.model.state.broker_ids.tolist(), step)

    def action_enter(self) -> None:
        if self.drag is not None:
            self.action_drop()
        elif self.model is not None and self.model.rows:
            if self.view.zoom is Zoom.TOPICS:
                self.top = 0
            self._look(inward(self.view, self.model))

    def action_back(self) -> None:
        if self.drag is not None:
            self.action_let_go()
        elif self.view.highlight is not None and outward(self.view) == self.view:
            self.dashboard.session.highlight = self.session.highlight = None
            self.show(self.session)
        elif self.then is not None and outward(self.view) == self.view:
            self.action_now()
        else:
            self._look(outward(self.view))

    def action_sort(self) -> None:
        self._look(self.view.next_order())
        self.say(f"Sorted by {ORDER_WORDS[self.view.order]}.")

    def action_metric(self) -> None:
        shown = self.model.view.metric if self.model else self.view.metric
        self._look(replace(self.view, metric=shown).next_metric())

    def action_colors(self) -> None:
        self._look(replace(self.view, by_amount=not self.view.by_amount))

    def action_mark(self) -> None:
        tp = self.model.tp if self.model else None
        if tp is None:
            self.say("Marks are for partitions: enter shows them.")
            return
        self._look(replace(self.view, marked=self.view.marked ^ {tp}))
        self.step(1)

    def action_next_trouble(self) -> None:
        self._go_on(1)

    def action_previous_trouble(self) -> None:
        self._go_on(-1)

    def _go_on(self, step: int) -> None:
        if (verdict := self.troubles.next(step)) is None:
            self.say(*nothing_wrong(self.session))
        else:
            self.go_to(verdict)

    # -- carrying --------------------------------------------------------------------------------

    def action_grab(self) -> None:
        if self.drag is not None:
            self.action_drop()
            return
        model = self.model
        if model is None or not model.rows:
            return
        if model.partitions is None:
            # A topic has many replicas on a broker: show them, the hottest is under the cursor.
            self.action_enter()
            return
        tp = model.tp
        assert tp is not None
        self.drag_controller.pick_up({tp} | self.view.marked, tp, model.broker)

    def action_digit(self, digit: str) -> None:
        self.drag_controller.type_digit(digit)

    def action_drop(self) -> None:
        self.drag_controller.drop()

    def action_let_go(self) -> None:
        self.drag_controller.let_go()

    def on_screen_suspend(self) -> None:
        """Another screen is shown: nothing is left hanging in the air."""
        self.drag_controller.let_go()

    # -- the plan --------------------------------------------------------------------------------

    def action_take_suggestion(self) -> None:
        suggestion = self.estimates.suggestion
        if self.view.filter and self.model is not None and not self.model.rows:
            self.say(f"{self.model.no_rows.capitalize()}: esc drops the filter.")
            return
        if suggestion is None:
            self.say(self.estimates.why_none)
            return
        self.session.edit(suggestion.plan)
        self.dashboard.draw()
        self.say(
            f"In the plan: {suggestion.tp} {suggestion.source} to {suggestion.destination}.", "fine"
        )

    def action_prefer(self) -> None:
        model, session = self.model, self.session
        if self.drag is not None:
            self.drag_controller.lead()
            return
        tp = model.tp if model else None
        if model is None or tp is None or session.state is None:
            self.say("Choose a partition first: enter shows them.")
            return
        try:
            session.edit(session.plan.with_leader(session.state, tp, model.broker))
        except ValueError:
            self.say(f"Broker {model.broker} holds no replica of p{tp.partition}.", "look")
            return
        self.dashboard.draw()

    def copy_text(self) -> str | None:
        """Return the cell under the cursor in words, or the partition's replicas."""
        model = self.model
        if model is None or not model.rows:
            return None
        lines = cell_lines(model, self.glyphs, short=True)
        return f"{cell_title(model)}: {text_of(lines[0]).strip()}"

    @property
    def words(self) -> str:
        return self.view.filter

    @property
    def can_filter(self) -> bool:
        return self.drag is None

    def filter_by(self, words: str) -> None:
        self.view = replace(self.view, filter=words)
        self.show(self.session)

    def on_key(self, event: events.Key) -> None:
        """Refuse what would edit the past; Textual hands all other keys on to Filtering."""
        if not self.typing and self.refuses(event.key):
            event.stop()
            event.prevent_default()


_NOT_WHILE_CARRYING = {action.id for action in actions_of(MAP)} - {
    "left",
    "right",
    "enter",
    "grab",
    "back",
    "prefer",
}
