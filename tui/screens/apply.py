"""The one way to apply a plan: a summary, what must be allowed, and the cluster's name typed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message
from textual.widgets import Button, Input, Label, Static

from core.errors import TrimtabError
from core.plan.calibration import NOTHING_LEARNED
from core.plan.estimate import Estimate, at_rate, estimate_sparing
from core.plan.estimate_document import to_json
from core.plan.findings import Finding, Severity
from core.plan.meanwhile import elected, to_elect
from core.plan.plan import Plan
from core.plan.spread import Task
from core.run.limits.bounds import as_keys, usual_bounds
from core.run.limits.pace import Bounds
from core.run.prepare import prepared
from core.run.service import RunOptions, start_run
from core.units import UNLIMITED
from tui.changed import Picture, Read, alive, changed, is_alike, worse
from tui.screens.dialog import Words, body, button
from tui.screens.naming import NamingDialog
from tui.screens.studying import Studying
from tui.screens.ticks import Adapt, Allow, Elect, Spare, Tick
from tui.study import Study, is_refused, study
from tui.widgets.apply_summary import summary_lines
from tui.widgets.lines import Lines

if TYPE_CHECKING:
    from tui.screens.base import DashboardScreen
    from tui.session import Session
    from tui.shown_on import Dashboard


SCROLLBAR = 1
REST_SECONDS = 1.0
"""How long an open dialog rests after a study, where that took less than a quarter of it."""


def why_not(session: Session) -> str:
    """Return why nothing can be applied to the session's cluster just now, "" where it can."""
    run = session.run
    if not session.writable:
        return f"Read-only: {session.read_only_because}."
    if run is not None and not run.state.ended:
        return f"Run {run.run} is in progress: wait for its end, or cancel it."
    if session.handed is not None:
        return f"Run {session.handed.run} is just being started with the plan."
    if session.problem is not None:
        return f"{session.cluster_name} does not answer: {session.problem.title}"
    return ""


def open_apply(screen: DashboardScreen) -> None:
    """Ask whether the session's plan is to be applied; a run that starts is shown on Moves."""
    session = screen.session
    if not session.writable:
        screen.say(why_not(session), "look")
    elif not len(session.plan):
        screen.say("The plan is empty: nothing to apply.")
    elif why := why_not(session):
        screen.say(why, "look")
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
        """The plan was studied against a picture.

        `bounds` would suit an adaptive rate; `sparing` is with lower rates where they will do.
        """

        def __init__(
            self,
            picture: Picture,
            study: Study,
            bounds: Bounds,
            sparing: Estimate | None,
        ) -> None:
            super().__init__()
            self.picture, self.study, self.bounds, self.sparing = picture, study, bounds, sparing

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
        self._studying = Studying(self, rest_seconds=REST_SECONDS)
        self._looked_at: Picture | None = None
        """The picture that was last asked to be studied."""
        self._state, self._load = session.state, session.load
        """What the newest study is of."""
        self._study: Study | None = None
        self._studied: ApplyDialog.Studied | None = None
        self._first: Read | None = None
        """What was read as it was opened."""
        self._drawn: Lines = ()
        self._blocked = ""
        """Why nothing can be applied just now, whatever the plan."""
        self._rate = order.rate_bytes_per_s or session.rate_bytes_per_s
        """What is applied: the rate that the summary shows, whatever is proposed meanwhile."""
        self._starting = False
        self._pressed: Read | None = None
        """What was shown as Apply was pressed, while the newest picture is being studied."""
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
        self.follow(self._session)
        self._draw()

    def follow(self, session: Session) -> None:
        """Have each new picture studied, and say at once why nothing can be applied just now."""
        if self._starting:
            return
        if (blocked := why_not(session)) != self._blocked:
            self._blocked = blocked
            self._say_problem(blocked)
        seen, state, load = self._looked_at, session.state, session.load
        if self._pressed is not None or state is None or load is None:
            return
        if seen is None or not is_alike(seen, (state, load), self._order.plan):
            urgent = seen is not None and alive(seen[0]) != alive(state)
            self._have_studied(at_once=urgent)

    def _have_studied(self, *, at_once: bool = False) -> None:
        session = self._session
        state, load = session.state, session.load
        assert state is not None
        assert load is not None
        plan, rate, known = self._order.plan, self._rate, session.calibration
        proposes = self._order.rate_bytes_per_s is None and self._study is None
        fixed = not proposes or session.rate_chosen
        spared = None if self._sparing is None else self._sparing.apart
        bounds_before = self._order.bounds

        def work(go_on: Callable[[], None]) -> Message:
            bounds = bounds_before or usual_bounds(state, load, plan, rate)
            found = study(state, load, plan, rate, None, known, go_on=go_on)
            plain = found.estimate((not fixed and found.default_rate_bytes_per_s) or rate)
            learned = known or NOTHING_LEARNED
            sparing: Estimate | None
            if spared is not None:
                sparing = at_rate(Task.of(state, load, plan), rate, learned, apart=spared)
            else:
                sparing = plain and estimate_sparing(state, load, plan, plain, calibration=learned)
            return self.Studied((state, load), found, bounds, sparing)

        if self._studying.ask(plan, rate, self._now, work, known=True, at_once=at_once):
            self._looked_at = state, load

    @property
    def _now(self) -> float:
        return cast("Dashboard", self.app).monotonic()

    async def on_apply_dialog_studied(self, message: Studied) -> None:
        self._studying.done(self._now)
        first = self._study is None
        (self._state, self._load), self._study = message.picture, message.study
        self._studied = message
        if first and self._order.rate_bytes_per_s is None:
            self._session.take_study(message.study)
            self._rate = self._session.rate_bytes_per_s
        unticked = await self._put_ticks(message)
        read = self._read
        assert read is not None
        if self._first is None:
            self._first = read
        if self._pressed is not None and message.picture == self._looked_at:
            self._pressed_and_studied(read)
        elif unticked:
            self._say_problem(f"Read it again: {', '.join(unticked)} is not what was ticked.")
        self._say_how()
        self._draw()

    @property
    def _read(self) -> Read | None:
        """Return what is shown, as far as it is known."""
        if self._study is None or self._state is None:
            return None
        return Read(self._state, self._study, self._expected)

    def _pressed_and_studied(self, read: Read) -> None:
        """Apply what was read, now that it holds for the newest picture; else ask again."""
        before, self._pressed = self._pressed, None
        assert before is not None
        against = worse(before, read)
        if not against and self._is_clear:
            self._start()
            return
        self._say_problem(f"It has changed, nothing was started: {'; '.join(against[:2])}")
        self.query_one("#name").focus()

    async def _put_ticks(self, message: Studied) -> list[str]:
        """Show the boxes of a study; return those that are not ticked any more, as it is another.

        Boxes that stay are the same widgets, so that nothing that was ticked or focused is lost.
        """
        wanted = {tick.subject: tick for tick in self._ticks_of(message)}
        there = {tick.subject: tick for tick in self.query(Tick)}
        unticked = []
        for key, tick in there.items():
            if key in wanted:
                if tick.renew(wanted[key]):
                    unticked.append(tick.word)
            else:
                if tick.has_focus:
                    self.query_one("#name").focus()
                await tick.remove()
        boxes = self.query_one("#ticks")
        for at, (key, tick) in enumerate(wanted.items()):
            if key not in there:
                await boxes.mount(tick, before=at if at < len(boxes.children) else None)
        return unticked

    def _ticks_of(self, message: Studied) -> list[Tick]:
        ticks: list[Tick] = []
        if any(move.receiving for move in self._order.plan):
            adapt = Adapt(message.bounds)
            adapt.ticked = self._order.bounds is not None
            ticks.append(adapt)
        sparing = message.sparing
        if sparing is not None and sparing.rate_bytes_per_s == self._rate and sparing.apart:
            ticks.append(Spare(sparing))
        ticks += self._elections()
        unsafe: dict[str, list[Finding]] = {}
        for finding in message.study.findings_at(self._expected):
            if finding.severity is Severity.UNSAFE:
                unsafe.setdefault(finding.id, []).append(finding)
        return [*ticks, *(Allow(*findings) for findings in unsafe.values())]

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
            changed=self._changed,
        )
        if lines != self._drawn:
            self._drawn = lines
            self.put("#summary", lines)
        self.query_one("#ticks").display = bool(self.query(Tick))
        self.share_height()
        self._enable()

    @property
    def _changed(self) -> str:
        """Say what is otherwise than as it was opened; "" while nothing is."""
        first, now = self._first, self._read
        if first is None or now is None:
            return ""
        first = replace(first, rate_bytes_per_s=now.rate_bytes_per_s)
        said = changed(first, now)
        since = f"{first.state.fetched_at.astimezone(UTC):%H:%M}Z"
        return f"since {since}: {'; '.join(said)}" if said else ""

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

    @property
    def _is_clear(self) -> bool:
        """Return whether nothing stands in the way but the name, as far as it was studied."""
        sparing = self._sparing
        if self._study is None or self._blocked or (sparing is not None and sparing.never):
            return False
        return not is_refused(self._study.findings_at(self._expected), self._allowed)

    def _enable(self) -> None:
        typed = self.typed == self._session.cluster_name
        button = self.query_one("#apply", Button)
        busy = self._starting or self._pressed is not None
        disabled = not (typed and self._is_clear) or busy
        if disabled and button.has_focus:
            self.query_one("#name").focus()  # else Cancel would have it: enter would leave
        button.disabled = disabled
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

    async def on_tick_turned(self, message: Tick.Turned) -> None:
        if message.tick.ticked and isinstance(message.tick, Adapt | Spare):
            for other in self.query(Tick):  # a rate that adapts itself is each broker's own
                if isinstance(other, Adapt | Spare) and other is not message.tick:
                    other.turn(False)
        if self._studied is not None:  # at another rate something else may stand in the way
            await self._put_ticks(self._studied)
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
        """Start what was read; where the picture is newer, it is studied once more before that."""
        session, read = self._session, self._read
        if session.address is None or read is None or self._starting or self._pressed is not None:
            return
        state, load, studied = session.state, session.load, self._studied
        if state is None or load is None or studied is None:
            return
        if is_alike(studied.picture, (state, load), self._order.plan):
            self._start()
            return
        self._pressed = read
        self._say_problem("looking once more")
        self._have_studied(at_once=True)

    def _start(self) -> None:
        session, found, plan = self._session, self._study, self._order.plan
        address, state, load = session.address, self._state, self._load
        assert address is not None
        assert found is not None
        assert state is not None
        assert load is not None
        self._starting = True
        self._say_problem("starting")
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
