"""What a scenario is: brokers, and a play that tells step by step what was expected and seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from core.cli.scenarios.stage import Stage


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that must be so: what was expected beside what was seen, in words."""

    what: str
    expected: str
    seen: str
    agrees: bool


def same(what: str, expected: object, seen: object) -> Step:
    """Return the step of something that must be exactly so."""
    return Step(what, str(expected), str(seen), expected == seen)


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
