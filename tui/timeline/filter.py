"""What of the timeline is asked for: the words that are typed, and the kind."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from tui.screen.list_screen import Filtering
from tui.timeline.history import Asked


class Asking(Filtering):
    """The part of the Timeline that filters."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = Asked()

    @abstractmethod
    def asked_anew(self) -> None:
        """Find what is asked for now."""

    def ask(self, asked: Asked) -> None:
        self.asked = asked
        self.asked_anew()

    @property
    def words(self) -> str:
        return self.asked.words

    def filter_by(self, words: str) -> None:
        self.ask(replace(self.asked, words=words))

    def action_kind(self) -> None:
        self.ask(replace(self.asked, kind=self.asked.next_kind()))
