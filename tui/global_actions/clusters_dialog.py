"""The list of clusters to go on with; the one that is chosen is asked for an answer first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual.await_complete import AwaitComplete
from textual.widgets import Button

from core import paths
from core.cluster.connect import missing_password, try_password
from core.errors import TrimtabError
from tui.dialogs.base import TableDialog
from tui.dialogs.password import PasswordDialog
from tui.drawing.spans import Line, Lines, Span, Tone, columns, dim, left, plain, window, wrap_text
from tui.screen.services import Clusters, OpenCluster

if TYPE_CHECKING:
    from core.cli.common.context import Target
    from core.passwords import MissingPassword

FRAME = 12
"""Lines of the dialog and around it beside the clusters."""
NAME_WIDTH = 24


class ClustersDialog(TableDialog["Target"]):
    """Lists them; the answer is one that has answered: `opened`. None leaves all as it is."""

    def __init__(self, clusters: Clusters, keep: Callable[[], None], label: str | None) -> None:
        """`keep` writes this cluster's plan down, or raises; `label` is opened at once."""
        super().__init__("Stay", "Open it")
        self._clusters, self._keep, self._label = clusters, keep, label
        self._at = self._row_of(label or clusters.here)
        self.opened: OpenCluster | None = None
        self._doing = self._problem = ""

    @property
    def _title(self) -> str:
        return "Go on with another cluster"

    def on_mount(self) -> None:
        self.dashboard.run_in_background("clusters", self._clusters.read, self._take)

    @property
    def _is_open(self) -> bool:
        return self in self.app.screen_stack

    def _take(self, outcome: tuple[Target, ...] | TrimtabError) -> None:
        if not self._is_open:
            return
        if isinstance(outcome, TrimtabError):
            self._fail(outcome)
            return
        self._at = self._row_of(self._label or self._clusters.here)
        self.draw()
        self.query_one("#yes", Button).focus()
        if self.chosen is not None and self._label == self.chosen.label:
            self._begin(self.chosen)

    def _row_of(self, label: str) -> int:
        labels = [target.label for target in self._clusters.known]
        return labels.index(label) if label in labels else 0

    @property
    def chosen(self) -> Target | None:
        known = self._clusters.known
        return known[self._at] if known else None

    def step(self, rows: int) -> None:
        if not self._doing:
            last = len(self._clusters.known) - 1
            self._at, self._problem = min(max(self._at + rows, 0), max(last, 0)), ""
            self.draw()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.prevent_default()
        if event.button.id == "no" or self.chosen is None:
            self.dismiss(None)
        elif not self._doing:
            self._begin(self.chosen)

    # -- opening one -----------------------------------------------------------------------------

    def _begin(self, target: Target) -> None:
        if target.label == self._clusters.here:
            self.dismiss(None)
            return
        self._doing, self._problem = f"asking {target.label} …", ""
        self.draw()

        def work() -> tuple[OpenCluster, MissingPassword | None]:
            opened = self._clusters.open(target.label)
            address = opened.session.address
            return opened, None if address is None else missing_password(address)

        self.dashboard.run_in_background("open cluster", work, self._ask_password)

    def _ask_password(
        self, outcome: tuple[OpenCluster, MissingPassword | None] | TrimtabError
    ) -> None:
        if not self._is_open:
            return
        if isinstance(outcome, TrimtabError):
            self._fail(outcome)
            return
        self.opened, missing = outcome
        if missing is None:
            self._connect(self.opened)
            return
        opened, address = self.opened, self.opened.session.address
        assert address is not None

        def answered(known: bool | None) -> None:
            if known:
                self._connect(opened)
            else:
                self._doing, self.opened = "", None
                self.draw()

        self.app.push_screen(PasswordDialog(missing, partial(try_password, address)), answered)

    def _connect(self, opened: OpenCluster) -> None:
        def work() -> bool:
            opened.feed.start(fork=False)
            outcome = opened.feed.await_picture()
            if outcome:
                self._keep()
            return outcome

        self.dashboard.run_in_background("open cluster", work, partial(self._go_on, opened))

    def _go_on(self, opened: OpenCluster, outcome: bool | TrimtabError) -> None:
        if opened is not self.opened:
            return
        if isinstance(outcome, TrimtabError):
            opened.feed.stop()
            self._fail(outcome)
        elif outcome:
            self.dismiss(self.chosen)

    def _fail(self, error: TrimtabError) -> None:
        self._doing, self.opened = "", None
        self._problem = " ".join(part for part in (error.title, error.next) if part)
        self.draw()

    def dismiss(self, result: Target | None = None) -> AwaitComplete:
        """Leave; a cluster that has not answered yet is not waited for."""
        if result is None and self.opened is not None:
            self.opened.feed.stop()
            self.opened = None
        return super().dismiss(result)

    # -- drawing ---------------------------------------------------------------------------------

    def table(self, width: int) -> Lines:
        known = self._clusters.known
        lines: list[Line] = []
        if len(known) < 2:
            words = f"No other cluster has a name yet: {paths.config_file()} gives them."
            lines += [(dim(part),) for part in wrap_text(words, width, 3)]
        for i in window(len(known), max(self.size.height - FRAME, 3), self._at):
            lines.append(self._line(known[i], chosen=i == self._at))
        if self._doing:
            lines += [(), (dim(self._doing),)]
        if self._problem:
            problem = wrap_text(self._problem, width, 4)
            lines += [(), *((Span(part, Tone.ACT),) for part in problem)]
        return tuple(lines)

    def _line(self, target: Target, *, chosen: bool) -> Line:
        can_write = self._clusters.write and not target.read_only and target.address is not None
        name = left(target.label, min(columns(target.label), NAME_WIDTH))
        return (
            Span("▸ " if chosen else "  ", Tone.YOURS, bold=True),
            Span(f" {name} ", Tone.BRIGHT, bold=chosen, cluster_color=target.color),
            plain(" " * (NAME_WIDTH - columns(name) + 1)),
            Span("EDIT ", Tone.LOOK, bold=True) if can_write else dim("READ "),
            Span(" here ", Tone.YOURS) if target.label == self._clusters.here else plain("      "),
            dim(target.place),
        )
