"""Leaving with a plan that is not applied: asks, and keeps it for the next start on that cluster.

What was handed to a run is that run's once it has passed its own checks; which run that is, is kept
until then, and the plan is here again if it refuses. Kept by the cluster's id, on this machine.
Whoever cannot be asked (a signal, a lost terminal) has it kept. It comes back as it was; what the
cluster has done meanwhile the Plan screen says, and mends with a key, as for any plan.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.timer import Timer

from core import files, paths
from core.errors import TrimtabError
from core.plan.plan import Plan
from core.units import counted
from tui.driver import TerminalDriver
from tui.screen.app_base import AppBase
from tui.session import PendingRun

if TYPE_CHECKING:
    from tui.global_actions.leave_dialog import Answer, LeaveDialog

Stamp = tuple[int, int]
"""Which of the files that were ever kept in a place this is: inode and time of change."""

KEEP_SECONDS = 10.0
"""How long the user waits, unless they leave, until they are told that the plan is not kept yet."""


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """What is kept for a cluster: a plan, in which file, and the run that another was handed to."""

    plan: Plan
    stamp: Stamp | None = None
    run: str = ""
    handed: Plan = field(default_factory=Plan)
    """What that run was started with, unless it has passed its checks."""
    refused: bool = False
    """Whether it has ended without."""
    unreadable: TrimtabError | None = None
    """Why the file cannot be read."""


def save_plan(plan: Plan) -> None:
    """Write a plan down for the next start; raises OSError."""
    from core.plan.formats.plan_file import format_plan_file

    files.write_text(paths.kept_plan_file(plan.cluster_id or ""), format_plan_file(plan))


def read_saved_plan(cluster_id: str) -> Plan | None:
    """Return the plan that was kept for a cluster; raises DocumentError, OSError."""
    path = paths.kept_plan_file(cluster_id)
    if not path.exists():
        return None
    from core.plan.formats.plan_file import read_plan

    plan = read_plan(path)
    return plan if plan.cluster_id == cluster_id else None


def load_saved(cluster_id: str) -> SavedPlan:
    """Return what is kept for a cluster, and what has come of the run that a plan was handed to."""
    stamp = _stamp(paths.kept_plan_file(cluster_id))
    kept = SavedPlan(Plan(cluster_id), stamp)
    try:
        kept = replace(kept, plan=read_saved_plan(cluster_id) or kept.plan)
    except TrimtabError as error:
        kept = replace(kept, unreadable=error)
    except OSError as error:
        why = TrimtabError(f"The plan that was kept cannot be read: {error}.")
        kept = replace(kept, unreadable=why)
    run = read_run_id(cluster_id)
    return kept if not run else _with_run(kept, cluster_id, run)


def _with_run(kept: SavedPlan, cluster_id: str, run: str) -> SavedPlan:
    from core.run.journal.journal import JournalError
    from core.run.reporting.runs import read_journal

    kept = replace(kept, run=run)
    try:
        look = read_journal(cluster_id, run)
    except (JournalError, OSError):  # taken away, or whoever asks for the runs is told
        return kept
    if look.view.passed_preflight:
        return kept
    notes = tuple(look.records[0].payload["notes"])
    handed = Plan.of((m.move for m in look.state.moves), cluster_id=cluster_id, notes=notes)
    return replace(kept, handed=handed, refused=look.view.state.ended)


def read_run_id(cluster_id: str) -> str:
    """Return the run that a plan was handed to when a dashboard was left; "" for none."""
    try:
        return paths.handed_plan_file(cluster_id).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def set_aside(path: Path) -> None:
    """Rename what is kept and was not read, so that no other plan replaces it; raises OSError."""
    aside, number = path.with_suffix(".unread"), 1
    while aside.exists():
        number += 1
        aside = path.with_suffix(f".{number}.unread")
    with suppress(FileNotFoundError):
        path.replace(aside)


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


class LeaveWithPlan(AppBase):
    """The part of the dashboard that asks before it leaves, and takes a kept plan up again."""

    _kept: SavedPlan | None = None
    """What is kept for this cluster, as far as this dashboard knows; None until it has looked."""
    _reading = False
    _answer: Answer | None = None
    _dialog: LeaveDialog | None = None
    _deadline: Timer | None = None
    """Says that the plan is not kept yet."""
    _failure = "the disk did not answer in time"
    """Why the plan would be lost if the dashboard ended now."""
    _settling = threading.Lock()

    async def action_quit(self) -> None:
        driver = self._driver
        blind = isinstance(driver, TerminalDriver) and driver.skip_frame()
        confirmed = self._answer == "keep" or self.screen is self._dialog
        if confirmed or blind or not self._has_plan_to_keep:
            self.exit()
            return

        from tui.global_actions.leave_dialog import LeaveDialog

        def answered(answer: Answer | None) -> None:
            if answer is not None:  # else what lay beneath has ended: a plan is still being kept
                self._answer = answer
            if answer == "stay":
                self._stop_deadline()
            elif answer == "drop":
                self.exit()

        self._dialog = LeaveDialog(self.session, self._begin_saving)
        self.push_screen(self._dialog, answered)

    def _begin_saving(self) -> None:
        """Have the plan written; the dialog says so until it is, or why it cannot be."""
        assert self._dialog is not None
        self._answer = "keep"
        moves = counted(len(self.session.plan_to_keep), "move")
        words = f"The plan of {moves} is being kept; then the dashboard ends."
        self._dialog.show_progress(words)
        self.run_in_background("keep", self._keep, self._finish_saving)
        self._deadline = self.set_timer(KEEP_SECONDS, self._report_slow_save)

    def _keep(self) -> None:
        try:
            self._settle()
        except OSError as error:
            why = f"The plan cannot be kept: {error.strerror or error}."
            raise TrimtabError(why, next="Export it (e), or make room and try again.") from error

    def _finish_saving(self, error: TrimtabError | None) -> None:
        self._stop_deadline()
        if error is None:
            if self._answer == "keep":  # else somebody stays after all
                self.exit()
            return
        if self._answer == "keep":
            self._answer = None
        self.report_error(error)
        if self._dialog is not None and self._dialog.is_mounted:
            self._dialog.show_failure(str(error))

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.stop()
            self._deadline = None

    def _report_slow_save(self) -> None:
        why = "The plan is not kept yet: the disk does not answer."
        error = TrimtabError(why, next="Wait, or leave without it (q).")
        self.report_error(error)
        if self._dialog is not None and self._dialog.is_mounted:
            self._dialog.show_progress(str(error))

    def forget_saved_plan(self) -> None:
        """Know of no plan that is kept: another cluster is shown from now on."""
        self._stop_deadline()
        self._kept, self._reading, self._answer, self._dialog = None, False, None, None

    @property
    def _has_plan_to_keep(self) -> bool:
        """Return whether there is a plan, and a cluster that may be met again."""
        address = self.session.address
        return bool(len(self.session.plan_to_keep)) and not (
            address is not None and address.is_simulated
        )

    def save_plan_on_exit(self) -> None:
        """Keep the plan, or not, as was said, whichever way the dashboard ends. From any thread."""
        try:
            self._settle()
        except OSError as error:
            self._failure = error.strerror or str(error)

    def unsaved_plan_message(self) -> str:
        """Say which plan is lost if the dashboard ends now, and why; else "". From any thread."""
        plan, kept = self.session.plan_to_keep, self._kept
        if not self._has_plan_to_keep or self._answer == "drop":
            return ""
        if kept is not None and kept.plan.moves == plan.moves:
            return ""
        handing = self.session.run_starting
        starting = handing is not None and not handing.is_set()
        why = "a run was being started with it" if starting else self._failure
        return f"The plan of {counted(len(plan), 'move')} is not kept: {why}."

    def _settle(self) -> None:
        """Make what is kept be what it should be; raises OSError."""
        handing = self.session.run_starting
        if handing is not None:
            handing.wait(KEEP_SECONDS)  # whether a run has the plan is known then
        with self._settling:
            session, kept = self.session, self._kept
            plan, address = session.plan_to_keep, session.address
            if plan.cluster_id is None or (address is not None and address.is_simulated):
                return
            if kept is None:
                if self._answer == "drop":
                    return  # what is kept for this cluster has not been looked at
                why = TrimtabError("The plan that was kept has not been read yet.")
                kept = SavedPlan(Plan(plan.cluster_id), unreadable=why)  # it is set aside
            if self._answer == "drop":
                plan = Plan(plan.cluster_id)
            self._kept = self._sync_run_file(self._sync_plan_file(kept, plan))

    def _sync_plan_file(self, kept: SavedPlan, plan: Plan) -> SavedPlan:
        """Have the file be this plan; of an empty one nothing stays.

        Who has changed nothing leaves what another dashboard put there meanwhile, and nobody
        removes what another has kept.
        """
        path = paths.kept_plan_file(plan.cluster_id or "")
        now = _stamp(path)
        ours = now is not None and now == kept.stamp
        same = plan.moves == kept.plan.moves
        if same and not len(plan):
            return kept
        if not len(plan):
            if ours:
                path.unlink(missing_ok=True)
            return replace(kept, plan=plan, stamp=None)
        if same and ours:
            os.utime(path)  # another that took it up does not remove it any more
        elif same and now is not None and self._answer != "keep":
            return kept
        else:
            if kept.unreadable is not None:
                set_aside(path)
            save_plan(plan)
        return replace(kept, plan=plan, stamp=_stamp(path), unreadable=None)

    def _sync_run_file(self, kept: SavedPlan) -> SavedPlan:
        """Have it known which run a plan was handed to, as long as that may refuse it."""
        cluster_id = kept.plan.cluster_id or ""
        handed = self.session.pending_run
        run = handed.run if handed is not None else ""
        if run == kept.run:
            return kept
        if run:
            files.write_text(paths.handed_plan_file(cluster_id), run)
        elif read_run_id(cluster_id) == kept.run:
            paths.handed_plan_file(cluster_id).unlink(missing_ok=True)
        return replace(kept, run=run)

    def restore_saved_plan(self) -> None:
        """Go on with the plan that was kept for this cluster, once it is known which that is."""
        state = self.session.state
        if self._reading or state is None:
            return
        self._reading = True
        # A large one takes seconds to read.
        self.run_in_background("kept", partial(load_saved, state.cluster_id), self._apply_kept_plan)

    def _apply_kept_plan(self, kept: SavedPlan | TrimtabError) -> None:
        session = self.session
        if isinstance(kept, TrimtabError):
            self.report_error(kept)
            return
        self._kept = kept
        if kept.unreadable is not None:
            self.report_error(kept.unreadable)
        if len(session.plan):
            self._kept = replace(kept, run="")  # it is given back the next time
            self._add_kept_moves(kept.plan)
            return
        there = {move.tp for move in kept.handed}
        moves = (*kept.handed, *(move for move in kept.plan if move.tp not in there))
        if not moves:
            return
        session.edit(Plan.of(moves, cluster_id=kept.plan.cluster_id, notes=kept.plan.notes))
        if there and not kept.refused:
            session.pending_run = PendingRun(kept.run, kept.handed)
            session.take_run(session.run)
            return
        self.draw()
        count = counted(len(moves), "move")
        here = f"Your plan of {count} is here again: 2 shows it, u takes it away."
        if there:
            self.say(f"{here} Run {kept.run} has refused it.", "look")
        else:
            self.say(here, "fine")

    def _add_kept_moves(self, kept: Plan) -> None:
        """Add what was kept to a plan that was begun before it was read; newer moves win."""
        plan = self.session.plan
        added = [move for move in kept if move.tp not in plan.by_partition]
        replaced = sum(plan.by_partition.get(move.tp, move) != move for move in kept)
        if added:
            notes = tuple(dict.fromkeys((*kept.notes, *plan.notes)))
            self.session.edit(Plan.of((*plan, *added), cluster_id=kept.cluster_id, notes=notes))
            self.draw()
        if words := added_words(len(added), replaced):
            self.say(words, "look")


def added_words(added: int, replaced: int) -> str:
    """Say what a kept plan has added to a newer one, and what of it that has replaced."""
    words = []
    if added:
        count = counted(added, "move")
        words.append(f"Your kept plan has added {count} to this one: u takes them away.")
    if replaced:
        count, is_are = counted(replaced, "move"), "is" if replaced == 1 else "are"
        words.append(f"{count} of your kept plan {is_are} replaced by newer ones.")
    return " ".join(words)
