"""What of the timeline is asked for: the words that are typed, and the kind."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from textual import events

from tui.actions import TIMELINE, actions_of, keys_of
from tui.map_moves import type_filter
from tui.past import Asked
from tui.screens.base import DashboardScreen


class Asking(DashboardScreen):
    """The part of the Timeline that filters."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = Asked()
        self.typing = False

    @property
    @abstractmethod
    def can_ask(self) -> bool:
        """Return whether there is anything to filter."""

    @abstractmethod
    def asked_anew(self) -> None:
        """Find what is asked for now."""

    def ask(self, asked: Asked) -> None:
        self.asked = asked
        self.asked_anew()

    def action_kind(self) -> None:
        self.ask(replace(self.asked, kind=self.asked.next_kind()))

    def action_filter(self) -> None:
        if self.can_ask:
            self.typing = True
            self.show(self.session)

    def on_key(self, event: events.Key) -> None:
        """Keys go to the filter while it is being typed; it opens here, as on the map."""
        super().on_key(event)
        if not self.typing:
            if event.key in keys_of(_FILTER, self.trimtab.user_keys):
                event.stop()
                event.prevent_default()
                self.action_filter()
            return
        typed = type_filter(self.asked.words, event.key, event.character)
        if typed is None:
            return
        words, self.typing = typed
        event.stop()
        event.prevent_default()
        self.ask(replace(self.asked, words=words))


_FILTER = next(action for action in actions_of(TIMELINE) if action.id == "filter")
