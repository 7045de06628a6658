"""What the feed saw, as a message from a reading thread to the event loop."""

from __future__ import annotations

from textual.message import Message

from tui.feed_events import Event as FeedEvent
from tui.feed_events import PictureSeen


class Seen(Message):
    """Something the feed saw, on its way from a reading thread to the event loop."""

    def __init__(self, event: FeedEvent) -> None:
        super().__init__()
        self.event = event

    def can_replace(self, message: Message) -> bool:
        """A newer picture makes one that nobody has looked at yet superfluous."""
        return (
            isinstance(message, Seen)
            and isinstance(self.event, PictureSeen)
            and isinstance(message.event, PictureSeen)
        )
