"""Assesses the plan that is edited: one assessment at a time, given up once the plan changes.

An assessment of a large plan takes many seconds: several at once would delay each other and keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from textual.worker import Worker, get_current_worker

from core.errors import TrimtabError
from core.plan.plan import Plan

if TYPE_CHECKING:
    from tui.dialogs.base import Dialog
    from tui.screen.base import DashboardScreen

Outcome = TypeVar("Outcome")

REASSESS_SECONDS = 5.0
"""How old an assessment of an unchanged plan gets while the cluster goes on changing."""
RESTS_TIMES = 4
"""Times the duration of an assessment: how long the next one waits, where that is longer."""


class SupersededError(Exception):
    """The plan that is being assessed, or its rate, is another one by now."""


class AssessmentWorker(Generic[Outcome]):
    """Has a thread assess a plan; what it found, or why it failed, is handed over on the screen."""

    def __init__(
        self,
        screen: DashboardScreen | Dialog[Any],
        take: Callable[[Outcome], Any],
        failed: Callable[[TrimtabError], None],
        *,
        group: str = "assessment",
        rest_seconds: float = REASSESS_SECONDS,
    ) -> None:
        self._screen, self._take, self._failed = screen, take, failed
        self._rest_seconds = rest_seconds
        self._group = group
        self._worker: Worker[None] | None = None
        self._latest: tuple[Plan, int] | None = None
        self._began = self._ended = 0.0
        self._failure = ""
        """Why the assessment before failed; "" where it did not."""

    def forget(self) -> None:
        """There is no plan any more."""
        self._latest = None
        if self._worker is not None:
            self._worker.cancel()

    def ask(
        self,
        plan: Plan,
        rate_bytes_per_s: int,
        work: Callable[[Callable[[], None]], Outcome],
        *,
        known: bool = True,
        at_once: bool = False,
    ) -> bool:
        """Have `work` done unless it is under way, or was done not long ago; say which.

        It is done in any case `at_once`, where what was asked for before is of no use any more.
        `known` says whether the present assessment answers for the rate. `work` is given a function
        to call on the way, which raises once nobody waits for the answer.
        """
        now = self._screen.dashboard.monotonic()
        if self._latest is not None and not at_once:
            plan_before, rate_before = self._latest
            same = plan_before.moves == plan.moves and (known or rate_before == rate_bytes_per_s)
            going = self._worker is not None and not self._worker.is_finished
            rest = max(self._rest_seconds, RESTS_TIMES * (self._ended - self._began))
            if same and (going or now - self._ended < rest):
                return False
        self._latest, self._began, self._ended = (plan, rate_bytes_per_s), now, now

        def assessed() -> None:
            worker = get_current_worker()

            def go_on() -> None:
                if worker.is_cancelled:
                    raise SupersededError

            try:
                assessment = work(go_on)
                go_on()
            except SupersededError:
                return
            except Exception as error:
                bug = TrimtabError("This is a bug in trimtab.")
                if not worker.is_cancelled:
                    self._hand_over(self._failed, error if isinstance(error, TrimtabError) else bug)
                before, self._failure = self._failure, repr(error)
                if before != self._failure:
                    raise  # the dashboard says it, too, and logs a bug; once is enough
                return
            self._failure = ""
            self._hand_over(self._take, assessment)

        group = self._group
        self._worker = self._screen.run_worker(assessed, thread=True, exclusive=True, group=group)
        return True

    def _hand_over(self, take: Callable[[Any], Any], result: Any) -> None:
        def taken() -> Any:
            self._ended = self._screen.dashboard.monotonic()
            return take(result)

        self._screen.call_later(taken)
