"""How the dashboard's parts reach the open screen: repaint, messages, workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from textual.app import App
from textual.timer import Timer
from textual.worker import WorkerFailed

from core.errors import TrimtabError
from tui.feed.feed import Feed
from tui.screen.base import DashboardScreen
from tui.screen.services import DashboardPart
from tui.session import Session

Done = TypeVar("Done")


class AppBase(App[int]):
    """The part of the dashboard that the others stand on; nothing here reads a cluster."""

    session: Session
    feed: Feed | None
    monotonic: Callable[[], float]
    _age_timer: Timer | None = None

    def draw(self) -> None:
        """Have the open screen draw the session, and wake up when an age reads differently.

        It is drawn under a dialog too: what goes on does not wait for an answer. So is the dialog.
        """
        self.session.now = self.monotonic()
        for screen in reversed(self.screen_stack):
            if not isinstance(screen, DashboardScreen):
                if screen.is_mounted and isinstance(screen, DashboardPart):
                    screen.follow(self.session)
                    screen.show_lost(self.session.lost_words)
                continue
            screen.show(self.session)
            if self.feed is not None and self.session.state is not None:
                self.call_after_refresh(self.painted)
            break
        if self._age_timer is not None:
            self._age_timer.stop()
            self._age_timer = None
        left = self.session.next_age_change
        if left is not None and self.feed is not None:
            self._age_timer = self.set_timer(left + 0.02, self.draw)

    def painted(self) -> None:
        """The session is in sight: what takes long and can wait until then may begin."""
        if self.feed is not None:
            self.feed.painted()

    def report_error(self, error: TrimtabError) -> None:
        """Say what went wrong in the footer; the whole of it is a key away."""
        self.session.take_trouble(error)
        if (screen := self._shown) is not None:
            screen.say_error(error)

    def say(self, text: str, role: str) -> None:
        """Say something in the footer of the screen, also of one that lies under a dialog."""
        if (screen := self._shown) is not None:
            screen.say(text, role)

    def report(self, answer: tuple[str, str] | TrimtabError) -> None:
        """Say what some work came to, a text and its role, or what went wrong with it."""
        if isinstance(answer, TrimtabError):
            self.report_error(answer)
        else:
            self.say(*answer)

    @property
    def _shown(self) -> DashboardScreen | None:
        screens = reversed(self.screen_stack)
        dashboards = (
            screen
            for screen in screens
            if isinstance(screen, DashboardScreen) and screen.is_mounted
        )
        return next(dashboards, None)

    def run_in_background(
        self,
        group: str,
        work: Callable[[], Done],
        take: Callable[[Done | TrimtabError], None],
    ) -> None:
        """Have a thread do some work; `take` is called with what came of it, or why nothing did.

        What was for a cluster that is not open any more is taken by nobody; a failure is told.
        """
        session = self.session

        def taken(result: Done | TrimtabError) -> None:
            if self.session is session:
                take(result)
            elif isinstance(result, TrimtabError):
                title = f"{session.cluster_name}: {result.title}"
                self.report_error(TrimtabError(title, detail=result.detail, next=result.next))

        def done() -> None:
            self.call_later(taken, guarded(work))

        self.run_worker(done, thread=True, group=group, exit_on_error=False)

    def _handle_exception(self, error: Exception) -> None:
        """Go on where a thread of a screen fails, and say why: only its answer is missing."""
        if not isinstance(error, WorkerFailed):
            super()._handle_exception(error)
            return
        if isinstance(error.error, TrimtabError):
            self.report_error(error.error)
            return
        self._exception = self._exception or error  # tests are to fail by it
        self.report_error(_log_bug())


def guarded(work: Callable[[], Done]) -> Done | TrimtabError:
    """Return what some work in a thread comes to, or why it could not be done.

    A bug is one more reason: whoever waits for the answer must get one.
    """
    try:
        return work()
    except TrimtabError as error:
        return error
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        return TrimtabError(f"The operating system refuses it: {error.strerror or error}{place}.")
    except Exception:  # noqa: BLE001 - a bug in a thread must reach the log and the user
        return _log_bug()


def _log_bug() -> TrimtabError:
    """Return what to say of the exception being handled, which goes to the log."""
    from core.bug_log import log_bug

    return TrimtabError("This is a bug in trimtab: what was asked for broke off.", detail=log_bug())
