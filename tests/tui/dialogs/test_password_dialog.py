"""The dialog that asks for a password before the cluster is connected to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from encrypted_key import PASSWORD, properties_with_key
from hands import operated, rested
from textual.widgets import Input, Label

from core import passwords
from core.cluster.connect import Address, missing_password
from tui.app import TrimtabApp
from tui.dialogs.password import PasswordDialog
from tui.feed.feed import Feed
from tui.screen.header import HeaderLine
from tui.session import Session


class Started:
    """A feed that only notes how it is started."""

    def __init__(self) -> None:
        self.forks: list[bool] = []

    def start(self, *, fork: bool = True) -> None:
        self.forks.append(fork)

    def attach(self, deliver: Any) -> None: ...

    def stop(self) -> None: ...


async def test_wrong_password_is_reported_and_prompted_for_until_correct_or_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "_known", {})
    address = Address("127.0.0.1:1", properties_with_key(tmp_path))
    missing = missing_password(address)
    assert missing is not None
    for last, forks, aborted in (("enter", [False], False), ("escape", [], True)):
        passwords.forget(missing)
        feed = Started()
        session = Session("127.0.0.1:1", address=address)
        app = TrimtabApp(session, feed=cast(Feed, feed), missing=missing)
        async with operated(app) as pilot:
            dialog = app.screen
            assert isinstance(dialog, PasswordDialog)
            field, result = dialog.query_one(Input), dialog.query_one("#result", Label)
            await pilot.press("enter")
            assert not result.display, "an empty line is no try"
            header = app.screen_stack[-2].query_one(HeaderLine)
            assert "waiting for a password" in header.text
            await pilot.press("w", "q", "enter")
            await rested(pilot)
            assert app.screen is dialog
            assert result.display
            assert (field.value, app.focused) == ("", field)
            for key in PASSWORD:
                await pilot.press("space" if key == " " else key)
            await pilot.press("home", "shift+end", "ctrl+c", "ctrl+x")
            assert (field.value, app.clipboard) == (PASSWORD, "")
            assert PASSWORD not in app.export_screenshot().replace("&#160;", " ")
            assert not feed.forks
            await pilot.press(last)
            await rested(pilot)
            assert app.screen is not dialog
            assert (feed.forks, app.aborted, app._exit) == (forks, aborted, aborted)
