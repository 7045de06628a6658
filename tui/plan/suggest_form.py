"""The suggest form's fields as typed: kept for the session, parsed into a PlanRequest.

Pure. What cannot be read is told by field, one short sentence each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, TypeVar

from core.cluster.state import ClusterState
from core.errors import UsageError
from core.plan.effect import BAND
from core.plan.plan import Plan
from core.plan.planner.conflicts import find_conflicts
from core.plan.planner.plan_request import (
    Field,
    Limits,
    Names,
    PlanRequest,
    frozen_partitions,
    parse_broker_ids,
    parse_broker_pairs,
)
from core.units import id_list, parse_duration, parse_size

_Read = TypeVar("_Read")


class FormField(NamedTuple):
    """A field of the form: what it is called, and what the planner calls it."""

    name: str
    label: str
    field: Field | None = None
    hint: str = ""
    """What is dim in it while it is empty."""
    own: bool = False
    """Whether what is wrong with it alone is said beside it."""


FIELDS = (
    FormField("drain", "drain", Field.DRAIN, "none; ids like 3,4", own=True),
    FormField("add", "add", Field.ADD, "none; ids of new ones", own=True),
    FormField("replace", "replace", Field.REPLACE, "none; old:new", own=True),
    FormField("replicas", "replicas", Field.REPLICAS, "as they are", own=True),
    FormField("brokers", "only on", Field.BROKERS, "any broker; ids", own=True),
    FormField("topics", "topics", None, "all; a pattern"),
    FormField("keep", "keep", Field.KEEP, "none; a pattern"),
    FormField("exclude", "exclude", Field.EXCLUDE, "no broker; ids", own=True),
    FormField("band", "band %", None, "10"),
    FormField("max_bytes", "max bytes", Field.MAX_BYTES, "no limit; like 500GB"),
    FormField("max_moves", "max moves", Field.MAX_MOVES, "no limit; like 200"),
    FormField("per_broker", "per broker", Field.MAX_PER_BROKER, "no limit; moves like 50"),
    FormField("max_replicas", "max replicas", Field.MAX_REPLICAS, "no limit on a broker"),
    FormField("within", "within", None, "no deadline; like 6h"),
)
TOGGLES = (
    FormField("leaders", "leaders only", Field.LEADERS),
    FormField("racks", "repair racks", Field.RACKS),
    FormField("ignore_racks", "ignore racks", Field.IGNORE_RACKS),
    FormField("keep_plan", "keep the plan"),
    FormField("disks", "log dirs", Field.DISKS),
    FormField("balance", "brokers too", Field.BALANCE),
)
NAMES: Names = {
    **{
        form_field.field: f'"{form_field.label}"'
        for form_field in (*FIELDS, *TOGGLES)
        if form_field.field is not None
    },
    Field.TIME_BUDGET: "the time",
}
"""What the form calls its fields, in sentences."""
CONTRADICTION = "together"
"""Where it says which fields contradict each other."""


@dataclass(frozen=True, slots=True)
class SuggestForm:
    """The form's fields as they stand; empty is nothing of it, or no limit."""

    drain: str = ""
    add: str = ""
    replace: str = ""
    replicas: str = ""
    brokers: str = ""
    leaders: bool = False
    racks: bool = False
    ignore_racks: bool = False
    disks: bool = False
    balance: bool = False
    """Whether brokers are evened out, too, where log dirs are."""
    topics: str = ""
    keep: str = ""
    exclude: str = ""
    band: str = "10"
    max_bytes: str = ""
    max_moves: str = ""
    per_broker: str = ""
    max_replicas: str = ""
    within: str = ""
    keep_plan: bool = False
    """Whether what is planned stays, and the rest is planned beside it."""


@dataclass(frozen=True, slots=True)
class SuggestRequest:
    """A wish that could be read: what the planner is to do, and by when the plan should be done."""

    goal: PlanRequest
    within_seconds: float | None

    @property
    def meaning(self) -> str:
        """Return in short sentences what is asked for."""
        goal, dirs = self.goal, self.goal.only_dirs
        broker, is_are = ("Broker", "is") if len(goal.drain) == 1 else ("Brokers", "are")
        pairs = (f"What {old} holds goes to {new}" for old, new in goal.replace)
        only = f", of {id_list(goal.brokers)} only" if dirs and goal.brokers else ""
        sentences = [
            ("Leaders are chosen anew; nothing is copied.", goal.leaders_only),
            (f"Partitions get {goal.replicas} replicas.", goal.replicas is not None),
            ("Racks are repaired.", goal.racks_only),
            (f"{', '.join(pairs)}.", goal.replace),
            (f"{broker} {id_list(goal.drain)} {is_are} emptied.", goal.drain),
            (f"{id_list(goal.fill)} get their share of the others.", goal.fill),
            (f"The topics end on {id_list(goal.brokers)} only.", goal.brokers and not dirs),
            ("Racks are ignored.", goal.ignore_racks),
            (f"Each broker's log dirs get within the band{only}.", goal.disks),
            ("Nothing moves between brokers.", dirs),
        ]
        words = " ".join(sentence for sentence, holds in sentences if holds)
        of = goal.brokers and not goal.only_dirs
        evens = not (goal.forces or goal.leaders_only or goal.fill or of or goal.only_dirs)
        even = "Disk, in, out, replicas and leaders of every broker get within the band."
        return f"{even} {words}".strip() if evens else words


def read(
    form: SuggestForm, state: ClusterState, plan: Plan | None = None
) -> tuple[SuggestRequest | None, Mapping[str, str]]:
    """Return what is asked for beside `plan`, or None and what is wrong with which field."""
    wrong: dict[str, str] = {}

    def take(name: str, get: Callable[[], _Read], otherwise: _Read) -> _Read:
        try:
            return get()
        except UsageError as error:
            wrong[name] = error.title
        except ValueError as error:
            wrong[name] = str(error)
        return otherwise

    goal = PlanRequest(
        leaders_only=form.leaders,
        drain=take("drain", lambda: _ids(form.drain), ()),
        fill=take("add", lambda: _ids(form.add), ()),
        replace=take("replace", lambda: _pairs(form.replace), ()),
        racks_only=form.racks,
        replicas=take("replicas", lambda: _count(form.replicas, "3"), None),
        brokers=take("brokers", lambda: _ids(form.brokers), ()),
        ignore_racks=form.ignore_racks,
        disks=form.disks,
        balance=form.balance,
        exclude=take("exclude", lambda: _ids(form.exclude), ()),
        topics=take("topics", lambda: _topics(form.topics, state), None),
        keep=take("keep", lambda: _topics(form.keep, state), None),
        kept=plan if form.keep_plan and plan is not None else Plan(),
        max_replicas=take("max_replicas", lambda: _count(form.max_replicas, "4000"), None) or inf,
        band=take("band", lambda: _band(form.band), BAND),
        limits=Limits(
            max_bytes=take("max_bytes", lambda: _size(form.max_bytes), inf),
            max_moves=take("max_moves", lambda: _count(form.max_moves, "200"), None) or inf,
            max_per_broker=take("per_broker", lambda: _count(form.per_broker, "50"), None) or inf,
        ),
    )
    seconds = take("within", lambda: _time(form.within), None)
    if not wrong:
        try:
            frozen_partitions(state, goal)
        except UsageError:
            wrong["keep"] = "It keeps every topic as it is."
    for refusal in find_conflicts(state, goal, NAMES):
        (first, *rest) = refusal.fields
        own = next(
            (
                form_field.name
                for form_field in FIELDS
                if form_field.own and form_field.field is first
            ),
            None,
        )
        if not rest and own is not None:
            wrong.setdefault(own, refusal.title)
        elif not wrong:
            wrong[CONTRADICTION] = f"{refusal.title} {refusal.next}"
    return (None, wrong) if wrong else (SuggestRequest(goal, seconds), {})


def _ids(text: str) -> tuple[int, ...]:
    try:
        return parse_broker_ids(text.strip(), "")
    except UsageError as error:
        raise ValueError("Broker ids are written like 3,4.") from error


def _pairs(text: str) -> tuple[tuple[int, int], ...]:
    try:
        return parse_broker_pairs(text.strip(), "")
    except UsageError as error:
        raise ValueError("Old and new are written like 3:7.") from error


def _topics(text: str, state: ClusterState) -> str | None:
    try:
        pattern = re.compile(text.strip())
    except re.error as error:
        raise ValueError(f"No regular expression: {error.msg}.") from error
    if pattern.pattern and not any(pattern.fullmatch(topic.name) for topic in state.topics):
        raise ValueError("No topic has such a name.")
    return pattern.pattern or None


def _band(text: str) -> float:
    number = text.strip().removesuffix("%").strip()
    try:
        band = float(number)
    except ValueError:
        band = 0.0
    if not 1 <= band <= 50:
        raise ValueError("A band is 1 to 50 percent.")
    return band / 100


def _size(text: str) -> float:
    return parse_size(text) if text.strip() else inf


def _count(text: str, like: str) -> int | None:
    if text.strip() and not (text.strip().isdecimal() and int(text)):
        raise ValueError(f"How many: a number like {like}.")
    return int(text) if text.strip() else None


def _time(text: str) -> float | None:
    seconds = parse_duration(text) if text.strip() else None
    if seconds is not None and not seconds > 0:
        raise ValueError("A time is longer than nothing.")
    return seconds
