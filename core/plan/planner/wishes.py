"""Wishes as people write them: brokers, pairs and numbers, read alike wherever a plan is asked for.

Raises UsageError with one sentence about what is wrong; `name` is what the wish is called there.
"""

from __future__ import annotations

from core.errors import UsageError
from core.units import parse_id, parse_ids


def broker_ids(text: str | None, name: str) -> tuple[int, ...]:
    """Return the brokers of `3,4`, each once; nothing for nothing."""
    try:
        return tuple(dict.fromkeys(parse_ids(text))) if text else ()
    except UsageError as error:
        raise UsageError(
            f"{name} {text}: not broker ids.", next=f"Write them like {name} 3,4."
        ) from error


def broker_pairs(text: str | None, name: str) -> tuple[tuple[int, int], ...]:
    """Return the pairs of `3:7,4:8`, old before new; nothing for nothing."""
    try:
        pairs = [part.split(":") for part in text.split(",")] if text else []
        return tuple((parse_id(old), parse_id(new)) for old, new in pairs)
    except (UsageError, ValueError) as error:
        raise UsageError(
            f"{name} {text}: not a pair of broker ids.", next=f"Write it like {name} 3:7."
        ) from error
