"""Requests that contradict each other or cannot be met: one sentence each, with a remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from core.cluster.state import ClusterState
from core.errors import UsageError
from core.plan.planner.plan_request import FLAGS, INF, Field, Names, PlanRequest
from core.units import counted


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why nothing is planned; `fields` are those of which one has to change."""

    fields: tuple[Field, ...]
    title: str
    next: str


def refuse_conflicts(state: ClusterState, request: PlanRequest, names: Names = FLAGS) -> None:
    """Raise UsageError for brokers that do not exist, and for wants that contradict each other."""
    for refusal in find_conflicts(state, request, names):
        raise UsageError(refusal.title, next=refusal.next)


def find_conflicts(
    state: ClusterState, request: PlanRequest, names: Names = FLAGS
) -> Iterator[Conflict]:
    """Yield what is wrong with what is wanted; fields are called by their `names`."""
    yield from _unusable_brokers(state, request)
    yield from _exclusive_fields(request, names)
    yield from _conflicting_roles(request, names)
    yield from _invalid_replacements(request, names)
    yield from _scope_conflicts(request, names)
    yield from _too_few_brokers(state, request, names)
    yield from _excess_replicas(state, request, names)


def _unusable_brokers(state: ClusterState, request: PlanRequest) -> Iterator[Conflict]:
    known = state.broker_by_id
    receiving = {
        Field.ADD: request.fill,
        Field.REPLACE: request.new,
        Field.BROKERS: request.brokers,
    }
    named = {
        Field.DRAIN: request.drain,
        **receiving,
        Field.REPLACE: (*request.old, *request.new),
        Field.EXCLUDE: request.exclude,
    }
    absent = [(field, b) for field, brokers in named.items() for b in brokers if b not in known]
    for field, broker in absent[:1]:
        there = ", ".join(map(str, state.broker_ids.tolist()))
        yield Conflict((field,), f"There is no broker {broker}.", f"The brokers are {there}.")
        return
    down = [(field, b) for field, to in receiving.items() for b in to if not known[b].alive]
    for field, broker in down[:1]:
        title = f"Broker {broker} is down and cannot receive anything."
        yield Conflict((field,), title, "Start it first.")


def _exclusive_fields(request: PlanRequest, names: Names) -> Iterator[Conflict]:
    """Yield what has to copy where leaders alone are chosen, or where all is to be evened out."""
    forced = {
        Field.DRAIN: bool(request.drain),
        Field.ADD: bool(request.fill),
        Field.REPLACE: bool(request.replace),
        Field.RACKS: request.racks_only,
        Field.REPLICAS: request.replicas is not None,
    }
    copying = forced | {
        Field.BROKERS: bool(request.brokers),
        Field.DISKS: request.disks,
        Field.BALANCE: request.balance,
    }
    for field in (field for field, is_requested in copying.items() if is_requested):
        if request.leaders_only:
            yield Conflict(
                (Field.LEADERS, field),
                f"{names[Field.LEADERS]} copies nothing, and {names[field]} has to copy.",
                "Leave out one of the two.",
            )
        if request.balance and field in forced:
            yield Conflict(
                (Field.BALANCE, field),
                f"{names[Field.BALANCE]} evens all brokers out, and {names[field]} moves only what "
                "it has to.",
                "Leave out one of the two, and plan the rest once it is done.",
            )


def _conflicting_roles(request: PlanRequest, names: Names) -> Iterator[Conflict]:
    """Yield what is wanted of one broker twice, and is not the same."""
    drained = Field.DRAIN, request.drain, "to be drained"
    filled = Field.ADD, request.fill, "to be filled"
    replaced = Field.REPLACE, request.old, "to be replaced"
    taking = Field.REPLACE, request.new, "to take another's place"
    left = Field.EXCLUDE, request.exclude, "to be left as it is"
    only = Field.BROKERS, request.brokers, "one of those that alone hold the topics"
    pairs = [
        *((drained, other) for other in (filled, left, replaced, taking)),
        *((filled, other) for other in (left, replaced)),
        *((other, left) for other in (replaced, taking)),
        *((only, other) for other in (drained, replaced, left)),
    ]
    for (field, these, is_this), (other, those, is_that) in pairs:
        if both := set(these) & set(those):
            yield Conflict(
                (field, other),
                f"Broker {min(both)} is {is_this} and {is_that}.",
                f"Take it out of {names[field]} or of {names[other]}.",
            )


def _invalid_replacements(request: PlanRequest, names: Names) -> Iterator[Conflict]:
    """Yield pairs of which no plan follows: onto itself, twice, or one after the other."""
    name = names[Field.REPLACE]
    old, new = request.old, request.new
    for broker in dict.fromkeys(old):
        if (broker, broker) in request.replace:
            why = f"Broker {broker} is to take its own place."
        elif old.count(broker) > 1:
            why = f"Broker {broker} is to be replaced by two others."
        elif broker in new:
            why = f"Broker {broker} is to be replaced and to take another's place."
        else:
            continue
        yield Conflict((Field.REPLACE,), why, f"Give each broker one place in {name}.")


def _scope_conflicts(request: PlanRequest, names: Names) -> Iterator[Conflict]:
    """Yield what does not go with brokers that alone hold the topics, and with ignored racks."""
    only = names[Field.BROKERS]
    if request.brokers and request.fill:
        yield Conflict(
            (Field.BROKERS, Field.ADD),
            f"{only} and {names[Field.ADD]} both say which brokers receive.",
            f"Name those that hold all of it with {only}, or new ones with {names[Field.ADD]}.",
        )
    if request.brokers and (others := set(request.new) - set(request.brokers)):
        yield Conflict(
            (Field.BROKERS, Field.REPLACE),
            f"Broker {min(others)} is to take another's place, and is not of {only}.",
            f"Add it to {only}, or take it out of {names[Field.REPLACE]}.",
        )
    if request.racks_only and request.ignore_racks:
        racks, ignore = names[Field.RACKS], names[Field.IGNORE_RACKS]
        yield Conflict(
            (Field.RACKS, Field.IGNORE_RACKS),
            f"{racks} repairs what {ignore} ignores.",
            "Leave out one of the two.",
        )


def _too_few_brokers(state: ClusterState, request: PlanRequest, names: Names) -> Iterator[Conflict]:
    alive = set(state.alive_ids)
    leaving = [
        field
        for field, brokers in ((Field.DRAIN, request.drain), (Field.REPLACE, request.old))
        if alive & set(brokers)
    ]
    left = len((alive & set(request.brokers) if request.brokers else alive) - set(request.leaving))
    if leaving and not left:
        yield Conflict(
            tuple(leaving),
            "No broker that is up is left to take anything.",
            f"Take one out of {' or of '.join(names[field] for field in leaving)}.",
        )
    elif alive and not request.leaving and alive <= set(request.exclude):
        yield Conflict(
            (Field.EXCLUDE,),
            "No broker that is up is left to give or take anything.",
            f"Take one out of {names[Field.EXCLUDE]}.",
        )
    elif request.replicas is not None and request.replicas > left:
        of = [Field.BROKERS] if request.brokers else []
        among = f" of {names[Field.BROKERS]}" if of else ""
        without = f" without those of {' and '.join(names[f] for f in leaving)}" if leaving else ""
        yield Conflict(
            (Field.REPLICAS, *of, *leaving),
            f"{request.replicas} replicas on {left} brokers{among} that are up{without}: "
            "one each at most.",
            f"Ask for 1 to {left} with {names[Field.REPLICAS]}.",
        )


def _excess_replicas(state: ClusterState, request: PlanRequest, names: Names) -> Iterator[Conflict]:
    """Yield a limit of replicas for each broker that no evening out can keep."""
    if request.max_replicas == INF or request.brokers or request.forces or request.fill:
        return
    alive = set(state.alive_ids) - set(request.exclude)
    count = int((np.isin(state.replica_broker, list(alive)) & ~state.removing).sum())
    if alive and count > len(alive) * request.max_replicas:
        flag = names[Field.MAX_REPLICAS]
        yield Conflict(
            (Field.MAX_REPLICAS,),
            f"{count:,} replicas do not fit on {counted(len(alive), 'broker')} with "
            f"{request.max_replicas:,.0f} each.",
            f"Ask for {-(-count // len(alive)):,} or more with {flag}, or add brokers.",
        )
