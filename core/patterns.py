"""Matches names by regular expression, and suggests the nearest to a misspelt one."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable
from difflib import get_close_matches

from core.errors import UsageError
from core.text.terminal import printable

MAX_SHOWN = 200
"""Characters of an expression that a message quotes."""


def compiled(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return an expression that somebody wrote; raises re.error for whatever is wrong with it.

    What Python would warn its own programs of (`[[a]`) is no concern of who wrote it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return re.compile(text, flags)
        except OverflowError as error:
            raise re.error("a repetition is too large") from error
        except RecursionError as error:
            raise re.error("it is nested too deeply") from error


def pattern(text: str, label: str) -> re.Pattern[str]:
    """Return a compiled expression; raises UsageError, which `label` begins, for a wrong one.

    Names are not always of one line, a group's for one: a dot is any character.
    """
    try:
        return compiled(text, re.DOTALL)
    except re.error as error:
        shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
        raise UsageError(
            f"{label} {shown} is not a regular expression: {error}.", next="Fix the pattern."
        ) from error


def matching(text: str, label: str, names: Iterable[str], kind: str) -> list[str]:
    """Return the names that an expression matches as a whole; raises UsageError for none."""
    known = list(names)
    whole = pattern(text, label)
    matches = [name for name in known if whole.fullmatch(name)]
    if not matches:
        near = nearly(text, known)
        whole_name = f"Expressions must match a {kind}'s whole name, like orders.* for orders-eu."
        raise UsageError(f"No {kind} matches {text}.", next=near or whole_name)
    return matches


def is_whole(expression: str | None, name: str) -> bool:
    """Return whether an expression matches a name as a whole; None matches all there are."""
    return expression is None or re.fullmatch(expression, name, re.DOTALL) is not None


def named(name: str, names: Collection[str], kind: str) -> str:
    """Return `name` if it is among the names; raises UsageError with a near one otherwise."""
    if name in names:
        return name
    raise UsageError(f"There is no {kind} {name}.", next=nearly(name, names))


def nearly(text: str, names: Iterable[str]) -> str:
    """Return a question after what may have been meant; "" when nothing is near."""
    near = get_close_matches(text, list(names), n=3, cutoff=0.7)
    return f"Did you mean {' or '.join(map(printable, near))}?" if near else ""
