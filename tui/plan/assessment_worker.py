"""Assesses the plan that is edited: one assessment at a time, given up once the plan changes.

An assessment of a large plan takes many seconds: several at once would delay each other and keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from textual.message import Message
from textual.worker import Worker, get_current_worker

from core.errors import TrimtabError
from core.plan.plan import Plan

REASSESS_SECONDS = 5.0
"""How old an assessment of an unchanged plan gets while the cluster goes on changing."""
RESTS_TIMES = 4
"""Times the duration of an assessment: how long the next one waits, where that is longer."""


class SupersededError(Exception):
    """The plan that is being assessed, or its rate, is another one by now."""


class AssessmentFailed(Message):
    """A plan could not be assessed at a rate, and why."""

    def __init__(self, error: TrimtabError, plan: Plan, rate_bytes_per_s: int) -> None:
        super().__init__()
        self.error, self.plan, self.rate_bytes_per_s = error, plan, rate_bytes_per_s


class Screen(Protocol):
    """What an assessment needs of Textual's screen."""

    def post_message(self, message: Message) -> bool: ...

    def run_worker(
        self, work: Callable[[], None], *, group: str, exclusive: bool, thread: bool
    ) -> Any: ...


class AssessmentWorker:
    """Has a screen's worker thread assessment, and posts what it found to the screen."""

    def __init__(
        self, screen: Screen, group: str = "assessment", rest_seconds: float = REASSESS_SECONDS
    ) -> None:
        self._screen = screen
        self._rest_seconds = rest_seconds
        self._group = group
        self._worker: Worker[None] | None = None
        self._asked: tuple[Plan, int] | None = None
        self._began = self._ended = 0.0
        self._failure = ""
        """Why the assessment before failed; "" where it did not."""

    def forget(self) -> None:
        """There is no plan any more."""
        self._asked = None
        if self._worker is not None:
            self._worker.cancel()

    def done(self, now: float) -> None:
        """What was posted has come."""
        self._ended = now

    def ask(
        self,
        plan: Plan,
        rate_bytes_per_s: int,
        now: float,
        work: Callable[[Callable[[], None]], Message],
        *,
        known: bool,
        at_once: bool = False,
    ) -> bool:
        """Have `work` done unless it is under way, or was done not long ago; say which.

        It is done in any case `at_once`, where what was asked for before is of no use any more.
        `known` says whether the present assessment answers for the rate. `work` is given a function
        to call on the way, which raises once nobody waits for the answer.
        """
        if self._asked is not None and not at_once:
            asked_plan, asked_rate = self._asked
            same = asked_plan.moves == plan.moves and (known or asked_rate == rate_bytes_per_s)
            going = self._worker is not None and not self._worker.is_finished
            rest = max(self._rest_seconds, RESTS_TIMES * (self._ended - self._began))
            if same and (going or now - self._ended < rest):
                return False
        self._asked, self._began, self._ended = (plan, rate_bytes_per_s), now, now

        def assessed() -> None:
            worker = get_current_worker()

            def go_on() -> None:
                if worker.is_cancelled:
                    raise SupersededError

            try:
                found = work(go_on)
                go_on()
            except SupersededError:
                return
            except Exception as error:
                bug = TrimtabError("This is a bug in trimtab.")
                why = error if isinstance(error, TrimtabError) else bug
                self._screen.post_message(AssessmentFailed(why, plan, rate_bytes_per_s))
                before, self._failure = self._failure, repr(error)
                if before != self._failure:
                    raise  # the dashboard says it, too, and logs a bug; once is enough
                return
            self._failure = ""
            self._screen.post_message(found)

        group = self._group
        self._worker = self._screen.run_worker(assessed, thread=True, exclusive=True, group=group)
        return True
