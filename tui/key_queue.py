"""Keys that are typed faster than the dashboard draws reach what they were meant for.

Textual addresses a key as it comes: what is typed behind a key that opens a dialog goes to the
screen beneath, or to the dialog before it has its fields and its focus. Here the next key waits
until the one before has done all that it does.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from textual import events
from textual.app import App
from textual.message_pump import MessagePump

LONGEST_SECONDS = 10.0
"""How long a key may take until the next one waits for it no longer."""
MAX_ROUNDS = 10


class KeyQueue:
    """Hands keys, and what is pasted, on to the dashboard one by one."""

    def __init__(self, app: App[int], hand_on: Callable[[events.Event], Awaitable[None]]) -> None:
        self._app, self._hand_on = app, hand_on
        self._waiting: deque[events.Event] = deque()
        self._handed_on: float | None = None
        """When the key that is being handled was handed on; None while none is."""

    @property
    def busy(self) -> bool:
        """Return whether something that was typed is still being handled, or waits for that."""
        return self._handed_on is not None

    async def add(self, event: events.Event) -> None:
        self._waiting.append(event)
        handed_on, now = self._handed_on, time.monotonic()
        if handed_on is None and self._is_idle:
            await self._forward_next_key()
        elif handed_on is None or now - handed_on > LONGEST_SECONDS:
            # A dialog that nobody asked for by a key may be coming just now, too.
            self._handed_on = now
            await self._forward_when_handled(self._key_receivers())

    @property
    def _is_idle(self) -> bool:
        """Return whether the screen has all its fields, and nothing is left to be handled."""
        if not self._app.screen_stack or not self._app.screen.is_mounted:
            return False
        return not any(pump.message_queue_size for pump in self._key_receivers())

    async def _forward_next_key(self) -> None:
        if not self._waiting:
            self._handed_on = None
            return
        self._handed_on = time.monotonic()
        pumps = self._key_receivers()
        await self._hand_on(self._waiting.popleft())
        await self._forward_when_handled(pumps)

    async def _forward_when_handled(self, pumps: Sequence[MessagePump]) -> None:
        """Hand the next key on once nothing comes of the last one, which these were told of.

        A key goes up to the dashboard, what it brings about (a button is pressed) goes up once
        more, and a dialog that this opens or closes has its own to do.
        """
        before, left, rounds = [*pumps], deque(pumps), 1

        async def step() -> None:
            nonlocal before, rounds
            while True:
                while left:  # each in turn, once it has handled what it was sent so far
                    if left.popleft().post_message(events.Callback(step)):
                        return
                now = self._key_receivers()
                if rounds > 1 and (now == before or rounds == MAX_ROUNDS):
                    await self._forward_next_key()
                    return
                before, rounds = now, rounds + 1
                left.extend(now)

        await step()

    def _key_receivers(self) -> list[MessagePump]:
        """Return who is told of a key now, one after the other."""
        app = self._app
        if not app.screen_stack:
            return [app]
        pump: MessagePump | None = app.focused or app.screen
        pumps = []
        while pump is not None:
            pumps.append(pump)
            pump = pump._parent
        return pumps if app in pumps else [*pumps, app]
