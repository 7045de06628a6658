"""Leaving with a plan that is not applied: it is asked about, and kept for the next start there.

What was handed to a run is that run's, unless the run refused it while the dashboard was open.
Kept by the cluster's id, on this machine. Whoever cannot be asked (a signal, a lost terminal) has
it kept. It comes back as it was; what the cluster has done meanwhile the Plan screen says, and
mends with a key, as for any plan.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from core import files, paths
from core.errors import DocumentError, TrimtabError
from core.plan.plan import Plan
from tui.driver import TerminalDriver
from tui.screens.base import DashboardScreen
from tui.speaking import Speaking


def keep_plan(plan: Plan) -> None:
    """Write a plan down for the next start; of an empty one nothing stays. Raises OSError."""
    path = paths.kept_plan_file(plan.cluster_id or "")
    if not len(plan):
        path.unlink(missing_ok=True)
        return
    from core.plan.reassignment import dump

    files.write_text(path, dump(plan))


def kept_plan(cluster_id: str) -> Plan | None:
    """Return the plan that was kept for a cluster; raises DocumentError, OSError."""
    path = paths.kept_plan_file(cluster_id)
    if not path.exists():
        return None
    from core.plan.reassignment import read_plan

    plan = read_plan(path)
    return plan if plan.cluster_id == cluster_id else None


def set_aside(path: Path) -> None:
    """Rename what is kept and cannot be read, so that no other plan replaces it."""
    with suppress(OSError):
        path.replace(path.with_suffix(".unread"))


class Leaving(Speaking):
    """The part of the dashboard that asks before it leaves, and takes a kept plan up again."""

    _kept: Plan | None = None
    """What is kept for this cluster, as far as this dashboard knows; None until it has looked."""
    _unread = False
    """Whether something is kept that could not be read."""
    _dropped = False

    async def action_quit(self) -> None:
        from tui.screens.leave_dialog import Answer, LeaveDialog

        driver = self._driver
        blind = isinstance(driver, TerminalDriver) and driver.leave_out()
        if isinstance(self.screen, LeaveDialog) or blind or not self._worth_keeping:
            self.exit()
            return

        def answered(answer: Answer | None) -> None:
            self._dropped = answer == "drop"
            if answer == "keep":
                self._kept = Plan()  # another dashboard may have put something else there
            if answer in ("keep", "drop"):
                self.exit()

        self.push_screen(LeaveDialog(len(self.session.unhanded)), answered)

    @property
    def _worth_keeping(self) -> bool:
        """Return whether there is a plan, and a cluster that may be met again."""
        address = self.session.address
        return bool(len(self.session.unhanded)) and not (address is not None and address.simulated)

    def settle_plan(self) -> None:
        """Keep the plan, or not, as was said; to be called whichever way the dashboard ends.

        From any thread: a plan is a value. What cannot be written is lost with the terminal.
        Who has changed nothing writes nothing: what is there now may be another dashboard's.
        """
        plan, address = self.session.unhanded, self.session.address
        if plan.cluster_id is None or self._kept is None:
            return  # what is kept for this cluster has not been looked at
        if address is not None and address.simulated:
            return
        if self._dropped:
            plan = Plan(plan.cluster_id)
        if plan.moves == self._kept.moves:
            return
        if self._unread:
            set_aside(paths.kept_plan_file(plan.cluster_id or ""))
            self._unread = False
        with suppress(OSError):
            keep_plan(plan)
            self._kept = plan

    def take_kept_plan(self) -> None:
        """Go on with the plan that was kept for this cluster, once it is known which that is."""
        session = self.session
        if self._kept is not None or session.state is None:
            return
        self._kept = Plan()
        try:
            plan = kept_plan(session.state.cluster_id)
        except DocumentError as error:
            self._unread = True
            self.tell(error)
            return
        except OSError as error:
            self._unread = True
            self.tell(TrimtabError(f"The plan that was kept cannot be read: {error}."))
            return
        if plan is None or not len(plan):
            return
        self._kept = plan
        if len(session.plan):
            return
        session.edit(plan)
        if isinstance(self.screen, DashboardScreen):
            moves = f"{len(plan):,} move" + ("s" if len(plan) > 1 else "")
            self.screen.say(f"Your plan of {moves} is here again: 2 shows it, u takes it away.")
