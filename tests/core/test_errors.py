"""Errors are sentences that do nothing to a terminal, whatever they quote."""

from __future__ import annotations

from core.errors import MAX_TITLE, TrimtabError


def test_control_characters_in_errors_are_replaced() -> None:
    error = TrimtabError("No \x1b[2J\n\x9b.", detail="a\n\x07b", next="\ud800\u202e")
    assert error.title == "No \ufffd[2J \ufffd."
    assert error.detail == "a\n\ufffdb"
    assert all(line.isprintable() for line in str(error).splitlines())
    assert error.args == (error.title,)


def test_overlong_error_titles_are_truncated_with_an_ellipsis() -> None:
    assert TrimtabError("x" * MAX_TITLE).title == "x" * MAX_TITLE
    long = TrimtabError("x" * 100_000).title
    assert (len(long), long[-1]) == (MAX_TITLE, "…")
