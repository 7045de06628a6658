"""The command palette: type a name or a key, enter does it. Commands are the table of actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from tui.actions.action import Action
from tui.actions.table import keys_of, written
from tui.drawing.canvas import Canvas, Row
from tui.screen.services import DashboardPart
from tui.screen.text_filter import pasted

WIDTH = 92
HELP_AT = 17
NAME_WIDTH = 40
SHOWN = 10


def rank(action: Action, words: str, keys: Mapping[str, str]) -> int | None:
    """Return how well an action answers what was typed, 0 best; None when not at all."""
    query = words.strip().lower()
    name = action.name.lower()
    if not query:
        return 5
    if query == name or words.strip() in [written(key) for key in keys_of(action, keys)]:
        return 0
    if name.startswith(query):
        return 1
    if query in name:
        return 2
    if all(word in f"{name} {action.help.lower()}" for word in query.split()):
        return 3
    return None


def matching_actions(
    actions: Sequence[Action], words: str, keys: Mapping[str, str]
) -> list[Action]:
    """Return the actions that answer what was typed, best first."""
    ranked = [
        (place, n, action)
        for n, action in enumerate(actions)
        if (place := rank(action, words, keys)) is not None
    ]
    return [action for _, _, action in sorted(ranked, key=lambda item: item[:2])]


class CommandScreen(ModalScreen[Action | None], DashboardPart[Action | None]):
    """Returns the action chosen, None when it was left."""

    DEFAULT_CSS = """
    CommandScreen { align: center top; background: $background 50%; }
    CommandScreen Canvas { margin-top: 2; max-width: 100%; max-height: 100%; }
    """

    def __init__(
        self, actions: Sequence[Action], elsewhere: Mapping[str, Sequence[Action]]
    ) -> None:
        """Offer `actions`; those `elsewhere`, by the screen's title, are only told of."""
        super().__init__()
        self._actions, self._elsewhere = actions, elsewhere
        self._words = ""
        self._at = 0

    def compose(self) -> ComposeResult:
        canvas = Canvas(id="commands")
        canvas.styles.width = WIDTH
        canvas.styles.height = SHOWN + 2
        yield canvas

    def on_resize(self, event: events.Resize) -> None:
        self._draw()

    @property
    def _matching_actions(self) -> list[Action]:
        return matching_actions(self._actions, self._words, self.dashboard.user_keys)

    @property
    def _nothing(self) -> str:
        """Say that nothing answers what was typed, and on which screen something does."""
        on = {action: title for title, actions in self._elsewhere.items() for action in actions}
        best = next(iter(matching_actions(list(on), self._words, self.dashboard.user_keys)), None)
        if best is None:
            return "no command is called that"
        key = written(keys_of(best, self.dashboard.user_keys)[0])
        return f"no command here; on {on[best]}: {best.name}, {key}"

    def on_key(self, event: events.Key) -> None:
        match event.key:
            case "escape":
                self.dismiss(None)
            case "enter":
                choices = self._matching_actions
                self.dismiss(choices[self._at] if choices else None)
            case "down" | "tab" | "ctrl+n":
                self._at = min(self._at + 1, max(0, len(self._matching_actions) - 1))
            case "up" | "shift+tab":
                self._at = max(0, self._at - 1)
            case "backspace":
                self._words, self._at = self._words[:-1], 0
            case _ if event.is_printable and event.character:
                self._words, self._at = self._words + event.character, 0
        event.stop()
        event.prevent_default()
        self._draw()

    def on_paste(self, event: events.Paste) -> None:
        self._words, self._at = self._words + pasted(event.text), 0
        event.stop()
        self._draw()

    def _draw(self) -> None:
        palette, width = self.dashboard.palette, min(WIDTH, self.size.width)
        choices = self._matching_actions
        head = Row(width, palette.style("text", "panel"))
        x = head.put(1, ":", palette.style("yours", "panel", bold=True))
        x = head.put(x + 1, self._words, palette.style("bright", "panel", bold=True))
        head.put(x, " ", palette.style("on_strong", "yours"))
        rows = [head]
        first = max(0, self._at - SHOWN + 1)
        for n, action in enumerate(choices[first : first + SHOWN], first):
            on = "cursor" if n == self._at else "panel"
            row = Row(width, palette.style("text", on))
            name = action.name if len(action.name) < NAME_WIDTH else action.name[:NAME_WIDTH] + "…"
            x = row.put(3, name, palette.style("bright" if n == self._at else "text", on))
            key = written(next(iter(keys_of(action, self.dashboard.user_keys)), ""))
            help_at = max(HELP_AT, x + 2)
            room = width - help_at - len(key) - 3
            help = action.help
            if len(help) > room:
                help = help[: max(0, room - 1)] + "…"
            row.put(help_at, help, palette.style("dim", on))
            row.put_right(width - 1, key, palette.style("yours", on))
            rows.append(row)
        if not choices:
            row = Row(width, palette.style("text", "panel"))
            row.put(3, self._nothing, palette.style("dim", "panel"))
            rows.append(row)
        while len(rows) < SHOWN + 2:
            rows.append(Row(width, palette.style("text", "panel")))
        self.query_one(Canvas).put_rows(rows)
