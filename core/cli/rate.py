"""The words of `--throttle`: a rate, none at all, or one that adapts itself within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from core.errors import UsageError
from core.units import parse_rate

if TYPE_CHECKING:
    from core.run.limits.pace import Bounds

AUTO: Literal["auto"] = "auto"


def parse_throttle(text: str) -> int | Bounds | Literal["auto"]:
    """Return a rate in bytes/s (UNLIMITED for none), `auto`, or the bounds of `auto:LEAST-MOST`.

    Raises UsageError for anything else.
    """
    word, _, rest = text.strip().partition(":")
    if word.lower() != AUTO:
        return parse_rate(text)
    if not rest and ":" not in text:
        return AUTO
    from core.run.limits.pace import Bounds

    least, dash, most = rest.partition("-")
    if not dash:
        raise UsageError(f"Not bounds: {rest!r}.", next="Write them like auto:5MB/s-50MB/s.")
    return Bounds.of(parse_rate(least), parse_rate(most))
