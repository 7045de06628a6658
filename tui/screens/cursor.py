"""The keys that move a cursor through rows, for every screen that has rows."""

from __future__ import annotations

from abc import abstractmethod

EDGE = 10**9


class CursorKeys:
    """Up, down, pages and ends; a screen says in `step` what a row is."""

    @property
    def page(self) -> int:
        """Return how many rows half a page is."""
        return 10

    @abstractmethod
    def step(self, rows: int) -> None:
        """Move the cursor by rows, up to the first or the last one."""

    def action_up(self) -> None:
        self.step(-1)

    def action_down(self) -> None:
        self.step(1)

    def action_page_up(self) -> None:
        self.step(-self.page)

    def action_page_down(self) -> None:
        self.step(self.page)

    def action_top(self) -> None:
        self.step(-EDGE)

    def action_bottom(self) -> None:
        self.step(EDGE)
