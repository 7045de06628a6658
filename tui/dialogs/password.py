"""Asks for the passwords that client properties leave out, before the cluster is connected to."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Button, Input, Label

from core.errors import TrimtabError
from core.passwords import MissingPassword
from tui.dialogs.base import Dialog, Words, body, button
from tui.screen.app_base import guarded

Enter = Callable[[MissingPassword, str], MissingPassword | None]
"""Tries a password; returns the next that is missing, raises TrimtabError for a wrong one."""


class PasswordInput(Input):
    """A line that shows dots, and whose content goes to no clipboard."""

    def __init__(self) -> None:
        super().__init__(password=True, compact=True, id="answer")

    def action_copy(self) -> None:
        """Do nothing."""

    def action_cut(self) -> None:
        """Do nothing."""


class PasswordDialog(Dialog[bool]):
    """Asks until all passwords are known; the answer is whether they are."""

    DEFAULT_CSS = "PasswordDialog #result { color: $error; display: none; }"
    BINDINGS = [("escape", "leave", "Leave"), Binding("q", "leave", show=False)]

    def __init__(self, missing: MissingPassword, enter: Enter) -> None:
        super().__init__()
        self._missing, self._enter = missing, enter
        self._trying = False

    def compose(self) -> ComposeResult:
        words = Words.of(
            (
                f"{self._missing.file} leaves it out. It stays in memory: only the processes that "
                "start from here are handed it.",
            )
        )
        result = Label("", id="result", markup=False)
        buttons = (button("leave", "Leave"), button("connect", "Connect"))
        yield from body(self._missing.prompt, (words, PasswordInput(), result), *buttons)

    def on_mount(self) -> None:
        self.query_one("#answer").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "connect":
            self._try_password()
        else:
            self.action_leave()

    def on_input_submitted(self) -> None:
        self._try_password()

    def _try_password(self) -> None:
        field = self.query_one("#answer", Input)
        password, missing = field.value, self._missing
        if self._trying or not password:
            return
        self._trying = True
        field.clear()
        self._say("trying it …")

        def tried() -> None:
            self.call_later(self._tried, guarded(lambda: self._enter(missing, password)))

        # An encrypted key may take its time on purpose, and a broker, too.
        self.run_worker(tried, thread=True)

    def _tried(self, result: MissingPassword | TrimtabError | None) -> None:
        """Ask for the next password that is missing, or say why this one was refused."""
        self._trying = False
        match result:
            case None:
                self.dismiss(True)
            case TrimtabError() as error:
                self._say(" ".join(part for part in (error.title, error.next) if part))
            case missing:
                self._missing = missing
                self.query_one(".title", Label).update(missing.prompt)
                self._say("")
        self.query_one("#answer").focus()

    def _say(self, text: str) -> None:
        label = self.query_one("#result", Label)
        label.update(text)
        label.display = bool(text)
        self.share_height()
