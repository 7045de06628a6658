"""Placement: where replicas are during the search, and what each broker carries.

The one mutable thing in the planner. Loads are in fair shares: 1 is a broker's part of the whole.
"""

from __future__ import annotations

import numpy as np

from core.cluster.state import Bool, Int32, Int64
from core.load.load import Float64
from core.plan.planner.model.measures import (
    LEADER_MEASURES,
    MEASURES,
    NOBODY,
    REPLICA_MEASURES,
    Measure,
    ceilings,
)
from core.plan.planner.model.problem import Problem

_REPLICA_MEASURES, _LEADER_MEASURES = np.array(REPLICA_MEASURES), np.array(LEADER_MEASURES)
TINY = 1e-9
"""What sums of shares may be off by."""


class Placement:
    """`at` [P, W] are broker rows, leaders first; `loads` [B, MEASURES] what they carry."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.at: Int32 = problem.replicas.copy()
        self.may_lead: Bool = problem.may_lead.copy()
        self.per_share: Float64
        self.loads: Float64
        self.ceilings: Float64
        """How much each broker may carry, in shares as loads are; inf is no limit."""
        self.bound: tuple[Measure, ...]
        """The measures of which some broker has a ceiling."""
        self.share_out()
        self.room_bytes = problem.room_bytes.copy()
        self.moved_bytes = 0.0
        self.short_of_bytes = False
        """Whether a limit of bytes kept something from moving that would have helped."""
        self.short_of_room: Bool = np.zeros(problem.brokers, np.bool_)
        """Which brokers had no disk left for what would have helped, shape [B]."""
        self.moved = 0
        """Replicas that have come to a broker."""
        self.leader_changes = 0
        """Times that another replica has become the preferred leader."""
        self.part_in: Int64 = np.zeros(problem.brokers, np.int64)
        """Replicas that each broker has given away or taken, shape [B]; dropping one is neither."""
        self._held = _members(self.at, problem.brokers)
        self._going: Bool = np.zeros(len(self.at), np.bool_)
        """Which partitions are being moved just now: all False between calls."""

    def share_out(self) -> None:
        """Count loads in fair shares of what there is now: more replicas make shares larger."""
        problem = self.problem
        whole = self._carried(problem.items) + problem.hidden
        total = whole[problem.counts | problem.gives].sum(axis=0)
        shared = total[None, :] * problem.parts
        with np.errstate(divide="ignore"):
            self.per_share = np.where(shared > 0, 1 / shared, 0.0)
        self.loads = whole * self.per_share
        limits = ceilings(problem.capacity, total, problem.counts)
        limited = np.isfinite(limits) & (shared > 0)
        self.ceilings = np.full_like(limits, np.inf)
        self.ceilings[limited] = limits[limited] * self.per_share[limited]
        self.bound = _bound_measures(self.ceilings)

    def bound_at(self, brokers: Bool, max_shares: float) -> None:
        """Let these brokers [B] carry so many shares at most of what replicas bring."""
        rows = np.ix_(brokers, _REPLICA_MEASURES)
        self.ceilings[rows] = np.minimum(self.ceilings[rows], max_shares)
        self.bound = _bound_measures(self.ceilings)

    @property
    def one_room_bytes(self) -> Float64:
        """Return how large a replica each broker may still take, shape [B]."""
        return np.minimum(self.room_bytes, self.problem.largest_bytes)

    @property
    def carried(self) -> Float64:
        """Return what brokers carry in the items' units, shape [B, MEASURES]; 0 without a share."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.per_share > 0, self.loads / self.per_share, 0.0)

    @property
    def known_carried(self) -> Float64:
        """Return what of it is known, not guessed."""
        return self._carried(self.problem.sure) + self.problem.hidden

    def shares_of(self, partitions: Bool) -> Float64:
        """Return what brokers carry of some partitions [P] alone, in shares, [B, MEASURES]."""
        items = np.where(partitions[:, None], self.problem.items, 0.0)
        return np.asarray(self._carried(items) * self.per_share)

    def spare(self, brokers: Int64, measure: Measure) -> Float64:
        """Return how much more of a measure these brokers may carry, in shares; 0 for too much."""
        spare = self.ceilings[brokers, measure] - self.loads[brokers, measure]
        return np.asarray(np.maximum(spare, 0.0) + TINY)

    def carry(self, partition: int, brokers: Int64, measure: Measure) -> Bool:
        """Return which of these brokers may carry one replica more, as far as a measure goes."""
        if measure not in self.bound:
            return np.ones(len(brokers), np.bool_)
        more = self.problem.items[partition, measure] * self.per_share[brokers, measure]
        return np.asarray(more <= self.spare(brokers, measure), np.bool_)

    def held(self, broker: int) -> Int64:
        """Return the partitions with a replica on a broker, in no order that matters."""
        return self._held[broker]

    def staying(self, partition: int) -> list[int]:
        """Return the broker rows of a partition's replicas but those that leave by now."""
        state, row = self.problem.state, self.at[partition]
        leaving = state.removing[state.replica_slice(partition)]
        if leaving.any():  # then it is in flight, and lies here as the state has it
            row = row[: len(leaving)][~leaving]
        return [broker for broker in row.tolist() if broker != NOBODY]

    def off_by(self, measures: Int64) -> Float64:
        """Return how far outside the band or above its ceiling each broker is, [B, measures]."""
        band, limits = self.problem.band, self.ceilings[:, measures]
        loads = self.loads[:, measures]
        above = loads - 1 - np.minimum(band, limits - 1)
        off = np.maximum(above, np.minimum(1 - band, limits) - loads)
        idle = ~self.problem.counts[:, None] | ~self.problem.active[measures][None, :]
        return np.where(idle, 0.0, np.maximum(off, 0.0))

    def move(self, partition: int, source: int, destination: int) -> None:
        """Put one replica elsewhere, in the same place of the order."""
        place = int(np.flatnonzero(self.at[partition] == source)[0])
        self._shift(partition, source, destination, _REPLICA_MEASURES)
        if place == 0:
            self._shift(partition, source, destination, _LEADER_MEASURES)
        self._receive(partition, place, destination)
        self.part_in[source] += 1
        self._held[source] = self._held[source][self._held[source] != partition]

    def move_all(self, partitions: Int64, source: int, destinations: Int64) -> None:
        """Put replicas of different partitions elsewhere, each in the same place of the order."""
        if not len(partitions):
            return
        at = self.at[partitions]
        places = np.argmax(at == source, axis=1)
        leads = places == 0
        self._shift_all(partitions, source, destinations, _REPLICA_MEASURES)
        self._shift_all(partitions[leads], source, destinations[leads], _LEADER_MEASURES)
        self.at[partitions, places] = destinations
        self.may_lead[partitions, places] = True
        sizes = self.problem.items[partitions, Measure.DISK]
        np.subtract.at(self.room_bytes, destinations, sizes)
        self.moved_bytes += float(sizes.sum())
        self.moved += len(partitions)
        self.part_in[source] += len(partitions)
        np.add.at(self.part_in, destinations, 1)
        self._hand_over(partitions, source, destinations)

    def _hand_over(self, partitions: Int64, source: int, destinations: Int64) -> None:
        held = self._held[source]
        self._going[partitions] = True
        self._held[source] = held[~self._going[held]]
        self._going[partitions] = False
        for broker in np.unique(destinations).tolist():
            came = partitions[destinations == broker]
            self._held[broker] = np.concatenate((self._held[broker], came))

    def _shift_all(
        self, partitions: Int64, source: int, destinations: Int64, columns: Int64
    ) -> None:
        items = self.problem.items[partitions][:, columns]
        self.loads[source, columns] -= items.sum(axis=0) * self.per_share[source, columns]
        taken = np.zeros((len(self.loads), len(columns)))
        np.add.at(taken, destinations, items)
        self.loads[:, columns] += taken * self.per_share[:, columns]

    def add(self, partition: int, destination: int) -> None:
        """Give a partition one replica more, behind the others."""
        place = int(np.flatnonzero(self.at[partition] == NOBODY)[0])
        self._carry(partition, destination, 1.0)
        self._receive(partition, place, destination)

    def _receive(self, partition: int, place: int, destination: int) -> None:
        """Take in that a broker gets a replica, all its bytes with it."""
        self.at[partition, place] = destination
        self.may_lead[partition, place] = True
        size = float(self.problem.items[partition, Measure.DISK])
        self.room_bytes[destination] -= size
        self.moved_bytes += size
        self.moved += 1
        self.part_in[destination] += 1
        self._held[destination] = np.append(self._held[destination], partition)

    def drop(self, partition: int, source: int) -> None:
        """Take one replica that is not the preferred leader away; those behind it move up."""
        row, may = self.at[partition], self.may_lead[partition]
        place = int(np.flatnonzero(row == source)[0])
        if place == 0:
            raise ValueError("the preferred leader is not dropped")
        self._carry(partition, source, -1.0)
        for column, empty in ((row, NOBODY), (may, False)):
            column[place:-1] = column[place + 1 :]
            column[-1] = empty
        self._held[source] = self._held[source][self._held[source] != partition]

    def exchange_all(self, partitions: Int64, source: int, destination: int) -> None:
        """Drop one broker's followers instead of those of another, which hold all: no copy."""
        there = self.problem.replicas[partitions] == destination
        places = np.argmax(self.at[partitions] == source, axis=1)
        to = np.full(len(partitions), destination)
        self._shift_all(partitions, source, to, _REPLICA_MEASURES)
        self.at[partitions, places] = destination
        may_lead = self.problem.may_lead[partitions, np.argmax(there, axis=1)]
        self.may_lead[partitions, places] = may_lead
        self._hand_over(partitions, source, to)

    def rearrange(self, at: Int32) -> None:
        """Put all replicas where `at` [P, W] has them, and count what that moves."""
        given = self.problem
        first = given.replicas
        came, gone = not_in(at, first), not_in(first, at)
        self.at = at.copy()
        same = at[:, :, None] == first[:, None, :]
        self.may_lead = came | (same & given.may_lead[:, None, :]).any(axis=2)
        self.loads = (self._carried(given.items) + given.hidden) * self.per_share
        self._held = _members(self.at, given.brokers)
        self.leader_changes = int((at[:, 0] != first[:, 0]).sum())
        rows, places = np.nonzero(came)
        to, left = at[rows, places], first[gone]
        sizes = given.items[rows, Measure.DISK]
        self.room_bytes = given.room_bytes - np.bincount(to, sizes, given.brokers)
        self.part_in = np.bincount(np.concatenate((to, left)), minlength=given.brokers)
        self.recount()

    def recount(self) -> None:
        """Count what has moved anew: a replica that went on from where it had come counts once."""
        come = not_in(self.at, self.problem.replicas)
        self.moved = int(come.sum())
        self.moved_bytes = float(come.sum(axis=1) @ self.problem.items[:, Measure.DISK])

    def _carry(self, partition: int, broker: int, sign: float) -> None:
        item = self.problem.items[partition, _REPLICA_MEASURES]
        self.loads[broker, _REPLICA_MEASURES] += (
            sign * item * self.per_share[broker, _REPLICA_MEASURES]
        )

    def lead(self, partition: int, place: int) -> None:
        """Make the replica at `place` the preferred leader."""
        row, may = self.at[partition], self.may_lead[partition]
        self._shift(partition, int(row[0]), int(row[place]), _LEADER_MEASURES)
        row[0], row[place] = row[place], row[0]
        may[0], may[place] = may[place], may[0]
        self.leader_changes += 1

    def _shift(self, partition: int, source: int, destination: int, columns: Int64) -> None:
        item = self.problem.items[partition, columns]
        self.loads[source, columns] -= item * self.per_share[source, columns]
        self.loads[destination, columns] += item * self.per_share[destination, columns]

    def _carried(self, items: Float64) -> Float64:
        totals = np.zeros((self.problem.brokers, MEASURES))
        for place in range(self.at.shape[1]):
            held = self.at[:, place] != NOBODY
            brokers = self.at[held, place]
            for column in (*REPLICA_MEASURES, *LEADER_MEASURES) if place == 0 else REPLICA_MEASURES:
                totals[:, column] += np.bincount(brokers, items[held, column], len(totals))
        return totals


def not_in(at: Int32, excluded: Int32) -> Bool:
    """Return which replicas of partitions `at` [P, W] are on none of the brokers of `excluded`."""
    return np.asarray((at != NOBODY) & ~(at[:, :, None] == excluded[:, None, :]).any(axis=2))


def _bound_measures(ceilings: Float64) -> tuple[Measure, ...]:
    return tuple(m for m in Measure if np.isfinite(ceilings[:, m]).any())


def _members(at: Int32, brokers: int) -> list[Int64]:
    order = np.argsort(at.ravel(), kind="stable")
    start = np.searchsorted(at.ravel()[order], np.arange(brokers + 1))
    rows = order // at.shape[1]
    return [rows[start[b] : start[b + 1]] for b in range(brokers)]
