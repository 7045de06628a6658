"""Checks of single moves: what is illegal about each, and what is doubtful. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from core.cluster.metadata import Reassignment, TopicPartition
from core.cluster.state import Bool, ClusterState, Int32, Int64
from core.load.load import Load
from core.plan.checks.catalogue import Finding, finding
from core.plan.plan import Move, Plan, current_target, log_dir_of
from core.units import name_list


def check_base(state: ClusterState, plan: Plan) -> tuple[Finding, ...]:
    """Return which moves are from something else than what is there; their partitions must be."""
    return tuple(_group_findings((move.tp, fact) for move in plan for fact in _stale(state, move)))


_Fact = tuple[str, object]
"""A check's id and what its findings are grouped by, so that forty alike are one sentence."""


def check_moves(
    state: ClusterState,
    load: Load,
    moves: Iterable[Move],
    reassignments: Mapping[TopicPartition, Reassignment],
) -> Iterator[Finding]:
    yield from _group_findings(
        (move.tp, fact)
        for move in moves
        for fact in illegal_facts(state, move) or _risk_facts(state, load, move, reassignments)
    )


def _group_findings(facts: Iterable[tuple[TopicPartition, _Fact]]) -> Iterator[Finding]:
    groups: defaultdict[_Fact, list[TopicPartition]] = defaultdict(list)
    for tp, fact in facts:
        groups[fact].append(tp)
    for (id, about), tps in groups.items():
        broker = about if id in _OF_A_BROKER and isinstance(about, int) else None
        number = r"\1" if len(tps) == 1 else r"\2"
        values = about if isinstance(about, tuple) else (about,)
        words = (
            _NUMBER.sub(number, value) if isinstance(value, str) else value for value in values
        )
        sentence = _NUMBER.sub(number, _SENTENCES[id]).format(name_list(tps), *words)
        yield finding(id, sentence, tps, broker)


def illegal_facts(state: ClusterState, move: Move) -> list[_Fact]:
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
    return facts + [("no-log-dir", log_dir) for log_dir in missing_log_dirs(state, move)]


def _risk_facts(
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
        yield "foreign-move", "moving"
    else:  # a replica that leaves, or changes its log dir, may be copied to one already
        touched = {*move.removing, *move.dir_moves}
        if any(
            replica.tp == move.tp and replica.broker in touched for replica in state.future_replicas
        ):
            yield "foreign-move", "on the way to another log dir"
    for broker in move.receiving:
        if not state.broker_by_id[broker].alive:
            yield "dead-broker", broker
    if row.leader < 0:
        yield "no-leader", None
    lagging = [b for b in row.replicas if b not in row.isr and b not in row.adding]
    if lagging and row.leader >= 0:
        brokers = "broker" if len(lagging) == 1 else "brokers"
        yield "out-of-sync", f"{brokers} {', '.join(map(str, lagging))}"
    if topic.min_insync is None:
        if len(move.after) < len(move.before):
            yield "min-isr-unknown", len(move.after)
    elif len(move.after) < topic.min_insync:
        yield "min-isr", (len(move.after), topic.min_insync)
    if len(move.after) != len(move.before):
        yield "rf-change", (len(move.before), len(move.after))
    yield from _racks(state, move)
    for broker in move.target_log_dirs:
        known = state.broker_by_id[broker]
        if known.alive and not known.log_dirs:
            yield "log-dirs", broker
    if move.receiving and state.partition_size_bytes[index] < 0:
        yield "size-unknown", None
    if move.receiving and np.isnan(load.in_bytes_per_s[index]):
        yield "load-unknown", None


def _stale(state: ClusterState, move: Move) -> Iterator[_Fact]:
    topic = state.topic(move.tp.topic)
    replaced = bool(topic and move.topic_id and topic.id and move.topic_id != topic.id)
    if replaced or current_target(state, move.tp) not in (move.before, move.after):
        anew = "[was|were] deleted and made anew since"
        yield "stale", anew if replaced else "[has|have] other replicas than when"
    elif is_in_other_log_dir(state, move):
        yield "stale", "[has|have] other log dirs than when"


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
        Counter(rack for rack in racks(held) if rack is not None)
        for held in (move.before, move.after)
    )
    places = len(move.after) - (move.after[0] in bare)
    fewer = len(after) < min(len(before), places)
    even = -(-len(move.after) // len(everywhere))
    if fewer or max(after.values(), default=0) > max((even, *before.values())):
        more = "[has|have] more replicas in one rack than before"
        drop = f"[goes|go] from {len(before)} racks to {len(after)}"
        yield "rack-spread", drop if len(after) < len(before) else more


_OF_A_BROKER = frozenset(("dead-broker", "unknown-broker", "log-dirs", "rack-unknown"))
"""Checks of one move whose fact is a broker."""
_SENTENCES: Mapping[str, str] = {
    "missing-partition": "{0} [does|do] not exist.",
    "empty": "{0} [is|are] left without a replica.",
    "same-broker-twice": "{0}: two replicas on one broker.",
    "unknown-broker": "Broker {1} does not exist; {0} should go there.",
    "too-many-replicas": "{0}: more replicas than the {1} brokers.",
    "no-log-dir": "Broker {1} has {3} log dir {2}; {0} should lie there.",
    "stale": "{0} {1} the plan was made; rebase it.",
    "dead-broker": "Broker {1} is down: {0} would wait for it.",
    "no-leader": "{0} [has|have] no leader to copy from.",
    "foreign-move": "{0} [is|are] {1} already, by somebody else; wait for its end.",
    "out-of-sync": "{0} [lacks|lack] {1} in the ISR; let it catch up first.",
    "min-isr": "{0}: {1} replicas, and min.insync.replicas is {2}: producers would fail.",
    "min-isr-unknown": "{0}: min.insync.replicas is not known; where it is above {1}, producers "
    "would fail.",
    "rf-change": "{0}: from {1} replicas to {2}.",
    "rack-spread": "{0} {1}.",
    "log-dirs": "What log dirs broker {1} has is not known; {0} should lie in a certain one.",
    "rack-unknown": "Broker {1} has no rack; {0} should go there.",
    "size-unknown": "The size of {0} is not known.",
    "load-unknown": "What is produced to {0} is not known.",
}
"""By check: {0} are partitions, the rest is what they have in common; [of one|of several]."""
_NUMBER = re.compile(r"\[(.*?)\|(.*?)\]")


NONE_IN_FLIGHT: Mapping[TopicPartition, Reassignment] = MappingProxyType({})


def missing_log_dirs(state: ClusterState, move: Move) -> Iterator[tuple[int, str, str]]:
    """Yield the log dirs that a broker does not have, or that are offline: (broker, path, how)."""
    for broker, path in move.target_log_dirs.items():
        known = state.broker_by_id.get(broker)
        if known is None or not known.log_dirs:
            continue
        log_dir = next((d for d in known.log_dirs if d.path == path), None)
        if log_dir is None:
            yield broker, path, "no"
        elif log_dir.error:
            yield broker, path, "an offline"


def is_in_other_log_dir(state: ClusterState, move: Move) -> bool:
    """Return whether a replica lies neither where the plan found it nor where it is to go."""
    for broker, path in move.dir_moves.items():
        base_path = move.base_log_dirs.get(broker)
        now = log_dir_of(state, move.tp, broker)
        if base_path is not None and now is not None and now not in (base_path, path):
            return True
    return False


NOBODY = -1


def clean_moves(
    state: ClusterState,
    load: Load,
    moves: Sequence[Move],
    moving: Collection[TopicPartition],
) -> list[bool]:
    """Return for each move whether none of the checks of single moves finds anything.

    `moving` are partitions in flight. Some of the others may be without a doubt, too.
    """
    is_clean = [False] * len(moves)
    alike: defaultdict[int, list[int]] = defaultdict(list)
    rows = [state.find(move.tp) for move in moves]
    for at, (move, row) in enumerate(zip(moves, rows, strict=True)):
        usual = len(move.before) == len(move.after) > 0 and move.log_dirs is None
        if row is not None and usual and move.tp not in moving:
            alike[len(move.after)].append(at)
    for replicas, chosen in alike.items():
        at_rows = np.array([rows[at] for at in chosen], np.int64)
        before = np.array([moves[at].before for at in chosen], np.int32)
        after = np.array([moves[at].after for at in chosen], np.int32)
        fine = _is_stable(state, load, at_rows, replicas) & _is_valid(state, at_rows, before, after)
        for at, row, is_fine in zip(chosen, at_rows.tolist(), fine.tolist(), strict=True):
            topic = state.topics[int(state.topic_of[row])]
            same = not (moves[at].topic_id and topic.id) or moves[at].topic_id == topic.id
            is_clean[at] = is_fine and same and (topic.min_insync or 0) <= replicas
    return is_clean


def _is_stable(state: ClusterState, load: Load, rows: Int64, replicas: int) -> Bool:
    """Return which partitions are led, in sync, not moving, known, and have so many replicas."""
    off = state.moving.copy()
    off[state.partition_of_replica[~state.in_sync]] = True
    off |= (state.leader < 0) | (state.partition_size_bytes < 0) | np.isnan(load.in_bytes_per_s)
    return np.asarray(~off[rows] & (np.diff(state.replica_start)[rows] == replicas), np.bool_)


def _is_valid(state: ClusterState, rows: Int64, before: Int32, after: Int32) -> Bool:
    """Return which moves begin where the cluster is, and end on live brokers, as well spread."""
    places = state.replica_start[:-1][rows][:, None] + np.arange(before.shape[1])
    held = state.replica_broker[np.minimum(places, state.replica_count - 1)]
    alive = np.array([broker.id for broker in state.brokers if broker.alive], np.int32)
    known = np.isin(before, state.broker_ids) & np.isin(after, alive)
    fine = ((held == before) & known & (_count_equal_in_row(after) == 1)).all(axis=1)
    names = sorted({broker.rack for broker in state.brokers if broker.rack is not None})
    if names:
        old, new = _rack_numbers(state, names, before), _rack_numbers(state, names, after)
        was, becomes = _count_equal_in_row(old), _count_equal_in_row(new)
        even = -(-after.shape[1] // len(names))
        fine &= (old != NOBODY).all(axis=1) & (new != NOBODY).all(axis=1)
        fine &= _count_distinct(becomes) >= _count_distinct(was)
        fine &= becomes.max(axis=1) <= np.maximum(even, was.max(axis=1))
    return np.asarray(fine, np.bool_)


def _rack_numbers(state: ClusterState, names: Sequence[str], brokers: Int32) -> Int32:
    """Return the racks of broker ids, as numbers; any for ids that there are not."""
    racks = [NOBODY if b.rack is None else names.index(b.rack) for b in state.brokers]
    at = np.minimum(np.searchsorted(state.broker_ids, brokers), len(racks) - 1)
    return np.array(racks, np.int32)[at]


def _count_equal_in_row(values: Int32) -> Int64:
    """Return for each value how many of its row are the same, itself among them."""
    return np.asarray((values[:, :, None] == values[:, None, :]).sum(axis=2), np.int64)


def _count_distinct(together: Int64) -> Int64:
    """Return how many different values each row has: each adds one over how often it is there."""
    return np.asarray(np.rint((1 / together).sum(axis=1)), np.int64)
