"""The Map: who carries what. Rows are topics or partitions, columns are brokers.

The screen holds a MapView and a Carry, both values; keys and mouse replace them, and every
change draws a Scene. It never asks the cluster; what takes long is worked out in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from textual import events
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget

from core.cluster.state import TopicPartition
from core.load.heat import Metric, partition_map
from core.load.verdicts import Verdict, Weight, verdicts
from core.plan.impact import impact
from core.plan.plan import Plan
from tui.actions import CARRY, MAP, actions_of, bindings_of, keys_of
from tui.carry import Carry, lift
from tui.map_view import MapView, Model, Zoom, build_model
from tui.screens.base import DashboardScreen
from tui.session import Session
from tui.widgets.canvas import Canvas
from tui.widgets.inspector import cell_lines, cell_title
from tui.widgets.map_page import ORDER_WORDS, Places, Scene, columns_of, draw_map, layout_of
from tui.widgets.side_panel import Preview
from tui.widgets.topic_rows import Brush, rack_names

if TYPE_CHECKING:
    from core.plan.estimate import Estimate
    from core.plan.suggest import Suggestion

REST_SECONDS = 0.12
"""How long the cursor must rest before what is slow to work out is worked out."""
TYPING_SECONDS = 1.2
"""Digits typed within this time make one broker id."""


@dataclass
class WorkedOut(Message):
    """A suggestion or a throttle table, worked out in a thread for a key that may be old."""

    key: object
    suggestion: Suggestion | None = None
    estimate: Estimate | None = None
    rates: tuple[Estimate, ...] | None = None


class MapCanvas(Canvas):
    """The map's surface: tells the screen about the mouse."""

    DEFAULT_CSS = "MapCanvas { width: 1fr; height: 1fr; }"

    @property
    def map_screen(self) -> MapScreen:
        screen = self.screen
        assert isinstance(screen, MapScreen)
        return screen

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if self.map_screen.press(event.x, event.y):
            self.capture_mouse()
        event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self.map_screen.hover(event.x)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self.release_mouse()
        self.map_screen.release(event.x, event.y)
        event.stop()

    def on_mouse_release(self, event: events.MouseRelease) -> None:
        self.map_screen.lose_mouse()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.map_screen.scroll_rows(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.map_screen.scroll_rows(-3)


class MapScreen(DashboardScreen):
    """Triage at a glance, and manual edits of the plan."""

    PLACE = MAP
    BINDINGS = [*bindings_of(MAP), *bindings_of(CARRY)]

    def __init__(self) -> None:
        super().__init__()
        self.view = MapView()
        self.carry: Carry | None = None
        self.model: Model | None = None
        self.top = 0
        self._places = Places()
        self.scene: Scene | None = None
        self._verdicts: tuple[Verdict, ...] = ()
        self._verdict_key: object = None
        self._trouble: str | None = None
        self._suggestion: WorkedOut | None = None
        self._rates: WorkedOut | None = None
        self._asked_rates: object = None
        self._asked_tip: object = None
        self._rest: Timer | None = None
        self._filter: str | None = None
        self._typed_at = 0.0

    def compose_body(self) -> Iterable[Widget]:
        yield MapCanvas(id="map")

    # -- drawing ---------------------------------------------------------------------------------

    @property
    def brush(self) -> Brush:
        return Brush(self.palette, self.glyphs, self.trimtab.few_colors)

    def show_body(self, session: Session) -> None:
        canvas = self.query_one(MapCanvas)
        width, height = self.size.width, max(0, self.size.height - 2)
        if session.state is None or session.load is None:
            row = self.brush.row(width)
            row.put(1, f"asking {session.cluster_name} …", self.brush.style("dim"))
            canvas.put_rows([row])
            return
        self.model = model = build_model(session.state, session.load, self.view, self.model)
        if self.carry is not None and not self._still_there(self.carry, session):
            self.carry = None
            self.say("The partition is gone; nothing was changed.", "look")
        layout = layout_of(
            width,
            height,
            model.view.zoom,
            racks=bool(rack_names(model)),
            planned=bool(session.plan.moves),
        )
        self.top = _scrolled(self.top, model.cursor, layout.rows, len(model.rows))
        metadata = session.metadata_age
        stale = session.problem is not None and metadata is not None
        self.scene = Scene(
            model=model,
            layout=layout,
            columns=columns_of(model, layout),
            top=self.top,
            verdicts=self._all_verdicts(session, model),
            selected_verdict=self._trouble,
            suggestion=self._known_suggestion(),
            suggestion_estimate=self._suggestion.estimate if self._suggestion else None,
            preview=self._preview(session),
            carry=self.carry,
            stale=stale,
            editing_filter=self._filter,
        )
        rows, self._places = draw_map(self.scene, self.brush)
        canvas.put_rows(rows)
        self._work_out_soon()

    def _still_there(self, carry: Carry, session: Session) -> bool:
        state = session.state
        return state is not None and all(state.find(tp) is not None for tp in carry.sources)

    def _all_verdicts(self, session: Session, model: Model) -> tuple[Verdict, ...]:
        left = session.run.left_seconds if session.run and not session.run.state.ended else None
        key = (model.state, model.load, round(left) if left is not None else None)
        if key != self._verdict_key:
            self._verdict_key = key
            self._verdicts = verdicts(model.state, model.load, model.totals, left)
        if session.problem is None:
            return self._verdicts
        lost = Verdict("lost", Weight.ACT, session.problem.title, session.problem.title)
        return (lost, *self._verdicts)

    # -- what takes long -------------------------------------------------------------------------

    @property
    def plan_ahead(self) -> Plan:
        """Return the plan, with what is carried dropped where it is."""
        plan, state = self.session.plan, self.session.state
        if self.carry is None or state is None:
            return plan
        return self.carry.dropped(state, plan)

    def _preview(self, session: Session) -> Preview:
        assert session.state is not None
        assert session.load is not None
        plan = self.plan_ahead
        rates: tuple[Estimate, ...] | None = None
        if not plan.moves:
            rates = ()
        elif self._rates is not None and self._rates.key == self._rates_key(plan):
            rates = self._rates.rates
        elif self._rates is not None:
            rates = self._rates.rates if self.carry is not None else None
        effect = impact(session.state, session.load, plan)
        return Preview(plan, effect, rates, session.rate_bytes_per_s)

    def _rates_key(self, plan: Plan) -> object:
        load = self.session.load
        return (plan.moves, load.as_of if load else None)

    def _suggestion_key(self) -> object:
        model, session = self.model, self.session
        if model is None or self.carry is not None:
            return None
        topic = model.topic if model.rows else None
        return (
            model.state.metadata_hash,
            model.load.as_of,
            model.view.metric,
            topic,
            model.broker,
            session.plan.moves,
            session.rate_bytes_per_s,
        )

    def _known_suggestion(self) -> Suggestion | None:
        known = self._suggestion
        if known is None or known.key != self._suggestion_key():
            return None
        return known.suggestion

    def _work_out_soon(self) -> None:
        """Work out what is missing once the cursor rests."""
        plan = self.plan_ahead
        rates_known = not plan.moves or (
            self._rates is not None and self._rates.key == self._rates_key(plan)
        )
        key = self._suggestion_key()
        tip_known = key is None or (self._suggestion is not None and self._suggestion.key == key)
        if self._rest is not None:
            self._rest.stop()
            self._rest = None
        if not (rates_known and tip_known):
            self._rest = self.set_timer(REST_SECONDS, self.work_out)

    @property
    def busy(self) -> bool:
        """Return whether something is still being worked out."""
        waits = self._rest is not None or self._asked_rates is not None
        return waits or self._asked_tip is not None

    def work_out(self) -> None:
        """Work out in threads what is missing: the suggestion here, the plan's throttle table."""
        session, model = self.session, self.model
        if session.state is None or session.load is None or model is None:
            return
        state, load, plan = session.state, session.load, self.plan_ahead
        rates_key, tip_key = self._rates_key(plan), self._suggestion_key()
        if self._rest is not None:
            self._rest.stop()
            self._rest = None
        wanted = plan.moves and (self._rates is None or self._rates.key != rates_key)
        if wanted and self._asked_rates != rates_key:
            self._asked_rates = rates_key

            def rates() -> None:
                from core.plan.estimate import rate_table

                self.post_message(WorkedOut(rates_key, rates=rate_table(state, load, plan)))

            self.run_worker(rates, thread=True, exclusive=True, group="rates")
        known = self._suggestion
        if tip_key is None or (known is not None and known.key == tip_key):
            return
        if self._asked_tip == tip_key:
            return
        self._asked_tip = tip_key
        metric, broker, topic = model.view.metric, model.broker, model.topic
        rate, base = session.rate_bytes_per_s, session.plan

        def tip() -> None:
            from core.plan.estimate import estimate_at
            from core.plan.suggest import suggest_move

            found = suggest_move(state, load, base, metric=metric, broker=broker, topic=topic)
            estimate = None
            if found is not None and not found.only_leader:
                alone = Plan.of([found.plan.by_partition[found.tp]], cluster_id=state.cluster_id)
                estimate = estimate_at(state, load, alone, rate)
            self.post_message(WorkedOut(tip_key, suggestion=found, estimate=estimate))

        self.run_worker(tip, thread=True, exclusive=True, group="tip")

    def on_worked_out(self, message: WorkedOut) -> None:
        """Take an answer, unless something else has been asked meanwhile."""
        if message.rates is not None and message.key == self._asked_rates:
            self._rates, self._asked_rates = message, None
            if self.carry is None:
                from core.plan.estimate import default_rate

                self.session.propose_rate(default_rate(message.rates))
        elif message.rates is None and message.key == self._asked_tip:
            self._suggestion, self._asked_tip = message, None
        else:
            return
        self.show(self.session)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While something is carried, only what carries it works; digits only then."""
        if action == "digit":
            return self.carry is not None
        return self.carry is None or action not in _NOT_WHILE_CARRYING

    # -- moving about ----------------------------------------------------------------------------

    def _look(self, view: MapView) -> None:
        self.view = view
        self._trouble = None
        self.show(self.session)

    def _to_row(self, index: int) -> None:
        model = self.model
        if model is None or not model.rows:
            return
        row = model.rows[max(0, min(index, len(model.rows) - 1))]
        if model.partitions is None:
            self._look(replace(self.view, cursor_topic=model.heat.topics[row]))
        else:
            number = int(model.state.partition[model.partitions.rows[row]])
            self._look(replace(self.view, cursor_partition=number))

    def _to_column(self, column: int) -> None:
        model = self.model
        if model is None or not len(model.state.brokers):
            return
        column = max(0, min(column, len(model.state.brokers) - 1))
        self._look(replace(self.view, broker=int(model.state.broker_ids[column])))

    def _step(self, rows: int) -> None:
        if self.model is not None and self.carry is None:
            self._to_row(self.model.cursor + rows)

    def scroll_rows(self, rows: int) -> None:
        self._step(rows)

    def _page(self) -> int:
        return max(1, self.scene.layout.rows // 2) if self.scene else 10

    def action_up(self) -> None:
        self._step(-1)

    def action_down(self) -> None:
        self._step(1)

    def action_page_up(self) -> None:
        self._step(-self._page())

    def action_page_down(self) -> None:
        self._step(self._page())

    def action_top(self) -> None:
        self._step(-(10**9))

    def action_bottom(self) -> None:
        self._step(10**9)

    def action_left(self) -> None:
        self._sideways(-1)

    def action_right(self) -> None:
        self._sideways(1)

    def _sideways(self, step: int) -> None:
        model = self.model
        if model is None:
            return
        if self.carry is None:
            self._to_column(model.column + step)
            return
        ids = model.state.broker_ids.tolist()
        at = ids.index(self.carry.target) + step
        if 0 <= at < len(ids):
            self._carry_to(ids[at])

    def action_enter(self) -> None:
        if self.carry is not None:
            self.action_drop()
        elif self.model is not None and self.model.rows:
            view = replace(self.view, broker=self.model.broker)
            if view.zoom is Zoom.TOPICS:
                hottest = self._hottest_here(self.model)
                view = replace(view, cursor_topic=self.model.topic, cursor_partition=hottest)
            else:
                tp = self.model.tp
                view = replace(view, cursor_partition=tp.partition if tp else None)
            if view.zoom is Zoom.TOPICS:
                self.top = 0
            self._look(view.zoomed_in())

    def _hottest_here(self, model: Model) -> int | None:
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

    def action_back(self) -> None:
        if self.carry is not None:
            self.action_let_go()
            return
        if self.view.topic is not None and not (self.view.filter or self.view.detail):
            self.view = replace(self.view, cursor_topic=self.view.topic)
        self._look(self.view.zoomed_out())

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
        self._step(1)

    # -- troubles --------------------------------------------------------------------------------

    def action_next_trouble(self) -> None:
        self._next_trouble(1)

    def action_previous_trouble(self) -> None:
        self._next_trouble(-1)

    def _next_trouble(self, step: int) -> None:
        found = [v for v in self._verdicts if v.weight is not Weight.FINE]
        if not found:
            self.say("Nothing is wrong here.", "fine")
            return
        ids = [verdict.id for verdict in found]
        at = ids.index(self._trouble) + step if self._trouble in ids else 0 if step > 0 else -1
        self.go_to(found[at % len(found)])

    def go_to(self, verdict: Verdict) -> None:
        """Show where a verdict comes from."""
        if verdict.id == "moving":
            self.trimtab.action_show_screen("moves")
            return
        view = replace(self.view, topic=None, detail=False, filter="")
        if verdict.metric is not None:
            view = replace(view, metric=verdict.metric, metric_chosen=True)
        if verdict.broker is not None:
            view = replace(view, broker=verdict.broker)
        if verdict.topic is not None:
            view = replace(view, cursor_topic=verdict.topic)
        elif verdict.broker is not None and self.session.state and self.session.load:
            model = build_model(self.session.state, self.session.load, view)
            if model.rows:
                values = model.heat.values[list(model.rows), model.column]
                fair = model.heat.fair[list(model.rows), model.column]
                worst = max(range(len(values)), key=lambda i: (values[i] - fair[i], -i))
                view = replace(view, cursor_topic=model.heat.topics[model.rows[worst]])
        self._look(view)
        self._trouble = verdict.id
        self.show(self.session)

    # -- carrying --------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        return MAP if self.carry is None else CARRY

    def action_grab(self) -> None:
        if self.carry is not None:
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
        self._lift({tp} | self.view.marked, tp, model.broker)

    def _lift(
        self,
        partitions: Iterable[TopicPartition],
        first: TopicPartition,
        broker: int,
        *,
        by_mouse: bool = False,
    ) -> bool:
        session = self.session
        assert session.state is not None
        assert session.load is not None
        others = sorted(set(partitions) - {first})
        carry = lift(
            session.state, session.load, session.plan, [first, *others], broker, by_mouse=by_mouse
        )
        if carry is None:
            self.say(f"Broker {broker} holds no replica of p{first.partition}.")
            return False
        self.carry = carry
        self.view = replace(self.view, broker=broker, cursor_partition=first.partition)
        self.show(session)
        return True

    def _carry_to(self, broker: int) -> None:
        assert self.carry is not None
        if broker == self.carry.target:
            return
        self.carry = self.carry.over(broker)
        self.view = replace(self.view, broker=broker)
        self.hush()
        self.show(self.session)

    def action_digit(self, digit: str) -> None:
        """Carry to the broker whose id is typed; digits within a moment make one id."""
        model = self.model
        if self.carry is None or model is None:
            return
        now = self.trimtab.monotonic()
        typed = self.carry.typed if now - self._typed_at < TYPING_SECONDS else ""
        self._typed_at = now
        ids = set(model.state.broker_ids.tolist())
        for text in (typed + digit, digit):
            if any(str(id).startswith(text) for id in ids):
                self.carry = replace(self.carry, typed=text)
                if int(text) in ids:
                    self._carry_to(int(text))
                return
        self.say(f"There is no broker {typed}{digit}.", "look")

    def action_drop(self) -> None:
        carry, session = self.carry, self.session
        if carry is None or session.state is None:
            return
        finding = carry.finding if carry.moved else None
        if not carry.can_drop:
            assert finding is not None
            self.say(f"Not here: {finding.sentence}", "act")
            return
        plan = carry.dropped(session.state, session.plan)
        self.carry = None
        self.view = replace(self.view, marked=frozenset())
        session.edit(plan)
        self.trimtab.draw()
        if finding is not None:
            self.say(f"In the plan, but: {finding.sentence}", "look")

    def action_let_go(self) -> None:
        """Put everything back; the cursor returns to where it was lifted."""
        if self.carry is None:
            return
        source = self.carry.sources[self.carry.primary]
        self.carry = None
        self.view = replace(self.view, broker=source)
        self.show(self.session)

    # -- the mouse -------------------------------------------------------------------------------

    def press(self, x: int, y: int) -> bool:
        """Take a press of the button; return whether something was picked up."""
        self.hush()
        model, scene = self.model, self.scene
        if model is None or scene is None:
            return False
        if y == 0:
            for placed in self._places.verdicts:
                if placed.start <= x < placed.end:
                    self.go_to(placed.verdict)
            return False
        index = self.top + y - self._places.rows_at
        if not 0 <= y - self._places.rows_at < self._places.rows or index >= len(model.rows):
            return False
        if x >= scene.layout.main or self.carry is not None:
            return False
        column = scene.columns.broker_at(x)
        again = index == model.cursor and (column is None or column == model.column)
        if column is not None:
            self.view = replace(self.view, broker=int(model.state.broker_ids[column]))
        self._to_row(index)
        if model.partitions is None:
            if again:
                self.action_enter()
            return False
        tp = self.model.tp if self.model else None
        if column is None or tp is None:
            return False
        broker = int(model.state.broker_ids[column])
        state = self.session.state
        if state is None or broker not in self.session.plan.target(state, tp):
            return False
        marked = self.view.marked if tp in self.view.marked else frozenset()
        return self._lift({tp} | marked, tp, broker, by_mouse=True)

    def hover(self, x: int) -> None:
        """Carry on while the button is held; only the column matters."""
        if self.carry is None or not self.carry.by_mouse or self.scene is None:
            return
        column = self.scene.columns.broker_at(x)
        if column is not None:
            self._carry_to(int(self.scene.model.state.broker_ids[column]))

    def release(self, x: int, y: int) -> None:
        carry, scene = self.carry, self.scene
        if carry is None or not carry.by_mouse or scene is None:
            return
        inside = (
            scene.columns.broker_at(x) is not None
            and 0 <= y - self._places.rows_at < self._places.rows
        )
        if not inside or not carry.moved:
            self.action_let_go()
        elif carry.can_drop:
            self.action_drop()
        else:
            finding = carry.finding
            self.action_let_go()
            if finding is not None:
                self.say(f"Not there: {finding.sentence}", "act")

    def on_screen_suspend(self) -> None:
        """Another screen is shown: nothing is left hanging in the air."""
        self.action_let_go()

    def lose_mouse(self) -> None:
        """The terminal or another widget took the mouse: what it carried goes back."""
        if self.carry is not None and self.carry.by_mouse:
            self.action_let_go()

    # -- the plan --------------------------------------------------------------------------------

    def action_take_suggestion(self) -> None:
        found = self._known_suggestion()
        if found is None:
            self.say("Nothing to suggest here: this broker is at or below its fair share.")
            return
        self.session.edit(found.plan)
        self.trimtab.draw()
        self.say(f"In the plan: {found.tp} {found.source} to {found.destination}.", "fine")

    def action_prefer(self) -> None:
        model, session = self.model, self.session
        tp = model.tp if model else None
        if model is None or tp is None or session.state is None:
            self.say("Choose a partition first: enter shows them.")
            return
        try:
            session.edit(session.plan.with_leader(session.state, tp, model.broker))
        except ValueError:
            self.say(f"Broker {model.broker} holds no replica of p{tp.partition}.", "look")
            return
        self.trimtab.draw()

    def action_export(self) -> None:
        from tui.screens.plan import export_plan

        export_plan(self)

    def action_apply(self) -> None:
        from tui.screens.apply import open_apply

        open_apply(self)

    def action_undo(self) -> None:
        self.session.history = self.session.history.undone()
        self.trimtab.draw()

    def action_redo(self) -> None:
        self.session.history = self.session.history.redone()
        self.trimtab.draw()

    def copy_text(self) -> str | None:
        """Return the cell under the cursor in words, or the partition's replicas."""
        model = self.model
        if model is None or not model.rows:
            return None
        lines = cell_lines(model, self.glyphs, short=True)
        return cell_title(model) + ": " + "".join(word.text for word in lines[0]).strip()

    def footer_words(self) -> Mapping[str, str]:
        shown = self.model.view.metric if self.model else Metric.IN
        words = {
            "sort": f"sort: {ORDER_WORDS[self.view.order]}",
            "metric": f"metric: {shown.value}",
            "undo": "undo" if self.session.history.undo else "",
            "apply": "apply…" if self.session.plan.moves else "",
            "take_suggestion": "suggest" if self._known_suggestion() else "",
            "enter": "partitions" if self.view.zoom is Zoom.TOPICS else "detail",
        }
        if self.view.zoom is Zoom.PARTITION:
            words["enter"] = ""
        return words

    # -- filtering -------------------------------------------------------------------------------

    def action_filter(self) -> None:
        self._filter = self.view.filter
        self.show(self.session)

    def on_key(self, event: events.Key) -> None:
        """Keys go to the filter while it is being typed.

        It opens here, not through its binding: bindings run later, and the letters of a paste,
        or of a fast hand on a slow line, would be taken for commands before that.
        """
        super().on_key(event)
        if self._filter is None:
            keys = keys_of(_FILTER, self.trimtab.user_keys)
            if event.key in keys and self.carry is None:
                event.stop()
                event.prevent_default()
                self.action_filter()
            return
        match event.key:
            case "enter":
                self._filter = None
            case "escape":
                self._filter = None
                self.view = replace(self.view, filter="")
            case "backspace":
                self._filter = self._filter[:-1]
            case _ if event.is_printable and event.character:
                self._filter += event.character
            case _:
                return
        event.stop()
        event.prevent_default()
        if self._filter is not None:
            self.view = replace(self.view, filter=self._filter)
        self.show(self.session)


_FILTER = next(action for action in actions_of(MAP) if action.id == "filter")
_NOT_WHILE_CARRYING = {action.id for action in actions_of(MAP)} - {
    "left",
    "right",
    "enter",
    "grab",
    "back",
}


def _scrolled(top: int, cursor: int, rows: int, count: int) -> int:
    """Return the first row in sight, moved as little as brings the cursor into sight."""
    top = max(min(top, cursor), cursor - rows + 1)
    return max(0, min(top, count - rows))
