"""What an operator wants of a plan, and which wants are refused because they cannot be."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from core.cluster.state import Bool, ClusterState
from core.errors import UsageError
from core.plan.planner.moving import NO_LIMITS, Limits
from core.plan.planner.problem import BAND


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an operator wants of a plan; ids are brokers' and patterns are of topic names."""

    leaders_only: bool = False
    drain: tuple[int, ...] = ()
    fill: tuple[int, ...] = ()
    """Brokers that alone receive: new ones."""
    replace: tuple[tuple[int, int], ...] = ()
    racks_only: bool = False
    replicas: int | None = None
    """How many replicas every partition should have."""
    exclude: tuple[int, ...] = ()
    topics: str | None = None
    keep: str | None = None
    band: float = BAND
    limits: Limits = NO_LIMITS


def refuse(state: ClusterState, wanted: Wanted) -> None:
    """Raise UsageError for brokers that do not exist, and for wants that contradict each other."""
    known = state.broker_by_id
    old = [one for one, _ in wanted.replace]
    new = [other for _, other in wanted.replace]
    for broker in (*wanted.drain, *wanted.fill, *wanted.exclude, *old, *new):
        if broker not in known:
            raise UsageError(
                f"There is no broker {broker}.",
                next=f"The brokers are {', '.join(map(str, state.broker_ids.tolist()))}.",
            )
    for broker in (*wanted.fill, *new):
        if not known[broker].alive:
            raise UsageError(
                f"Broker {broker} is down and cannot receive anything.", next="Start it first."
            )
    asked = {
        "--leaders": wanted.leaders_only,
        "--drain": bool(wanted.drain),
        "--add": bool(wanted.fill),
        "--replace": bool(wanted.replace),
        "--racks": wanted.racks_only,
        "--rf": wanted.replicas is not None,
    }
    chosen = [name for name, is_asked in asked.items() if is_asked]
    if len(chosen) > 1:
        raise UsageError(
            f"{' and '.join(chosen)} want different things.", next="Ask for one plan at a time."
        )
    alive = sum(broker.alive for broker in state.brokers)
    if wanted.replicas is not None and not 1 <= wanted.replicas <= alive:
        raise UsageError(
            f"{wanted.replicas} replicas on {alive} brokers that are up: one each at most.",
            next=f"Ask for 1 to {alive}.",
        )
    both = set(wanted.drain) & set(wanted.exclude)
    if both:
        raise UsageError(
            f"Broker {min(both)} is to be drained and to be left as it is.",
            next="Take it out of --drain or of --exclude.",
        )


def untouched(state: ClusterState, wanted: Wanted) -> Bool:
    """Return the partitions that must not be touched, by their topics' names."""
    names = [topic.name for topic in state.topics]
    only = _pattern(wanted.topics, "--topics") if wanted.topics else None
    keep = _pattern(wanted.keep, "--keep") if wanted.keep else None
    touched = np.array(
        [
            (only is None or bool(only.fullmatch(name)))
            and not (keep is not None and keep.fullmatch(name))
            for name in names
        ],
        np.bool_,
    )
    if len(names) and not touched.any():
        raise UsageError(
            "No topic is left to plan for.", next="Check the patterns of --topics and --keep."
        )
    return ~touched[state.topic_of]


def _pattern(text: str, option: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(
            f"{option} {text} is no regular expression: {error}.", next="Mend the pattern."
        ) from error
