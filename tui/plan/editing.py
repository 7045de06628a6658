"""What may be done to the plan wherever it is seen: undo, redo, export, apply."""

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
        from tui.plan.apply import open_apply

        open_apply(self)
