"""What of the timeline is asked for: the words that are typed, and the kind."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from tui.screen.list_screen import Filtering
from tui.timeline.history import TimelineFilter


class TimelineFiltering(Filtering):
    """The part of the Timeline that filters."""

    def __init__(self) -> None:
        super().__init__()
        self.timeline_filter = TimelineFilter()

    @abstractmethod
    def filter_changed(self) -> None:
        """Find what is asked for now."""

    def set_filter(self, timeline_filter: TimelineFilter) -> None:
        self.timeline_filter = timeline_filter
        self.filter_changed()

    @property
    def words(self) -> str:
        return self.timeline_filter.words

    def filter_by(self, words: str) -> None:
        self.set_filter(replace(self.timeline_filter, words=words))

    def action_kind(self) -> None:
        self.set_filter(replace(self.timeline_filter, kind=self.timeline_filter.next_kind()))
