"""Checks a plan: everything that speaks against it, or against one drop of a replica.

The same checks serve the dashboard, the command line and a run's preflight; what they can find is
in `core.plan.checks.catalogue`. Nothing here asks the cluster anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from core.cluster.balancers import find_balancer
from core.cluster.metadata import Reassignment, TopicPartition
from core.cluster.state import ClusterState
from core.load.snapshot.format import Load
from core.plan.checks import log_dirs
from core.plan.checks.broker_load import over_capacity
from core.plan.checks.catalogue import (
    REBASE,
    Finding,
    Severity,
    finding,
    named,
    never_finding,
    parse_allow,
    refuse,
    worst_first,
)
from core.plan.checks.clean_moves import plain
from core.plan.checks.disks import disks, hotter, leader_skew
from core.plan.plan import Move, Plan, current_target

__all__ = [
    "REBASE",
    "Checked",
    "Finding",
    "Severity",
    "check_plan",
    "in_flight",
    "never_finding",
    "of_one",
    "parse_allow",
    "refuse",
    "stale",
    "worst_first",
]

GROWTH_SECONDS = 3600.0
"""How long partitions are taken to grow while they move, when nobody has estimated it."""

_NONE_IN_FLIGHT: Mapping[TopicPartition, Reassignment] = MappingProxyType({})


def check_plan(
    state: ClusterState,
    load: Load,
    plan: Plan,
    *,
    reassignments: Mapping[TopicPartition, Reassignment] = _NONE_IN_FLIGHT,
    seconds: float | None = None,
) -> tuple[Finding, ...]:
    """Return everything that speaks against `plan`, worst first.

    `reassignments` are the moves in flight that are not the plan's own run's; `seconds` is how
    long the plan will take, for what grows meanwhile, None when nobody has estimated it. *Never*
    is the estimate's to say (`never_finding`).
    """
    return Checked(state, load, plan, reassignments).after(seconds)


class Checked:
    """A plan that was checked, but for what depends on how long it takes: its rate decides that."""

    def __init__(
        self,
        state: ClusterState,
        load: Load,
        plan: Plan,
        reassignments: Mapping[TopicPartition, Reassignment] = _NONE_IN_FLIGHT,
    ) -> None:
        self._state, self._load, self._plan = state, load, plan
        sure = plain(state, load, plan.moves, reassignments)
        doubtful = [move for move, is_sure in zip(plan, sure, strict=True) if not is_sure]
        self._possible = possible = [
            m for m, is_sure in zip(plan, sure, strict=True) if is_sure or not _illegal(state, m)
        ]
        self._found = (
            *_per_move(state, load, doubtful, reassignments),
            *over_capacity(state, load, possible),
            *_balancer(state, plan),
            *_hidden(state, plan),
            *hotter(state, load, possible),
            *leader_skew(state, possible),
        )

    def after(self, seconds: float | None, never: str | None = None) -> tuple[Finding, ...]:
        """Return everything that speaks against a plan which takes so long, worst first.

        `never` is why it never ends at its rate, None where it does.
        """
        grows = GROWTH_SECONDS if seconds is None else seconds
        found = [
            *self._found,
            *disks(self._state, self._load, self._possible, grows),
            *log_dirs.rooms(self._state, self._load, self._possible, grows),
        ]
        if never is not None:
            found.append(never_finding(never, (m.tp for m in self._plan if m.receiving)))
        return worst_first(found)


def in_flight(state: ClusterState) -> Mapping[TopicPartition, Reassignment]:
    """Return the reassignments that the state shows, whoever asked for them."""
    found = {}
    for index in np.flatnonzero(state.reassigning).tolist():
        row = state.row(index)
        found[row.tp] = Reassignment(row.replicas, row.adding, row.removing)
    return found


def stale(state: ClusterState, plan: Plan) -> tuple[Finding, ...]:
    """Return which moves are from something else than what is there; their partitions must be."""
    return tuple(_grouped((move.tp, fact) for move in plan for fact in _stale(state, move)))


def of_one(state: ClusterState, load: Load, move: Move) -> tuple[Finding, ...]:
    """Return what speaks against one move alone, whatever else is planned or in flight."""
    return tuple(_per_move(state, load, [move], _NONE_IN_FLIGHT))


def _hidden(state: ClusterState, plan: Plan) -> Iterator[Finding]:
    if plan.moves and state.hidden is not None and not state.hidden.is_whole:
        yield finding(
            "hidden-topics",
            f"{state.hidden.sentence} What they carry is in no comparison here.",
        )


def _balancer(state: ClusterState, plan: Plan) -> Iterator[Finding]:
    balancer = find_balancer(state) if plan.moves else None
    if balancer is not None:
        yield finding(
            "cruise-control",
            f"{balancer}: its next run would cancel these moves; stop it first.",
        )


# -- one move at a time --------------------------------------------------------------------------

_Fact = tuple[str, object]
"""A check's id and what its findings are grouped by, so that forty alike are one sentence."""


def _per_move(
    state: ClusterState,
    load: Load,
    moves: Iterable[Move],
    reassignments: Mapping[TopicPartition, Reassignment],
) -> Iterator[Finding]:
    yield from _grouped(
        (move.tp, fact)
        for move in moves
        for fact in _illegal(state, move) or _doubts(state, load, move, reassignments)
    )


def _grouped(facts: Iterable[tuple[TopicPartition, _Fact]]) -> Iterator[Finding]:
    groups: defaultdict[_Fact, list[TopicPartition]] = defaultdict(list)
    for tp, fact in facts:
        groups[fact].append(tp)
    for (id, about), tps in groups.items():
        broker = about if id in _OF_A_BROKER and isinstance(about, int) else None
        yield finding(id, _SENTENCES[id](about, tps), tps, broker)


def _illegal(state: ClusterState, move: Move) -> list[_Fact]:
    if state.find(move.tp) is None:
        return [("missing-partition", None)]
    if not move.after:
        return [("empty", None)]
    facts: list[_Fact] = []
    if len(set(move.after)) < len(move.after):
        facts.append(("same-broker-twice", None))
    facts += [("unknown-broker", b) for b in move.after if b not in state.broker_by_id]
    if len(move.after) > len(state.brokers):
        facts.append(("too-many-replicas", len(state.brokers)))
    return facts + [("no-log-dir", one) for one in log_dirs.missing(state, move)]


def _doubts(
    state: ClusterState,
    load: Load,
    move: Move,
    reassignments: Mapping[TopicPartition, Reassignment],
) -> Iterator[_Fact]:
    index = state.find(move.tp)
    assert index is not None, "illegal moves do not come here"
    row, topic = state.row(index), state.topics[int(state.topic_of[index])]
    yield from _stale(state, move)
    if move.tp in reassignments or row.adding or row.removing:
        yield "foreign-move", None
    elif log_dirs.copied_within(state, move):
        yield "foreign-move", "log dir"
    for broker in move.receiving:
        if not state.broker_by_id[broker].alive:
            yield "dead-broker", broker
    if row.leader < 0:
        yield "no-leader", None
    lagging = [b for b in row.replicas if b not in row.isr and b not in row.adding]
    if lagging and row.leader >= 0:
        yield "out-of-sync", tuple(lagging)
    if topic.min_insync is None:
        if len(move.after) < len(move.before):
            yield "min-isr-unknown", len(move.after)
    elif len(move.after) < topic.min_insync:
        yield "min-isr", (len(move.after), topic.min_insync)
    if len(move.after) != len(move.before):
        yield "rf-change", (len(move.before), len(move.after))
    yield from _racks(state, move)
    for broker in log_dirs.untold(state, move):
        yield "log-dirs", broker
    if move.receiving and state.partition_size_bytes[index] < 0:
        yield "size-unknown", None
    if move.receiving and np.isnan(load.in_bytes_per_s[index]):
        yield "load-unknown", None


def _stale(state: ClusterState, move: Move) -> Iterator[_Fact]:
    topic = state.topic(move.tp.topic)
    replaced = bool(topic and move.topic_id and topic.id and move.topic_id != topic.id)
    if replaced or current_target(state, move.tp) not in (move.before, move.after):
        yield "stale", "replaced" if replaced else "moved"
    elif log_dirs.lies_elsewhere(state, move):
        yield "stale", "log dir"


def _racks(state: ClusterState, move: Move) -> Iterator[_Fact]:
    """Compare how `move` spreads over racks: fewer of them, or more replicas in the fullest.

    Where a broker without a rack stands is not known: what leaves it left no rack, and a replica
    that stays there fills none, though the others could do with its place. A leader's is its own.
    """

    def racks(brokers: Sequence[int]) -> list[str | None]:
        known = state.broker_by_id
        return [known[b].rack if b in known else None for b in brokers]

    everywhere = {broker.rack for broker in state.brokers} - {None}
    if not everywhere:
        return
    bare = [b for b, rack in zip(move.after, racks(move.after), strict=True) if rack is None]
    if added := [broker for broker in bare if broker in move.adding]:
        for broker in added:
            yield "rack-unknown", broker
        return
    before, after = (
        _counts(rack for rack in racks(held) if rack is not None)
        for held in (move.before, move.after)
    )
    places = len(move.after) - (move.after[0] in bare)
    fewer = len(after) < min(len(before), places)
    even = -(-len(move.after) // len(everywhere))
    if fewer or max(after.values(), default=0) > max((even, *before.values())):
        yield "rack-spread", (len(before), len(after))


def _counts(racks: Iterable[str]) -> dict[str, int]:
    counts: defaultdict[str, int] = defaultdict(int)
    for rack in racks:
        counts[rack] += 1
    return counts


def _stay(tps: Sequence[TopicPartition], one: str, many: str) -> str:
    return f"{named(tps)} {one if len(tps) == 1 else many}"


def _out_of_sync(about: object, tps: Sequence[TopicPartition]) -> str:
    assert isinstance(about, tuple)
    who = ", ".join(map(str, about))
    broker = "broker" if len(about) == 1 else "brokers"
    return f"{_stay(tps, 'lacks', 'lack')} {broker} {who} in the ISR; let it catch up first."


def _rack_spread(about: object, tps: Sequence[TopicPartition]) -> str:
    assert isinstance(about, tuple)
    before, after = about
    if after < before:
        return f"{_stay(tps, 'goes', 'go')} from {before} racks to {after}."
    return f"{_stay(tps, 'has', 'have')} more replicas in one rack than before."


def _pair(text: str) -> Callable[[object, Sequence[TopicPartition]], str]:
    def sentence(about: object, tps: Sequence[TopicPartition]) -> str:
        assert isinstance(about, tuple)
        return text.format(named(tps), *about)

    return sentence


_OF_A_BROKER = frozenset(("dead-broker", "unknown-broker", "log-dirs", "rack-unknown"))
"""Checks of one move whose fact is a broker."""

_SENTENCES: Mapping[str, Callable[[object, Sequence[TopicPartition]], str]] = {
    "missing-partition": lambda _, tps: f"{_stay(tps, 'does', 'do')} not exist.",
    "empty": lambda _, tps: f"{_stay(tps, 'is', 'are')} left without a replica.",
    "same-broker-twice": lambda _, tps: f"{named(tps)}: two replicas on one broker.",
    "unknown-broker": lambda b, tps: f"Broker {b} does not exist; {named(tps)} should go there.",
    "too-many-replicas": lambda n, tps: f"{named(tps)}: more replicas than the {n} brokers.",
    "dead-broker": lambda b, tps: (
        f"Broker {b} is down: {_stay(tps, 'would wait', 'would wait')} for it."
    ),
    "no-leader": lambda _, tps: f"{_stay(tps, 'has', 'have')} no leader to copy from.",
    "foreign-move": lambda how, tps: (
        f"{_stay(tps, 'is', 'are')} {'on the way to another log dir' if how else 'moving'} "
        "already, by somebody else; wait for its end."
    ),
    "stale": lambda how, tps: (
        f"{_stay(tps, 'was', 'were')} deleted and made anew since the plan was made; rebase it."
        if how == "replaced"
        else f"{_stay(tps, 'has', 'have')} other {'log dirs' if how == 'log dir' else 'replicas'} "
        "than when the plan was made; rebase it."
    ),
    "out-of-sync": _out_of_sync,
    "min-isr": _pair("{0}: {1} replicas, and min.insync.replicas is {2}: producers would fail."),
    "min-isr-unknown": lambda left, tps: (
        f"{named(tps)}: min.insync.replicas is not known; where it is above {left}, "
        "producers would fail."
    ),
    "rf-change": _pair("{0}: from {1} replicas to {2}."),
    "rack-spread": _rack_spread,
    "no-log-dir": _pair("Broker {1} has {3} log dir {2}; {0} should lie there."),
    "log-dirs": lambda b, tps: (
        f"What log dirs broker {b} has is not known; {named(tps)} should lie in a certain one."
    ),
    "rack-unknown": lambda b, tps: f"Broker {b} has no rack; {named(tps)} should go there.",
    "size-unknown": lambda _, tps: f"The size of {named(tps)} is not known.",
    "load-unknown": lambda _, tps: f"What is produced to {named(tps)} is not known.",
}
