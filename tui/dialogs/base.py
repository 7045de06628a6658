"""What every dialog of the dashboard is made of; those that ask for a line, a yes, or show errors.

Cancel is always there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Generic, TypeAlias, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, Label, Static

from core.errors import TrimtabError
from tui.drawing.page import text_of_lines
from tui.drawing.spans import Lines, fit
from tui.screen.services import DashboardPart
from tui.session import Session
from tui.theming import CLUSTER_COLORS

Answer = TypeVar("Answer")

FRAME = 5
"""Lines of a dialog beside its labels and words: edges, buttons, air."""
FIELD = 2
"""Lines that an input takes more."""


class Words(VerticalScroll, can_focus=False):
    """What a dialog says: it scrolls rather than push the buttons out of sight."""

    DEFAULT_CSS = "Words { height: auto; scrollbar-size: 1 1; }"

    @classmethod
    def of(cls, sentences: Sequence[str]) -> Words:
        return cls(Label("\n".join(sentences), markup=False))

    def renew(self, sentences: Sequence[str]) -> bool:
        """Say other sentences than those it was made of; return whether that changes anything."""
        label, text = self.query_one(Label), "\n".join(sentences)
        if label.content == text:
            return False
        label.update(text)
        return True


@dataclass(frozen=True, slots=True)
class Question:
    """What a dialog asks now: its words, and why buttons may not be pressed ("" if they say it)."""

    words: Sequence[str]
    refused: Mapping[str, str] = field(default_factory=dict)


Ask: TypeAlias = "Callable[[Session], Question]"
"""What is to be asked, as far as the dashboard knows by now."""


def body(title: str, content: Iterable[Widget], *buttons: Button) -> ComposeResult:
    """Compose a dialog: its title, what it says or asks beneath each other, its buttons."""
    with Vertical(classes="dialog"):
        yield Label(title, classes="title", markup=False)
        yield Label("", classes="lost", markup=False)
        yield from content
        yield Label("", classes="refused", markup=False)
        with Horizontal(classes="buttons"):
            yield from buttons


def button(id: str, words: str, *, disabled: bool = False) -> Button:
    return Button(words, id=id, compact=True, disabled=disabled)


class Dialog(ModalScreen[Answer], DashboardPart[Answer], Generic[Answer]):
    """How dialogs look: one quiet box; without colour it has a frame and focus is reversed."""

    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 60%; }
    Dialog .dialog {
        width: 78; max-width: 96%; height: auto; max-height: 96%;
        padding: 1 3; background: $surface;
    }
    Dialog .dialog Label { width: 100%; }
    Dialog .title { text-style: bold; margin-bottom: 1; }
    Dialog .dialog .lost { display: none; color: $error; text-style: bold; }
    Dialog .dialog .refused { display: none; color: $error; }
    Dialog .dim { color: $text-muted; }
    Dialog Input { margin: 1 0; background: $background; height: 1; border: none; padding: 0 1; }
    Dialog .buttons { height: 1; margin-top: 1; }
    Dialog Button { margin-right: 2; min-width: 12; background: $secondary; color: $foreground; }
    Dialog Button:focus { background: $primary; color: $background; text-style: bold; }
    Dialog Button:disabled { color: $text-muted; background: $background; }
    Dialog.-plain { background: transparent; }
    Dialog.-plain .dialog { border: solid $foreground; padding: 0 2; }
    Dialog.-plain Button:focus { text-style: bold reverse; }
    Dialog.-plain .buttons Button.-textual-compact { border: none !important; }
    Dialog.-plain .buttons Button.-textual-compact:disabled {
        border: none !important; text-style: dim;
    }
    Dialog.-plain Input { text-style: underline; }
    Dialog.-ascii .dialog { border: ascii $foreground; padding: 0 2; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
    ]

    def on_mount(self) -> None:
        self.set_class(self.dashboard.palette.plain, "-plain")
        self.set_class(self.dashboard.ascii_only, "-ascii")
        self._mark_cluster()
        self.show_lost(self.dashboard.session.lost_words)

    def _mark_cluster(self) -> None:
        """Have the box show which cluster it is about, by the colour that this is marked with."""
        color = self.dashboard.session.cluster_color
        box = self.query(".dialog")
        if color is not None and not self.dashboard.palette.plain and box:
            styles = box.first().styles
            if self.dashboard.ascii_only:
                styles.border_left = ("ascii", CLUSTER_COLORS[color])
            else:
                styles.border_left = ("thick", CLUSTER_COLORS[color])
                styles.padding = (1, 3, 1, 2)  # its words have the room that they have without

    def action_leave(self) -> None:
        """Leave without an answer."""
        self.dismiss(None)

    def dismiss(self, result: Answer | None = None) -> AwaitComplete:
        """Leave; what lies above (a question about leaving the dashboard) goes unanswered first.

        Textual takes away whatever is on top: this one would stay, and could be left by no key.
        """
        if self not in self.app.screen_stack:
            return AwaitComplete()
        while (above := self.app.screen) is not self:
            above.dismiss(None)
        return super().dismiss(result)

    def on_resize(self) -> None:
        self.share_height()

    def share_height(self) -> None:
        """Have the words scroll where there is less room than they need."""
        for words in self.query(Words):
            words.styles.max_height = max(self.room, 1)

    @property
    def room(self) -> int:
        """Return the lines that are left beside frame, labels, field and buttons."""
        labels = [
            label
            for label in self.query(Label)
            if not isinstance(label.parent, Words) and label.display
        ]
        field = FIELD if self.query(Input) else 0
        return int(self.size.height * 0.96) - FRAME - field - self.lines(labels, self.width)

    @property
    def width(self) -> int:
        """Return the columns inside the dialog."""
        return min(78, int(self.size.width * 0.96)) - 6

    def lines(self, widgets: Iterable[Widget], width: int) -> int:
        """Return how many lines these take beneath each other."""
        return sum(widget.get_content_height(self.size, self.size, width) for widget in widgets)

    def show_lost(self, words: str) -> None:
        """Say since when the cluster does not answer; "" while it does."""
        for label in self.query(".lost").results(Label):
            if label.display != bool(words):
                label.update(f"{words[:1].upper()}{words[1:]}: this is what was known then.")
                label.display = bool(words)
                self.share_height()

    refused: Mapping[str, str] = MappingProxyType({})
    """Why buttons may not be pressed now, by their ids."""

    def renew(self, question: Question) -> None:
        """Ask what is to be asked now: other words, other buttons that may be pressed."""
        anew = self.query(Words).first().renew(question.words)
        self.refused = question.refused
        why = " ".join(dict.fromkeys(filter(None, question.refused.values())))
        for label in self.query(".refused").results(Label):
            if label.content != why:
                label.update(why)
                label.display, anew = bool(why), True
        self.enable_buttons()
        if anew:
            self.call_after_refresh(self.share_height)

    def may_press(self, id: str) -> bool:
        """Return whether this button may be pressed now."""
        return id not in self.refused

    def enable_buttons(self) -> None:
        """Enable the buttons that may be pressed; one that has the focus leaves it to the first."""
        first, *others = self.query(Button)
        for other in others:
            disabled = not self.may_press(other.id or "")
            if disabled and other.has_focus:
                first.focus()
            other.disabled = disabled

    def put(self, id: str, lines: Lines) -> None:
        """Show lines in a Static of this dialog."""
        dashboard = self.dashboard
        text = text_of_lines(lines, dashboard.palette, ascii_only=dashboard.ascii_only)
        self.query_one(id, Static).update(text)

    def action_page(self, pages: int) -> None:
        for words in list(self.query(Words))[:1]:
            words.scroll_relative(y=pages * words.size.height, animate=False)


class AskDialog(Dialog[str | None]):
    """Asks for one line; the answer is None when it is left with Cancel or escape."""

    BINDINGS = [("escape", "leave", "Cancel")]

    def __init__(self, question: str, proposal: str, yes: str) -> None:
        super().__init__()
        self._question, self._proposal, self._yes = question, proposal, yes

    def compose(self) -> ComposeResult:
        field = Input(self._proposal, compact=True, id="answer")
        return body(self._question, (field,), button("cancel", "Cancel"), button("yes", self._yes))

    def on_mount(self) -> None:
        self.query_one("#answer").focus()

    def on_input_submitted(self) -> None:
        self._answer()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "yes":
            self._answer()
        else:
            self.dismiss(None)

    def _answer(self) -> None:
        self.dismiss(self.query_one("#answer", Input).value.strip() or None)


class AnswerDialog(Dialog[Answer]):
    """Asks which; the first button is the way back: it is focused, and escape takes it."""

    BINDINGS = [("escape", "leave", "Back")]

    def __init__(self, title: str, ask: Ask, *answers: tuple[str, str, Answer]) -> None:
        """`answers` are a button's id and words, and what it returns."""
        super().__init__()
        self._title_text, self._ask, self._answers = title, ask, answers

    def compose(self) -> ComposeResult:
        words = Words.of(self._ask(self.dashboard.session).words)
        buttons = [button(id, text) for id, text, _ in self._answers]
        return body(self._title_text, (words, *self.fields()), *buttons)

    def fields(self) -> Iterable[Widget]:
        """Return what is to be filled in below the words."""
        return ()

    def on_mount(self) -> None:
        self.query_one(f"#{self._answers[0][0]}").focus()
        self.follow(self.dashboard.session)

    def follow(self, session: Session) -> None:
        """Ask what is to be asked now."""
        self.renew(self._ask(session))

    def action_leave(self) -> None:
        self.dismiss(self._answers[0][2])

    def on_button_pressed(self, event: Button.Pressed) -> None:
        answers = {id: answer for id, _, answer in self._answers}
        self.dismiss(answers[event.button.id or ""])


class ChoiceDialog(AnswerDialog[Answer]):
    """Asks with nothing to be filled in: arrows go from button to button."""

    BINDINGS = [("left", "app.focus_previous"), ("right", "app.focus_next")]


class ConfirmDialog(ChoiceDialog[bool]):
    """Asks for a yes."""

    def __init__(self, title: str, ask: Ask, *, no: str, yes: str) -> None:
        super().__init__(title, ask, ("no", no, False), ("yes", yes, True))


class TableDialog(Dialog[Answer | None], Generic[Answer]):
    """Asks to choose among lines, which are drawn for the columns that there are."""

    BINDINGS = [("escape", "leave", "Back")]
    KEYS: ClassVar[Mapping[str, int]] = {"up": -1, "k": -1, "down": 1, "j": 1}
    """How far a key moves the cursor."""

    def __init__(self, no: str, yes: str) -> None:
        super().__init__()
        self._no, self._yes = no, yes
        self._drawn: Lines = ()

    @property
    @abstractmethod
    def _title(self) -> str:
        """Return what is to be chosen."""

    @property
    @abstractmethod
    def chosen(self) -> Answer | None:
        """Return what is chosen; None while that cannot be taken."""

    @abstractmethod
    def table(self, width: int) -> Lines:
        """Return the lines as they are now."""

    @abstractmethod
    def step(self, rows: int) -> None:
        """Move the cursor."""

    def table_widget(self) -> Static:
        return Static(id="table")

    def compose(self) -> ComposeResult:
        buttons = button("no", self._no), button("yes", self._yes, disabled=True)
        return body(self._title, (self.table_widget(),), *buttons)

    def on_mount(self) -> None:
        self.query_one("#no").focus()
        self.draw()

    def on_resize(self) -> None:
        self.draw()

    def draw(self) -> None:
        lines = tuple(fit(line, self.width) for line in self.table(self.width))
        if lines != self._drawn:
            self._drawn = lines
            self.put("#table", lines)
        button, refused = self.query_one("#yes", Button), self.chosen is None
        if refused and button.has_focus:
            self.query_one("#no").focus()
        button.disabled = refused

    def on_key(self, event: events.Key) -> None:
        step = self.KEYS.get(event.key)
        if step is not None:
            event.stop()
            event.prevent_default()
            self.step(step)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(self.chosen if event.button.id == "yes" else None)


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
                yield button("close", "Close")

    def on_mount(self) -> None:
        self.query_one("#close", Button).focus()

    def on_button_pressed(self) -> None:
        self.dismiss(None)
