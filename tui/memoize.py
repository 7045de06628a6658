"""Remembers what was reckoned last, while it is asked of the very same objects again."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from operator import is_
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


def memoize_last(work: Callable[[*Arguments], T]) -> Callable[[*Arguments], T]:
    """Return a function that gives its last answer again for the same arguments.

    The same objects, not equal ones: to compare thousands of values takes as long as the work.
    Only of what cannot change, and for the event loop alone.
    """
    known: tuple[tuple[*Arguments], T] | None = None

    @wraps(work)
    def remembering(*arguments: *Arguments) -> T:
        nonlocal known
        if known is None or not all(map(is_, known[0], arguments)):
            known = arguments, work(*arguments)
        return known[1]

    return remembering
