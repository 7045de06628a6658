"""Tests wait until the dashboard is at rest: nothing at work is missed, no failure is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hands import character, key_name, rested
from pictures import a_session, dashboard
from textual.worker import WorkerFailed


async def test_a_step_ends_when_what_it_brought_about_is_handled() -> None:
    """A message that brings another: the screen and the dashboard send it to and fro."""
    left = 20

    async with dashboard(a_session(), "load") as pilot:

        def pass_on() -> None:
            nonlocal left
            left -= 1
            if left:
                (pilot.app.screen if left % 2 else pilot.app).call_later(pass_on)

        pilot.app.call_later(pass_on)
        await pilot.pause()
        assert left == 0


@pytest.mark.parametrize(
    ("key", "name", "typed"),
    [
        *[("/", "slash", "/"), ("-", "minus", "-"), ("slash", "slash", "/"), ("a", "a", "a")],
        *[("space", "space", " "), ("ctrl+k", "ctrl+k", None), ("up", "up", None)],
    ],
)
def test_a_key_is_what_a_terminal_sends(key: str, name: str, typed: str | None) -> None:
    assert (key_name(key), character(key)) == (name, typed)


async def test_a_worker_that_a_newer_one_replaced_is_waited_past() -> None:
    """The first is replaced before its first step, the second in the middle, the third ends."""
    may_end, began = threading.Event(), threading.Event()
    done: list[str] = []

    def work(name: str) -> Callable[[], None]:
        def body() -> None:
            began.set()
            assert may_end.wait(30)
            done.append(name)

        return body

    async with dashboard(a_session(), "load") as pilot:
        for name in ("first", "second"):
            pilot.app.run_worker(work(name), thread=True, exclusive=True, group="test")
        while not began.is_set():
            await pilot.pause()
        pilot.app.run_worker(work("third"), thread=True, exclusive=True, group="test")
        pilot.app.set_timer(0.05, may_end.set)
        await rested(pilot)
        assert "third" in done


async def test_a_worker_that_another_one_starts_is_waited_for() -> None:
    done: list[str] = []
    async with dashboard(a_session(), "load") as pilot:

        async def last() -> None:
            done.append("last")

        async def first() -> None:
            pilot.app.run_worker(last())

        pilot.app.run_worker(first())
        await rested(pilot)
        assert done == ["last"]


async def test_a_worker_that_failed_fails_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))

    def work() -> None:
        raise RuntimeError("no such window")

    async def a_test() -> None:
        async with dashboard(a_session(), "load") as pilot:
            pilot.app.run_worker(work, thread=True)
            await rested(pilot)

    with pytest.raises(WorkerFailed, match="no such window"):
        await a_test()


async def test_what_never_ends_is_said_by_name() -> None:
    may_end = threading.Event()

    def endless() -> None:
        may_end.wait()

    async with dashboard(a_session(), "load") as pilot:
        pilot.app.run_worker(endless, thread=True)
        with pytest.raises(TimeoutError, match="endless"):
            await rested(pilot, seconds=0.05)
        may_end.set()
        await rested(pilot)
