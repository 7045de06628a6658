"""The one way to apply a plan: a summary, what must be allowed, and the cluster's name typed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.message import Message
from textual.widgets import Button, Input, Label, Static

from core.errors import TrimtabError
from core.run.launch import launch
from core.run.options import RunOptions
from core.run.throttles.adaptive_rate import side_rates
from tui.dialogs.base import Words, body, button
from tui.dialogs.checkboxes import Tick
from tui.plan.assessment_diff import ReviewedPlan, alive, describe_worse, is_similar
from tui.plan.review import PlanReview, PlanToApply
from tui.screen.app_base import guarded

if TYPE_CHECKING:
    from tui.screen.base import DashboardScreen
    from tui.session import Session


def why_not_applicable(session: Session) -> str:
    """Return why nothing can be applied to the session's cluster just now, "" where it can."""
    run = session.run
    if why := session.read_only_words:
        return why
    if run is not None and not run.state.ended:
        return f"Run {run.run} is in progress: wait for its end, or cancel it."
    if session.pending_run is not None:
        return f"Run {session.pending_run.run} is just being started with the plan."
    if session.problem is not None:
        return f"{session.cluster_name} does not answer: {session.problem.title}"
    return ""


def open_apply(screen: DashboardScreen) -> None:
    """Ask whether the session's plan is to be applied; a run that starts is shown on Moves."""
    session = screen.session
    if not session.writable:
        screen.say(why_not_applicable(session), "look")
    elif not len(session.plan):
        screen.say("The plan is empty: nothing to apply.")
    elif session.making_plan:
        screen.say("A plan is being made: apply it once it is there; esc on 2 stops it.", "look")
    elif why := why_not_applicable(session):
        screen.say(why, "look")
    elif session.state is not None and session.load is not None and session.address is not None:
        order = PlanToApply(session.plan, f"Apply to {session.cluster_name}")

        def started(run: str | None) -> None:
            if run is not None:
                screen.dashboard.show_moves(started=run)

        screen.app.push_screen(ApplyDialog(session, order), started)


class ApplyDialog(PlanReview):
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

    def __init__(self, session: Session, order: PlanToApply) -> None:
        super().__init__(session, order)
        self._blocked = ""
        """Why nothing can be applied just now, whatever the plan."""
        self._failed = False
        """Whether the newest picture could not be assessed."""
        self._starting = False
        self._pressed: ReviewedPlan | None = None
        """What was shown as Apply was pressed, while the newest picture is being assessed."""
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
        """Have each new picture assessed, and say at once why nothing can be applied just now."""
        if self._starting:
            return
        if (blocked := why_not_applicable(session)) != self._blocked:
            self._blocked = blocked
            self._say_problem(blocked)
        seen, state, load = self._looked_at, session.state, session.load
        if self._pressed is not None or state is None or load is None:
            return
        if seen is None or not is_similar(seen, (state, load), self._order.plan):
            urgent = seen is not None and alive(seen[0]) != alive(state)
            self._have_assessed(at_once=urgent)

    def renewed(self, unticked: list[str]) -> None:
        read, assessed = self._read, self._assessed
        assert read is not None
        assert assessed is not None
        if self._failed:
            self._failed = False
            self._say_problem(self._blocked)
        if self._pressed is not None and assessed.picture == self._looked_at:
            self._pressed_and_assessed(read)
        elif unticked:
            self._say_problem(f"Read it again: {', '.join(unticked)} is not what was ticked.")
        self._say_how()

    def assessment_failed(self, error: TrimtabError) -> None:
        self._pressed, self._failed = None, True
        self._say_problem(f"Nothing can be applied: the plan could not be assessed. {error}")

    def _pressed_and_assessed(self, read: ReviewedPlan) -> None:
        """Apply what was read, now that it holds for the newest picture; else ask again."""
        before, self._pressed = self._pressed, None
        assert before is not None
        against = describe_worse(before, read)
        if not against and self._may_start and self._is_named:
            self._start()
            return
        why = self._blocked or "; ".join(against[:2]) or "something is not allowed yet"
        self._say_problem(f"It has changed, nothing was started: {why}")
        self.query_one("#name").focus()

    # -- may it be applied -----------------------------------------------------------------------

    @property
    def _may_start(self) -> bool:
        """Return whether nothing stands in the way but the name."""
        return self._is_clear and not (self._blocked or self._failed)

    @property
    def _is_named(self) -> bool:
        return self.entered_name == self._session.cluster_name

    def enable(self) -> None:
        entered_name = self._is_named
        button = self.query_one("#apply", Button)
        busy = self._starting or self._pressed is not None
        disabled = not (entered_name and self._may_start) or busy
        if disabled and button.has_focus:
            self.query_one("#name").focus()  # else Cancel would have it: enter would leave
        button.disabled = disabled
        if self._entered and not button.disabled:
            self._entered = False
            button.focus()

    def on_input_changed(self) -> None:
        self._entered = False
        self._call_off()
        self.enable()

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

    def on_input_submitted(self) -> None:
        """Enter after the name goes to the button, or will; applying takes one more key."""
        self._entered = True
        self.enable()

    # -- leaving ---------------------------------------------------------------------------------

    def action_leave(self) -> None:
        if not self._starting:
            self.dismiss(None)

    def _call_off(self) -> None:
        """Have nothing started by an assessment that is still to come."""
        if self._pressed is not None:
            self._pressed = None
            self._say_problem(self._blocked)

    def dismiss(self, result: str | None = None) -> AwaitComplete:
        """Leave, whoever asks for it: nothing is started any more."""
        self._pressed = None
        return super().dismiss(result)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "apply":
            self._apply()
        else:
            self.action_leave()

    def _apply(self) -> None:
        """Start what was read; where the picture is newer, it is assessed once more before that."""
        session, read = self._session, self._read
        if session.address is None or read is None or self._starting or self._pressed is not None:
            return
        state, load, assessed = session.state, session.load, self._assessed
        if state is None or load is None or assessed is None:
            return
        if is_similar(assessed.picture, (state, load), self._order.plan):
            self._start()
            return
        self._pressed = read
        self._say_problem("looking once more")
        self._have_assessed(at_once=True)

    def _start(self) -> None:
        session, found, plan = self._session, self._assessment, self._order.plan
        address, state, load = session.address, self._state, self._load
        assert address is not None
        assert found is not None
        assert state is not None
        assert load is not None
        self._starting = True
        handing = session.run_starting = threading.Event()
        self._say_problem("starting")
        options = RunOptions(
            rate_bytes_per_s=self._expected,
            cluster_name=session.cluster_name,
            allow=self._allowed,
            per_side_rates={}
            if self._sparing is None
            else side_rates(self._sparing.per_side_rates),
            auto=self._bounds,
            elect=self._elects,
            pause_if_removed=self._pauses_if_removed,
        )
        estimate = self._sparing or found.estimate(self._expected)

        def start() -> str:
            return launch(address, state, plan, options, estimate, load=load)

        def work() -> None:
            run = guarded(start)
            if not isinstance(run, TrimtabError):
                session.set_pending_run(
                    run, plan
                )  # here: whoever leaves meanwhile keeps it as handed
            handing.set()
            if isinstance(run, TrimtabError):
                self.post_message(self.NotStarted(run))
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
        self.enable()
