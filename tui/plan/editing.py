"""Actions on the plan from any screen: undo, redo, export, apply."""

from __future__ import annotations

from tui.screen.base import DashboardScreen


class PlanEditing(DashboardScreen):
    """A screen on which the plan is edited."""

    def action_undo(self) -> None:
        self.session.history = self.session.history.undone()
        self.dashboard.draw()

    def action_redo(self) -> None:
        self.session.history = self.session.history.redone()
        self.dashboard.draw()

    def action_export(self) -> None:
        from tui.dialogs.export import export_plan

        export_plan(self)

    def action_apply(self) -> None:
        """Ask whether the plan is to be applied; a run that starts is shown on Moves."""
        session = self.session
        if not session.writable:
            self.say(session.why_not_applicable, "look")
        elif not len(session.plan):
            self.say("The plan is empty: nothing to apply.")
        elif session.making_plan:
            self.say("A plan is being made: apply it once it is there; esc on 2 stops it.", "look")
        elif why := session.why_not_applicable:
            self.say(why, "look")
        elif session.state is not None and session.load is not None and session.address is not None:
            from tui.plan.apply import ApplyDialog
            from tui.plan.apply_options import PlanToApply

            def started(run: str | None) -> None:
                if run is not None:
                    self.dashboard.show_moves(started=run)

            order = PlanToApply(session.plan, f"Apply to {session.cluster_name}")
            self.app.push_screen(ApplyDialog(session, order), started)
