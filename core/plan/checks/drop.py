"""Checks a drop: what putting one replica on another broker would bring, per broker."""

from __future__ import annotations

from collections.abc import Mapping

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.checks.brokers import (
    arrivals,
    check_broker_disks,
    find_above_fair_share,
    find_over_capacity,
    moves_with_rates,
)
from core.plan.checks.catalogue import Finding, finding, worst_first
from core.plan.checks.check_plan import GROWTH_SECONDS
from core.plan.checks.moves import NONE_IN_FLIGHT, check_moves
from core.plan.disk_space import incoming_bytes
from core.plan.effect import BrokerUsage, compute_effect, current_totals
from core.plan.plan import Move, Plan


def check_drops(
    state: ClusterState,
    load: Load,
    plan: Plan,
    sources: Mapping[TopicPartition, int],
) -> dict[TopicPartition, dict[int, Finding]]:
    """Return the worst that putting each replica from its source on each other broker would bring.

    Only what is new, and ILLEGAL where it cannot be dropped.
    """
    now = current_totals(state, load)
    findings_by_tp = {}
    for tp, source in sources.items():
        others = _OtherMoves(state, load, now, plan, tp)
        brokers = (to for to in state.broker_ids.tolist() if to != source)
        there = {to: others.finding(source, to) for to in brokers}
        findings_by_tp[tp] = {to: worst for to, worst in there.items() if worst is not None}
    return findings_by_tp


def check_drop(
    state: ClusterState, load: Load, plan: Plan, tp: TopicPartition, source: int, destination: int
) -> Finding | None:
    """Return what `check_drops` says of one replica and broker, None when it says nothing."""
    others = _OtherMoves(state, load, current_totals(state, load), plan, tp)
    return others.finding(source, destination)


class _OtherMoves:
    """All that is planned but for one partition, and what brokers carry by it."""

    def __init__(
        self, state: ClusterState, load: Load, now: BrokerUsage, plan: Plan, tp: TopicPartition
    ) -> None:
        self._state, self._load, self._tp, self._now = state, load, tp, now
        before = plan.by_partition.get(tp)
        self._alone = Plan(plan.cluster_id, (before,) if before else ())
        self._planned = plan.target(state, tp) if state.find(tp) is not None else ()
        moves = [move for move in plan if move.tp != tp]
        self._arriving = arrivals(state, load, moves, GROWTH_SECONDS)
        rows = (state.find(partition) for partition in (tp, *(move.tp for move in moves)))
        self._in_flight = incoming_bytes(
            state, excluded_rows={row for row in rows if row is not None}
        )
        known = moves_with_rates(state, load, moves)
        self._after = compute_effect(state, load, known, now).after
        self._known = self._findings(before)

    def finding(self, source: int, destination: int) -> Finding | None:
        state, tp = self._state, self._tp
        try:
            after = self._alone.with_move(state, tp, source, destination).by_partition.get(tp)
        except KeyError:
            return finding("missing-partition", f"{tp} does not exist.", [tp])
        except ValueError:
            if source not in self._planned:
                return finding("not-a-replica", f"Broker {source} holds no replica of {tp}.", [tp])
            return finding("same-broker-twice", f"Broker {destination} already holds {tp}.", [tp])
        moves = moves_with_rates(state, self._load, [after] if after else [])
        carried = compute_effect(state, self._load, moves, self._after).after
        findings = [
            *self._findings(after),
            *self._full(destination, after),
            *find_over_capacity(state, self._now, carried, only=destination),
            *find_above_fair_share(state, self._now, carried, only=destination),
        ]
        known = {(old.id, old.sentence) for old in (*self._known, *self._full(destination))}
        new = [problem for problem in findings if (problem.id, problem.sentence) not in known]
        return worst_first(new)[0] if new else None

    def _findings(self, move: Move | None) -> tuple[Finding, ...]:
        moves = [move] if move else []
        return tuple(check_moves(self._state, self._load, moves, NONE_IN_FLIGHT))

    def _full(self, destination: int, move: Move | None = None) -> tuple[Finding, ...]:
        """Return what speaks of the destination's disks, with this move or without."""
        state, moves = self._state, [move] if move else []
        coming = arrivals(state, self._load, moves, GROWTH_SECONDS).get(destination, [])
        all_coming = [*self._arriving.get(destination, []), *coming]
        return tuple(
            check_broker_disks(state, destination, all_coming, self._in_flight.get(destination, 0))
        )
