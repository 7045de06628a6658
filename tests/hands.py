"""Keys and mouse for pictures and tests: each step waits for what it caused, not for the clock.

Textual's own pilot sleeps until the processor idles, which on a quiet machine is most of what a
test takes, and on a busy one gives up after a second.
"""

from __future__ import annotations

import asyncio
import time
import unicodedata
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from textual.app import App
from textual.events import Key
from textual.keys import KEY_NAME_REPLACEMENTS, REPLACED_KEYS, key_to_character
from textual.pilot import Pilot
from textual.screen import Screen
from textual.worker import Worker

from tui.map.screen import MapScreen

RESIZE_SECONDS = 1 / 120
"""How long Textual waits for a further change of size before it lays out anew."""


class Hands(Pilot[int]):
    """A pilot that goes on when nobody has a message left."""

    async def pause(self, delay: float | None = None) -> None:
        """Wait until every message, and all that it brought about, is handled and drawn.

        That takes two rounds without any: in the first, one may be taken and not yet handled.
        """
        quiet = 0
        await super().pause(delay or 0.0)
        while quiet < 2 and self.app.is_running:
            await self.app.animator.wait_until_complete()
            await super().pause(0.0)
            pumps = [self.app, *self.app.screen.walk_children(with_self=True)]
            undrawn = self._undrawn()
            for waiting in undrawn:
                # Textual forgets a frame that falls due while it changes screens.
                waiting.check_idle()
            busy = undrawn or any(pump.message_queue_size for pump in pumps)
            quiet = 0 if busy else quiet + 1

    def _undrawn(self) -> list[Screen[Any]]:
        """Return those of the screens in sight whose next frame brings something.

        No message tells of it. The stack begins with a screen of Textual's own: never drawn.
        """
        return [
            screen
            for screen in self.app.screen_stack[1:]
            if screen.is_current
            and (
                screen._layout_required
                or screen._repaint_required
                or screen._dirty_widgets
                or screen._callbacks  # of call_after_refresh, which may draw once more
            )
        ]

    async def press(self, *keys: str) -> None:
        for key in keys:
            self.app.post_message(Key(key_name(key), character(key)))
            await self.pause()

    async def resize_terminal(self, width: int, height: int) -> None:
        await super().resize_terminal(width, height)
        while self.app.screen.outer_size != (width, height):
            await self.pause(RESIZE_SECONDS)


def key_name(key: str) -> str:
    """Return a key as bindings name it: `/` is `slash`."""
    if len(key) > 1 or key.isalnum():
        return key
    name = unicodedata.name(key).lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


def character(key: str) -> str | None:
    """Return what a key types; None where it types nothing."""
    return key if len(key) == 1 else key_to_character(REPLACED_KEYS.get(key, key))


@asynccontextmanager
async def operated(app: App[int], size: tuple[int, int] = (80, 24)) -> AsyncIterator[Hands]:
    """Run the dashboard without a terminal, with hands on it."""
    async with app.run_test(size=size):
        hands = Hands(app)
        await hands.pause()
        yield hands


async def rested(pilot: Pilot[int], seconds: float = 60.0) -> None:
    """Wait until nothing is being worked out and all that was found is drawn.

    Workers are looked at anew after each wait: one that is replaced by a newer one only goes.
    """
    app = pilot.app
    deadline = time.monotonic() + seconds
    while True:
        idle = not list(app.workers)
        await pilot.pause()
        busy = isinstance(screen := app.screen, MapScreen) and screen.busy
        if idle and not busy and not list(app.workers):
            return
        left = deadline - time.monotonic()
        if left < 0:
            raise TimeoutError(f"still at work: {[worker.name for worker in app.workers]}")
        if isinstance(screen, MapScreen):
            screen.estimates.compute()
        await _ended(list(app.workers), left)


async def _ended(workers: Iterable[Worker[Any]], seconds: float) -> None:
    """Wait until these workers have ended, however they did: the dashboard tells of failures."""
    waits = [asyncio.ensure_future(worker.wait()) for worker in workers]
    if waits:
        done, _ = await asyncio.wait(waits, timeout=seconds)
        for ended in done:
            ended.exception()
