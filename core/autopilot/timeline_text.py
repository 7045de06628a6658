"""How each clause about an autopilot begins on the timeline, by which it is told from others."""

from __future__ import annotations

from enum import Enum


class Clause(Enum):
    """What is told; the value is how its text begins."""

    SET = "was set to"
    ACTS = "decided to act:"
    SUGGESTS = "would have acted:"
    ELECTED = "elected:"
    STARTED = "started run"
    FAILED = "did not act:"
    ENDED = "saw run"
    WAITED = "waited:"

    def with_(self, text: str) -> str:
        return f"{self.value} {text}"


def clause_of(text: str) -> Clause | None:
    """Return what a text of the timeline tells; None for one of another version's."""
    return next((clause for clause in Clause if text.startswith(f"{clause.value} ")), None)


def mode_of(text: str) -> str:
    """Return the mode that a text of `Clause.SET` names."""
    return text.removeprefix(Clause.SET.value).split()[0]
