"""The one way to apply a plan: a summary, what must be allowed, and the cluster's name typed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message
from textual.widgets import Button, Input, Label, Static

from core.errors import TrimtabError
from core.load.snapshot import Load
from core.plan.calibration import NOTHING_LEARNED
from core.plan.estimate import Estimate, estimate_sparing
from core.plan.estimate_document import to_json
from core.plan.findings import Finding, Severity
from core.plan.meanwhile import elected, to_elect
from core.plan.plan import Plan
from core.run.limits.bounds import as_keys, usual_bounds
from core.run.limits.pace import Bounds
from core.run.prepare import prepared
from core.run.service import RunOptions, start_run
from core.units import UNLIMITED
from tui.screens.dialog import Words, body, button
from tui.screens.naming import NamingDialog
from tui.screens.ticks import Adapt, Allow, Elect, Spare, Tick
from tui.study import Study, is_refused, study
from tui.widgets.apply_summary import summary_lines

if TYPE_CHECKING:
    from tui.screens.base import DashboardScreen
    from tui.session import Session


SCROLLBAR = 1


def open_apply(screen: DashboardScreen) -> None:
    """Ask whether the session's plan is to be applied; a run that starts is shown on Moves."""
    session = screen.session
    if not session.writable:
        screen.say(f"Read-only: {session.read_only_because}.", "look")
    elif not len(session.plan):
        screen.say("The plan is empty: nothing to apply.")
    elif session.run is not None and not session.run.state.ended:
        screen.say(f"Run {session.run.run} is in progress: wait for its end, or cancel it.", "look")
    elif session.handed is not None:
        screen.say(f"Run {session.handed.run} is just being started with this plan.", "look")
    elif session.state is not None and session.load is not None and session.address is not None:
        title = f"Apply to {session.cluster_name}"

        def started(run: str | None) -> None:
            if run is not None:
                session.hand_over(run)
                screen.trimtab.show_moves(started=run)

        screen.app.push_screen(ApplyDialog(session, Order(session.plan, title)), started)


@dataclass(frozen=True, slots=True)
class Order:
    """A plan to be carried out; with a rate of its own, nothing is proposed over that."""

    plan: Plan
    title: str
    rate_bytes_per_s: int | None = None
    bounds: Bounds | None = None
    """It is to be adapted between these, as it was before."""
    left: tuple[str, ...] = ()
    """What is not in the plan though it was asked for, and why."""
    elect: bool | None = None
    """Whether preferred leaders were elected before; None where the plan is a new one."""


class ApplyDialog(NamingDialog[str | None]):
    """Returns the id of the run that it started, None when nothing was started."""

    DEFAULT_CSS = """
    ApplyDialog #summary { height: auto; }
    ApplyDialog #ticks { margin-top: 1; }
    ApplyDialog #problem { color: $error; }
    """
    BINDINGS: ClassVar = [
        Binding("escape", "leave", "Cancel"),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    class Studied(Message):
        """The plan was studied against the newest picture.

        `bounds` would suit an adaptive rate; `sparing` is with lower rates where they will do.
        """

        def __init__(self, study: Study, bounds: Bounds, sparing: Estimate | None) -> None:
            super().__init__()
            self.study, self.bounds, self.sparing = study, bounds, sparing

    class Started(Message):
        """The run's process stands."""

        def __init__(self, run: str) -> None:
            super().__init__()
            self.run = run

    class NotStarted(Message):
        """Nothing was started, and why."""

        def __init__(self, error: TrimtabError) -> None:
            super().__init__()
            self.error = error

    def __init__(self, session: Session, order: Order) -> None:
        super().__init__()
        self._session, self._order = session, order
        self._state = session.state
        """What the plan is studied against."""
        self._study: Study | None = None
        self._rate = order.rate_bytes_per_s or session.rate_bytes_per_s
        """What is applied: the rate that the summary shows, whatever is proposed meanwhile."""
        self._starting = False
        self._entered = False
        """Enter came before it was known whether this may be applied."""

    def compose(self) -> ComposeResult:
        name = self._session.cluster_name
        return body(
            self._order.title,
            (
                Words(Static(id="summary"), id="about"),
                Words(id="ticks"),
                Label("", id="problem", markup=False),
                Label(f"Type {name} to apply:", classes="dim", markup=False, id="how"),
                Input(compact=True, select_on_focus=False, id="name"),
            ),
            button("cancel", "Cancel"),
            button("apply", "Apply", disabled=True),
        )

    def on_mount(self) -> None:
        self.query_one("#cancel").focus()
        session = self._session
        state, load = self._state, session.load
        assert state is not None
        assert load is not None
        plan, rate, known = self._order.plan, self._rate, session.calibration
        fixed = self._order.rate_bytes_per_s is not None or session.rate_chosen

        def work() -> None:
            bounds = self._order.bounds or usual_bounds(state, load, plan, rate)
            found = study(state, load, plan, rate, None, known)
            plain = found.estimate((not fixed and found.default_rate_bytes_per_s) or rate)
            learned = known or NOTHING_LEARNED
            sparing = plain and estimate_sparing(state, load, plan, plain, calibration=learned)
            self.post_message(self.Studied(found, bounds, sparing))

        self.run_worker(work, thread=True, group="study")
        self._draw()

    async def on_apply_dialog_studied(self, message: Studied) -> None:
        self._study = message.study
        if self._order.rate_bytes_per_s is None:
            self._session.take_study(message.study)
            self._rate = self._session.rate_bytes_per_s
        ticks: list[Tick] = []
        if any(move.receiving for move in self._order.plan):
            adapt = Adapt(message.bounds)
            adapt.ticked = self._order.bounds is not None
            ticks.append(adapt)
        sparing = message.sparing
        if sparing is not None and sparing.rate_bytes_per_s == self._rate:
            ticks.append(Spare(sparing))
        ticks += self._elections()
        unsafe: dict[str, Finding] = {}
        for finding in message.study.findings_at(self._rate):
            if finding.severity is Severity.UNSAFE:
                unsafe.setdefault(finding.id, finding)
        ticks += [Allow(finding) for finding in unsafe.values()]
        await self.query_one("#ticks").mount_all(ticks)
        self._say_how()
        self._draw()

    def _elections(self) -> list[Tick]:
        """Return the box for electing leaders, where some are to change by that only, or did."""
        state, plan, asked = self._state, self._order.plan, self._order.elect
        if state is None or not (to_elect(state, plan) or (asked and elected(state, plan))):
            return []
        return [Elect(elected(state, plan), ticked=asked is not False)]

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        lines = summary_lines(
            self._state,
            self._order.plan,
            self._study,
            self._expected,
            self.width - SCROLLBAR,
            bounds=self._bounds,
            left=self._order.left,
            elects=self._elects,
        )
        self.put("#summary", lines)
        self.query_one("#ticks").display = bool(self.query(Tick))
        self.share_height()
        self._enable()

    def share_height(self) -> None:
        """Have summary and ticks scroll rather than push the name and the buttons out of sight."""
        ticks = self.lines(self.query(Tick), self.width - SCROLLBAR)
        gap = 1 if ticks else 0
        ticks = min(ticks, max(self.room // 2, 1))
        self.query_one("#ticks").styles.max_height = ticks
        self.query_one("#about").styles.max_height = max(self.room - ticks - gap, 1)

    # -- how fast, and may it be applied -----------------------------------------------------------

    @property
    def _bounds(self) -> Bounds | None:
        """Return what the rate is to adapt itself between, None for a fixed one."""
        return next((adapt.bounds for adapt in self.query(Adapt) if adapt.ticked), None)

    @property
    def _sparing(self) -> Estimate | None:
        """Return the estimate with lower rates of some sides, None where all get the same."""
        return next((spare.estimate for spare in self.query(Spare) if spare.ticked), None)

    @property
    def _elects(self) -> bool:
        return any(elect.ticked for elect in self.query(Elect))

    @property
    def _expected(self) -> int:
        """Return the rate to reckon with."""
        bounds = self._bounds
        if bounds is None:
            return self._rate
        most = bounds.most_bytes_per_s
        rate = most if self._rate == UNLIMITED else self._rate
        return min(max(rate, bounds.least_bytes_per_s), most)

    @property
    def _allowed(self) -> frozenset[str]:
        return frozenset(allow.finding.id for allow in self.query(Allow) if allow.allowed)

    def _enable(self) -> None:
        typed = self.typed == self._session.cluster_name
        clear = self._study is not None and not is_refused(
            self._study.findings_at(self._expected), self._allowed
        )
        button = self.query_one("#apply", Button)
        button.disabled = not (typed and clear) or self._starting
        if self._entered and not button.disabled:
            self._entered = False
            button.focus()

    def on_input_changed(self) -> None:
        self._entered = False
        self._enable()

    def on_descendant_focus(self) -> None:
        self._say_how()

    def _say_how(self) -> None:
        """Say what the next key does: where the focus is is no more than a shade elsewhere."""
        how = f"Type {self._session.cluster_name} to apply:"
        if self.query(Tick):
            how = f"Type {self._session.cluster_name} to apply; up and space tick a box:"
        if self.query_one("#apply").has_focus:
            how = "Enter applies it, esc leaves everything as it is:"
        self.query_one("#how", Label).update(how)
        self.share_height()

    def on_tick_turned(self, message: Tick.Turned) -> None:
        if message.tick.ticked and isinstance(message.tick, Adapt | Spare):
            for other in self.query(Tick):  # a rate that adapts itself is each broker's own
                if isinstance(other, Adapt | Spare) and other is not message.tick:
                    other.turn(False)
        self._draw()

    def on_input_submitted(self) -> None:
        """Enter after the name goes to the button, or will; applying takes one more key."""
        self._entered = True
        self._enable()

    # -- leaving ---------------------------------------------------------------------------------

    def action_leave(self) -> None:
        if not self._starting:
            self.dismiss(None)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "apply":
            self._apply()
        else:
            self.action_leave()

    def _apply(self) -> None:
        session, found = self._session, self._study
        if session.state is None or session.address is None or found is None or self._starting:
            return
        self._starting = True
        self._say_problem("starting")
        address, state, plan = session.address, session.state, self._order.plan
        load = session.load or Load.unknown(state)
        options = RunOptions(
            rate_bytes_per_s=self._expected,
            cluster_name=session.cluster_name,
            allow=self._allowed,
            apart={} if self._sparing is None else as_keys(self._sparing.apart),
            auto=self._bounds,
            elect=self._elects,
        )
        estimate = self._sparing or found.estimate(self._expected)
        document = None if estimate is None else to_json(estimate)

        def work() -> None:
            try:
                ready = prepared(options, state, load, plan)
                run = start_run(address, state.cluster_id, plan, ready, document)
            except TrimtabError as error:
                self.post_message(self.NotStarted(error))
            else:
                self.post_message(self.Started(run))

        self.run_worker(work, thread=True, group="start")

    def on_apply_dialog_started(self, message: Started) -> None:
        self.dismiss(message.run)

    def on_apply_dialog_not_started(self, message: NotStarted) -> None:
        self._starting = False
        self._say_problem(str(message.error))

    def _say_problem(self, text: str) -> None:
        self.query_one("#problem", Label).update(text)
        self.share_height()
        self._enable()
