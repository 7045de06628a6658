"""What a scenario is: brokers, and a play that tells step by step what was expected and seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from core.errors import TrimtabError
from tests.acceptance.stage import Stage


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that must be so: what was expected beside what was seen, in words."""

    what: str
    expected: str
    actual: str
    agrees: bool


def same(what: str, expected: object, actual: object) -> Step:
    """Return the step of something that must be exactly so."""
    return Step(what, str(expected), str(actual), expected == actual)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A situation by its name, the brokers it wants, and its play.

    `brokers` are in the order in which racks go round; `racks` 0 is none. The play yields each
    step once it is known, and works on any brokers that are as many, and spread over racks at
    least as well: it takes their ids from the stage.
    """

    name: str
    about: str
    brokers: tuple[int, ...]
    racks: int
    play: Callable[[Stage], Iterator[Step]]
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Settings of its brokers; the short form must do without."""


SECONDS = 60.0
_T = TypeVar("_T")


def wait_until(holds: Callable[[], bool], what: str, *, seconds: float = SECONDS) -> None:
    """Return once it holds; raises TrimtabError after so long, saying what was waited for."""
    wait_for(holds, bool, what, seconds=seconds)


def wait_for(
    look: Callable[[], _T], holds: Callable[[_T], bool], what: str, *, seconds: float = SECONDS
) -> _T:
    """Return the first look for which it holds: another one may ask a broker that is behind.

    Raises TrimtabError as `until` does.
    """
    deadline = time.monotonic() + seconds
    while not holds(value := look()):
        if time.monotonic() > deadline:
            raise TrimtabError(f"Waited {seconds:.0f} s until {what}, in vain.")
        time.sleep(0.1)
    return value
