"""Which wants cannot be together, or cannot be at all: one sentence each, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from core.cluster.state import ClusterState
from core.errors import UsageError
from core.plan.planner.request import FLAGS, INF, Field, Names, Wanted
from core.units import counted


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing is planned; `fields` are those of which one has to change."""

    fields: tuple[Field, ...]
    title: str
    next: str


def refuse(state: ClusterState, wanted: Wanted, names: Names = FLAGS) -> None:
    """Raise UsageError for brokers that do not exist, and for wants that contradict each other."""
    for refusal in refusals(state, wanted, names):
        raise UsageError(refusal.title, next=refusal.next)


def refusals(state: ClusterState, wanted: Wanted, names: Names = FLAGS) -> Iterator[Refusal]:
    """Yield what is wrong with what is wanted; fields are called by their `names`."""
    yield from _unknown(state, wanted)
    yield from _leaders(wanted, names)
    yield from _balance(wanted, names)
    yield from _twice(wanted, names)
    yield from _replaced(wanted, names)
    yield from _scope(wanted, names)
    yield from _too_few(state, wanted, names)
    yield from _too_many(state, wanted, names)


def _unknown(state: ClusterState, wanted: Wanted) -> Iterator[Refusal]:
    known = state.broker_by_id
    named = {
        Field.DRAIN: wanted.drain,
        Field.ADD: wanted.fill,
        Field.REPLACE: tuple(broker for pair in wanted.replace for broker in pair),
        Field.BROKERS: wanted.brokers,
        Field.EXCLUDE: wanted.exclude,
    }
    for field, brokers in named.items():
        for broker in brokers:
            if broker not in known:
                there = ", ".join(map(str, state.broker_ids.tolist()))
                yield Refusal(
                    (field,), f"There is no broker {broker}.", f"The brokers are {there}."
                )
                return
    receiving = {Field.ADD: wanted.fill, Field.REPLACE: wanted.new, Field.BROKERS: wanted.brokers}
    for field, brokers in receiving.items():
        for broker in brokers:
            if not known[broker].alive:
                yield Refusal(
                    (field,),
                    f"Broker {broker} is down and cannot receive anything.",
                    "Start it first.",
                )
                return


def _leaders(wanted: Wanted, names: Names) -> Iterator[Refusal]:
    """Leaders alone copy nothing: with anything that has to copy they contradict."""
    if not wanted.leaders_only:
        return
    copying = {
        Field.DRAIN: bool(wanted.drain),
        Field.ADD: bool(wanted.fill),
        Field.REPLACE: bool(wanted.replace),
        Field.RACKS: wanted.racks_only,
        Field.REPLICAS: wanted.replicas is not None,
        Field.BROKERS: bool(wanted.brokers),
        Field.DISKS: wanted.disks,
        Field.BALANCE: wanted.balance,
    }
    for field, asked in copying.items():
        if asked:
            yield Refusal(
                (Field.LEADERS, field),
                f"{names[Field.LEADERS]} copies nothing, and {names[field]} has to copy.",
                "Leave out one of the two.",
            )


def _balance(wanted: Wanted, names: Names) -> Iterator[Refusal]:
    """Yield what moves only what it has to, where all brokers are to be evened out."""
    forced = {
        Field.DRAIN: bool(wanted.drain),
        Field.ADD: bool(wanted.fill),
        Field.REPLACE: bool(wanted.replace),
        Field.RACKS: wanted.racks_only,
        Field.REPLICAS: wanted.replicas is not None,
    }
    for field, asked in forced.items():
        if wanted.balance and asked:
            yield Refusal(
                (Field.BALANCE, field),
                f"{names[Field.BALANCE]} evens all brokers out, and {names[field]} moves only what "
                "it has to.",
                "Leave out one of the two, and plan the rest once it is done.",
            )


def _twice(wanted: Wanted, names: Names) -> Iterator[Refusal]:
    """Yield what is wanted of one broker twice, and is not the same."""
    drain, add, left = Field.DRAIN, Field.ADD, Field.EXCLUDE
    replace = Field.REPLACE
    roles: list[tuple[Field, Collection[int], str, Field, Collection[int], str]] = [
        (drain, wanted.drain, "to be drained", add, wanted.fill, "to be filled"),
        (drain, wanted.drain, "to be drained", left, wanted.exclude, "to be left as it is"),
        (drain, wanted.drain, "to be drained", replace, wanted.old, "to be replaced"),
        (drain, wanted.drain, "to be drained", replace, wanted.new, "to take another's place"),
        (add, wanted.fill, "to be filled", left, wanted.exclude, "to be left as it is"),
        (add, wanted.fill, "to be filled", replace, wanted.old, "to be replaced"),
        (replace, wanted.old, "to be replaced", left, wanted.exclude, "to be left as it is"),
        (
            replace,
            wanted.new,
            "to take another's place",
            left,
            wanted.exclude,
            "to be left as it is",
        ),
    ]
    only, is_only = Field.BROKERS, "one of those that alone hold the topics"
    roles += [
        (only, wanted.brokers, is_only, field, brokers, words)
        for field, brokers, words in (
            (drain, wanted.drain, "to be drained"),
            (replace, wanted.old, "to be replaced"),
            (left, wanted.exclude, "to be left as it is"),
        )
    ]
    for one, these, is_this, other, those, is_that in roles:
        if both := set(these) & set(those):
            yield Refusal(
                (one, other),
                f"Broker {min(both)} is {is_this} and {is_that}.",
                f"Take it out of {names[one]} or of {names[other]}.",
            )


def _replaced(wanted: Wanted, names: Names) -> Iterator[Refusal]:
    """Yield pairs of which no plan follows: onto itself, twice, or one after the other."""
    name = names[Field.REPLACE]
    old, new = wanted.old, wanted.new
    for broker in dict.fromkeys(old):
        if (broker, broker) in wanted.replace:
            why = f"Broker {broker} is to take its own place."
        elif old.count(broker) > 1:
            why = f"Broker {broker} is to be replaced by two others."
        elif broker in new:
            why = f"Broker {broker} is to be replaced and to take another's place."
        else:
            continue
        yield Refusal((Field.REPLACE,), why, f"Give each broker one place in {name}.")


def _scope(wanted: Wanted, names: Names) -> Iterator[Refusal]:
    """Yield what does not go with brokers that alone hold the topics, and with ignored racks."""
    only = names[Field.BROKERS]
    if wanted.brokers and wanted.fill:
        yield Refusal(
            (Field.BROKERS, Field.ADD),
            f"{only} and {names[Field.ADD]} both say which brokers receive.",
            f"Name those that hold all of it with {only}, or new ones with {names[Field.ADD]}.",
        )
    if wanted.brokers and (others := set(wanted.new) - set(wanted.brokers)):
        yield Refusal(
            (Field.BROKERS, Field.REPLACE),
            f"Broker {min(others)} is to take another's place, and is not of {only}.",
            f"Add it to {only}, or take it out of {names[Field.REPLACE]}.",
        )
    if wanted.racks_only and wanted.ignore_racks:
        racks, ignore = names[Field.RACKS], names[Field.IGNORE_RACKS]
        yield Refusal(
            (Field.RACKS, Field.IGNORE_RACKS),
            f"{racks} repairs what {ignore} ignores.",
            "Leave out one of the two.",
        )


def _too_few(state: ClusterState, wanted: Wanted, names: Names) -> Iterator[Refusal]:
    alive = {broker.id for broker in state.brokers if broker.alive}
    leaving = [
        field
        for field, brokers in ((Field.DRAIN, wanted.drain), (Field.REPLACE, wanted.old))
        if alive & set(brokers)
    ]
    of = [Field.BROKERS] if wanted.brokers else []
    left = len((alive & set(wanted.brokers) if wanted.brokers else alive) - set(wanted.leaving))
    if leaving and not left:
        yield Refusal(
            tuple(leaving),
            "No broker that is up is left to take anything.",
            f"Take one out of {' or of '.join(names[field] for field in leaving)}.",
        )
    elif alive and not wanted.leaving and alive <= set(wanted.exclude):
        yield Refusal(
            (Field.EXCLUDE,),
            "No broker that is up is left to give or take anything.",
            f"Take one out of {names[Field.EXCLUDE]}.",
        )
    elif wanted.replicas is not None and wanted.replicas > left:
        among = f" of {names[Field.BROKERS]}" if of else ""
        without = f" without those of {' and '.join(names[f] for f in leaving)}" if leaving else ""
        yield Refusal(
            (Field.REPLICAS, *of, *leaving),
            f"{wanted.replicas} replicas on {left} brokers{among} that are up{without}: "
            "one each at most.",
            f"Ask for 1 to {left} with {names[Field.REPLICAS]}.",
        )


def _too_many(state: ClusterState, wanted: Wanted, names: Names) -> Iterator[Refusal]:
    """Yield a limit of replicas for each broker that no evening out can keep.

    What has to move is told of where it stays because of such a limit.
    """
    if wanted.most_replicas == INF or wanted.brokers or wanted.forces or wanted.fill:
        return
    alive = {broker.id for broker in state.brokers if broker.alive} - set(wanted.exclude)
    count = int((np.isin(state.replica_broker, list(alive)) & ~state.removing).sum())
    if alive and count > len(alive) * wanted.most_replicas:
        most = names[Field.MAX_REPLICAS]
        yield Refusal(
            (Field.MAX_REPLICAS,),
            f"{count:,} replicas do not fit on {counted(len(alive), 'broker')} with "
            f"{wanted.most_replicas:,.0f} each.",
            f"Ask for {-(-count // len(alive)):,} or more with {most}, or add brokers.",
        )
