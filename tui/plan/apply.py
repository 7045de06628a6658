"""The one way to apply a plan: a summary, what must be allowed, and the cluster's name typed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from typing import ClassVar

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.widgets import Button, Input, Label, Static

from core.errors import TrimtabError
from core.plan.checks.catalogue import select_refused
from core.run.launch import launch
from core.run.options import RunOptions
from core.run.throttles.adaptive_rate import side_rates
from core.units import UNLIMITED
from tui.dialogs.base import Words, body, button
from tui.dialogs.inputs import ClusterNameDialog, Tick
from tui.drawing.spans import Lines
from tui.plan.apply_options import (
    ApplyOptions,
    AssessedOrder,
    ElectLeaders,
    PauseIfRemoved,
    PlanToApply,
    assess_order,
    ticks_of,
)
from tui.plan.assessment import (
    Picture,
    ReviewedPlan,
    alive,
    changed,
    describe_worse,
    is_similar,
)
from tui.plan.assessment_worker import AssessmentWorker
from tui.plan.drawing.apply_summary import summary_lines
from tui.screen.app_base import guarded
from tui.session import PendingRun, Session

SCROLLBAR = 1
REST_SECONDS = 1.0
"""How long an open dialog rests after an assessment, where that took less than a quarter of it."""


class ApplyDialog(ClusterNameDialog[str | None]):
    """Returns the id of the run that it started, None when nothing was started.

    Each new picture of the cluster is assessed; what is started is what was read.
    """

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

    def __init__(self, session: Session, order: PlanToApply) -> None:
        super().__init__()
        self._session, self._order = session, order
        self._assessing = AssessmentWorker(
            self, self._take_assessment, self._assessment_failed, rest_seconds=REST_SECONDS
        )
        self._looked_at: Picture | None = None
        """The picture that was last asked to be assessed."""
        self._assessed: AssessedOrder | None = None
        self._first: ReviewedPlan | None = None
        """What was read as it was opened."""
        self._drawn: Lines = ()
        self._rate = order.rate_bytes_per_s or session.rate_bytes_per_s
        """What is applied: the rate that the summary shows, whatever is proposed meanwhile."""
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
                ApplyOptions(id="ticks"),
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

    @property
    def _options(self) -> ApplyOptions:
        return self.query_one(ApplyOptions)

    # -- the assessment --------------------------------------------------------------------------

    def follow(self, session: Session) -> None:
        """Have each new picture assessed, and say at once why nothing can be applied just now."""
        if self._starting:
            return
        if (blocked := session.why_not_applicable) != self._blocked:
            self._blocked = blocked
            self._say_problem(blocked)
        picture, state, load = self._looked_at, session.state, session.load
        if self._pressed is not None or state is None or load is None:
            return
        if picture is None or not is_similar(picture, (state, load), self._order.plan):
            urgent = picture is not None and alive(picture[0]) != alive(state)
            self._have_assessed((state, load), at_once=urgent)

    def _have_assessed(self, picture: Picture, *, at_once: bool) -> None:
        order, rate, known = self._order, self._rate, self._session.calibration
        proposes = order.rate_bytes_per_s is None and self._assessed is None
        fixed = not proposes or self._session.rate_chosen
        spared = self._options.sparing

        def work(go_on: Callable[[], None]) -> AssessedOrder:
            return assess_order(order, picture, rate, known, spared, fixed=fixed, go_on=go_on)

        if self._assessing.ask(order.plan, rate, work, at_once=at_once):
            self._looked_at = picture

    def _assessment_failed(self, error: TrimtabError) -> None:
        self._pressed, self._failed = None, True
        self._say_problem(f"Nothing can be applied: the plan could not be assessed. {error}")

    async def _take_assessment(self, assessed: AssessedOrder) -> None:
        proposes = self._assessed is None and self._order.rate_bytes_per_s is None
        self._assessed = assessed
        if proposes:
            assessment = assessed.assessment
            self._session.take_rates(assessment.rates, assessment.default_rate_bytes_per_s)
            self._rate = self._session.rate_bytes_per_s
        unticked = await self._options.show(self._ticks_of(assessed))
        read = self._read
        assert read is not None
        self._first = self._first or read
        if self._failed:
            self._failed = False
            self._say_problem(self._blocked)
        if self._pressed is not None and assessed.picture == self._looked_at:
            self._start_or_explain(read)
        elif unticked:
            self._say_problem(f"Read it again: {', '.join(unticked)} is not what was ticked.")
        self._show_key_hint()
        self._draw()

    def _start_or_explain(self, read: ReviewedPlan) -> None:
        """Apply what was read, now that it holds for the newest picture; else ask again."""
        before, self._pressed = self._pressed, None
        assert before is not None
        against = describe_worse(before, read)
        if not against and self._may_start and self._is_name_entered:
            self._start()
            return
        why = self._blocked or "; ".join(against[:2]) or "something is not allowed yet"
        self._say_problem(f"It has changed, nothing was started: {why}")
        self.query_one("#name").focus()

    @property
    def _read(self) -> ReviewedPlan | None:
        """Return what is shown, as far as it is known."""
        if self._assessed is None:
            return None
        state, assessment = self._assessed.picture[0], self._assessed.assessment
        return ReviewedPlan(state, assessment, self._expected_rate)

    @property
    def _expected_rate(self) -> int:
        """Return the rate to reckon with."""
        bounds = self._options.bounds
        if bounds is None:
            return self._rate
        highest = bounds.max_bytes_per_s
        rate = highest if self._rate == UNLIMITED else self._rate
        return min(max(rate, bounds.min_bytes_per_s), highest)

    def _ticks_of(self, assessed: AssessedOrder) -> list[Tick]:
        return ticks_of(self._order, assessed, self._rate, self._expected_rate)

    async def on_tick_turned(self, message: Tick.Turned) -> None:
        self._options.exclude_other_rate(message.tick)
        if self._assessed is not None:  # at another rate something else may stand in the way
            await self._options.show(self._ticks_of(self._assessed))
        self._draw()

    # -- drawing ---------------------------------------------------------------------------------

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        read = self._read
        lines = summary_lines(
            self._session.state if read is None else read.state,
            self._order.plan,
            None if read is None else read.assessment,
            self._expected_rate,
            self.width - SCROLLBAR,
            bounds=self._options.bounds,
            left=self._order.left,
            elects=self._options.is_ticked(ElectLeaders),
            changed=self._changed,
        )
        if lines != self._drawn:
            self._drawn = lines
            self.put("#summary", lines)
        self._options.display = bool(self.query(Tick))
        self.share_height()
        self._update_apply_button()

    @property
    def _changed(self) -> str:
        """Say what is otherwise than as it was opened; "" while nothing is."""
        first, now = self._first, self._read
        if first is None or now is None:
            return ""
        first = replace(first, rate_bytes_per_s=now.rate_bytes_per_s)
        words = changed(first, now)
        since = f"{first.state.fetched_at.astimezone(UTC):%H:%M}Z"
        return f"since {since}: {'; '.join(words)}" if words else ""

    def share_height(self) -> None:
        """Have summary and ticks scroll rather than push the name and the buttons out of sight."""
        ticks = self.lines(self.query(Tick), self.width - SCROLLBAR)
        gap = 1 if ticks else 0
        ticks = min(ticks, max(self.room // 2, 1))
        self._options.styles.max_height = ticks
        self.query_one("#about").styles.max_height = max(self.room - ticks - gap, 1)

    def _show_key_hint(self) -> None:
        """Say what the next key does: where the focus is is no more than a shade elsewhere."""
        how = f"Type {self._session.cluster_name} to apply:"
        if self.query(Tick):
            how = f"Type {self._session.cluster_name} to apply; up and space tick a box:"
        if self.query_one("#apply").has_focus:
            how = "Enter applies it, esc leaves everything as it is:"
        self.query_one("#how", Label).update(how)
        self.share_height()

    def _say_problem(self, text: str) -> None:
        self.query_one("#problem", Label).update(text)
        self.share_height()
        self._update_apply_button()

    @property
    def _may_start(self) -> bool:
        """Return whether nothing stands in the way but the name, as far as it was assessed."""
        sparing, assessed = self._options.sparing, self._assessed
        if self._blocked or self._failed or assessed is None or (sparing and sparing.never):
            return False
        findings = assessed.assessment.at(self._expected_rate).findings
        return not select_refused(findings, self._options.allowed)

    @property
    def _is_name_entered(self) -> bool:
        return self.entered_name == self._session.cluster_name

    def _update_apply_button(self) -> None:
        button = self.query_one("#apply", Button)
        busy = self._starting or self._pressed is not None
        disabled = not (self._is_name_entered and self._may_start) or busy
        if disabled and button.has_focus:
            self.query_one("#name").focus()  # else Cancel would have it: enter would leave
        button.disabled = disabled
        if self._entered and not button.disabled:
            self._entered = False
            button.focus()

    def on_input_changed(self) -> None:
        self._entered = False
        if self._pressed is not None:  # nothing is started by an assessment still to come
            self._pressed = None
            self._say_problem(self._blocked)
        self._update_apply_button()

    def on_descendant_focus(self) -> None:
        self._show_key_hint()

    def on_input_submitted(self) -> None:
        """Enter after the name goes to the button, or will; applying takes one more key."""
        self._entered = True
        self._update_apply_button()

    def action_leave(self) -> None:
        if not self._starting:
            self.dismiss(None)

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
        session, read, assessed = self._session, self._read, self._assessed
        if session.address is None or read is None or self._starting or self._pressed is not None:
            return
        state, load = session.state, session.load
        if state is None or load is None or assessed is None:
            return
        if is_similar(assessed.picture, (state, load), self._order.plan):
            self._start()
            return
        self._pressed = read
        self._say_problem("looking once more")
        self._have_assessed((state, load), at_once=True)

    def _start(self) -> None:
        session, plan, assessed = self._session, self._order.plan, self._assessed
        address, sparing = session.address, self._options.sparing
        assert address is not None
        assert assessed is not None
        state, load = assessed.picture
        self._starting = True
        handing = session.run_starting = threading.Event()
        self._say_problem("starting")
        options = RunOptions(
            rate_bytes_per_s=self._expected_rate,
            cluster_name=session.cluster_name,
            allow=self._options.allowed,
            per_side_rates={} if sparing is None else side_rates(sparing.per_side_rates),
            auto=self._options.bounds,
            elect=self._options.is_ticked(ElectLeaders),
            pause_if_removed=self._options.is_ticked(PauseIfRemoved),
        )
        estimate = sparing or assessed.assessment.at(self._expected_rate).estimate

        def work() -> None:
            run = guarded(lambda: launch(address, state, plan, options, estimate, load=load))
            if isinstance(run, str):  # here: whoever leaves meanwhile keeps it as handed
                session.pending_run = PendingRun(run, plan)
            handing.set()
            self.call_later(self._started, run)

        self.run_worker(work, thread=True, group="start")

    def _started(self, run: str | TrimtabError) -> None:
        if isinstance(run, str):
            self.dismiss(run)
        else:
            self._starting = False
            self._say_problem(str(run))
