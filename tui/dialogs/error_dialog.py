"""The dialog that shows in full what went wrong: the sentence, its detail, what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Button, Label

from core.errors import TrimtabError
from tui.dialogs.base import Dialog


class ProblemDialog(Dialog[None]):
    """Shows problems, the newest first; any way out closes it."""

    BINDINGS = [("escape,q,E", "leave", "Close")]
    DEFAULT_CSS = """
    ProblemDialog .problems { height: auto; max-height: 16; }
    ProblemDialog .title { margin-bottom: 0; }
    ProblemDialog .last { margin-bottom: 1; }
    """

    def __init__(self, problems: Sequence[TrimtabError]) -> None:
        super().__init__()
        self._problems = problems

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog problems", can_focus=False):
            for problem in self._problems:
                yield Label(problem.title, classes="title", markup=False)
                if problem.detail:
                    yield Label(problem.detail, classes="dim", markup=False)
                yield Label(problem.next, classes="last", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Close", id="close", compact=True)

    def on_mount(self) -> None:
        self.query_one("#close", Button).focus()

    def on_button_pressed(self) -> None:
        self.dismiss(None)
