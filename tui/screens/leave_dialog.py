"""What becomes of a plan that is not applied when the dashboard is left."""

from __future__ import annotations

from typing import Literal

from tui.screens.dialog import ChoiceDialog

Answer = Literal["stay", "keep", "drop"]


class LeaveDialog(ChoiceDialog[Answer]):
    """Asks what becomes of the plan; staying is focused."""

    def __init__(self, moves: int) -> None:
        plural = "s" if moves > 1 else ""
        super().__init__(
            "Leave with a plan that is not applied?",
            [
                f"It has {moves:,} move{plural}. Kept, it is here again when the dashboard is next "
                "opened on this cluster, from this machine."
            ],
            ("stay", "Stay", "stay"),
            ("keep", "Leave, keep it", "keep"),
            ("drop", "Leave, throw it away", "drop"),
        )
