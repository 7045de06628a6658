"""Confirmation by typing the cluster's name, shared by dialogs that change the cluster.

Cancel has the focus at first, but what is typed, or pasted, is the name; on a box that is ticked
with space, too.
"""

from __future__ import annotations

from textual import events
from textual.widgets import Button, Input

from tui.dialogs.base import Answer, Dialog
from tui.dialogs.checkboxes import Tick


class ClusterNameDialog(Dialog[Answer]):
    """A dialog with an Input `#name`; `NamingDialog.typed` is what stands in it."""

    @property
    def entered_name(self) -> str:
        return self.query_one("#name", Input).value

    def on_key(self, event: events.Key) -> None:
        """Type what no widget took: also what was sent to a button that has lost focus since."""
        ticking = isinstance(self.focused, Tick) and event.key == "space"
        if not ticking and event.is_printable and event.character:
            self._type(event.character)
            event.stop()

    def on_paste(self, event: events.Paste) -> None:
        self._type(event.text.strip())
        event.stop()

    def _type(self, text: str) -> None:
        field = self.query_one("#name", Input)
        self.set_focus(field)
        field.value += text
        field.cursor_position = len(field.value)


class NamedButtonDialog(ClusterNameDialog[Answer]):
    """A dialog with one button that waits for the name to be typed."""

    BINDINGS = [
        ("escape", "leave", "Back"),
        ("down", "app.focus_next"),
        ("up", "app.focus_previous"),
    ]

    def __init__(self, name: str, button: str) -> None:
        """Have the button of this id wait for `name`."""
        super().__init__()
        self.cluster_name, self._waiting = name, f"#{button}"

    def on_input_changed(self) -> None:
        self.enable_buttons()

    def may_press(self, id: str) -> bool:
        named = self.entered_name == self.cluster_name
        return super().may_press(id) and (named or f"#{id}" != self._waiting)

    def on_input_submitted(self) -> None:
        """Enter after the name goes to the button; it takes one more key."""
        button = self.query_one(self._waiting, Button)
        if not button.disabled:
            button.focus()
