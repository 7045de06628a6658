"""What an autopilot may do, in words: said before it is set, wherever it stands, and in its log."""

from __future__ import annotations

from collections.abc import Iterable

from core.auto.settings import Settings
from core.errors import UsageError
from core.patterns import matching
from core.units import format_bytes, format_duration


def limits(settings: Settings) -> dict[str, str]:
    """Return each limit by its name, in the order in which they are read."""
    return {
        "acts": f"beyond {settings.start_band:.0%} for {format_duration(settings.lasting_seconds)}"
        f", aims for {settings.aim_band:.0%}",
        "budget": f"{format_bytes(settings.most_bytes_per_hour)} and "
        f"{settings.most_moves_per_hour} partitions in any hour",
        "benefit": f"{settings.least_benefit:g} shares evened for each share copied",
        "cool-down": f"{format_duration(settings.cool_down_seconds)} after any run or election",
        "busy hours": settings.avoid.text or "none",
        "windows": settings.only.text or "any time",
        "topics": settings.topics or "all",
        "keep": settings.keep or "none",
    }


def in_one_line(settings: Settings) -> str:
    """Return all limits as part of a sentence."""
    return "; ".join(f"{name} {text}" for name, text in limits(settings).items())


def unmatched(settings: Settings, topics: Iterable[str]) -> list[str]:
    """Return a sentence for each pattern that no topic matches (yet), with what may be meant."""
    known = list(topics)
    found = []
    for option, text in (("--topics", settings.topics), ("--keep", settings.keep)):
        if text is None:
            continue
        try:
            matching(text, option, known, "topic")
        except UsageError as error:
            found.append(f"{option}: {error.title} {error.next}")
    return found
