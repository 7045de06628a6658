"""Copies at average rates: the rest of a long plan after its first windows are simulated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from core.plan.batch_schedule import Submissions
from core.plan.copies import BrokerSide, Copy, Side

STEPS = 500
"""Ends within this share of the whole time are one: it bounds the steps."""
_ALIKE = 1e-9
"""Shares that differ by less are the same share, rounded."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the copies run under.

    `bytes_per_s` is the quota of each broker's sides, infinity for none; those in `per_side_rates`
    are lower.
    `link_bytes_per_s` is what one fetcher gets when nothing holds it back. `cut` is how many times
    a byte is counted: a fetch of 1 MiB ends inside a batch, whose cut part is counted and fetched
    again. `phase` (0 to 1) is where in a second the brokers' sample slots begin, and how far apart
    the fetchers that share a quota do: whoever comes first takes what there is. `room` is what
    brokers can send and take in for copies, in bytes/s and shared by fetchers, as far as known.
    """

    bytes_per_s: float
    link_bytes_per_s: float = 300e6
    cut: float = 1.007
    phase: float = 0.5
    room: Mapping[BrokerSide, float] = field(default_factory=dict)
    per_side_rates: Mapping[BrokerSide, float] = field(default_factory=dict)

    def quota(self, broker: int, side: Side) -> float:
        own = self.per_side_rates.get(BrokerSide(broker, side), math.inf)
        return min(self.bytes_per_s, own)

    def room_of(self, brokers: Ints, side: Side) -> Floats:
        """Return what each broker's link has for copies; infinite is not known."""
        sides = (BrokerSide(broker, side) for broker in brokers.tolist())
        return np.array([self.room.get(each, math.inf) for each in sides])


@dataclass(frozen=True, slots=True)
class RemainingCopy:
    """What is left of one copy; `open_copies` is how many its partition has yet."""

    index: int
    copy: Copy
    left_bytes: float
    open_copies: int


@dataclass(frozen=True, slots=True)
class FluidFlows:
    """What flows, and what each step has moved: bytes by leader and by destination.

    A unit is what goes from one leader to one destination in one batch; it ends as a whole.
    `leader_of` and `destination_of` are its places in `leaders` and `destinations`.
    """

    units: Sequence[Sequence[RemainingCopy]]
    leaders: Ints
    leader_of: Ints
    destinations: Ints
    destination_of: Ints
    times: list[float] = field(default_factory=list)
    """When each step ends; the first one is the beginning of all."""
    sent: list[Floats] = field(default_factory=list)
    received: list[Floats] = field(default_factory=list)

    @classmethod
    def of(cls, units: Sequence[Sequence[RemainingCopy]]) -> FluidFlows:
        """Return units of which nothing has been moved yet."""
        leaders, leader_of = np.unique([unit[0].copy.leader for unit in units], return_inverse=True)
        destinations, destination_of = np.unique(
            [unit[0].copy.destination for unit in units], return_inverse=True
        )
        return cls(units, leaders, leader_of, destinations, destination_of)

    def keep(self, now: float, at: Ints, moved_bytes: Floats) -> None:
        """Take in what the units `at` have moved in the step that ends `now`."""
        self.times.append(now)
        sent = np.bincount(self.leader_of[at], moved_bytes, len(self.leaders))
        received = np.bincount(self.destination_of[at], moved_bytes, len(self.destinations))
        self.sent.append(sent.astype(np.float64))
        self.received.append(received.astype(np.float64))


def simulate_flows(
    flowed: FluidFlows,
    conditions: Conditions,
    receive_bytes_per_s: Sequence[float],
    submissions: Submissions,
    now: float,
    steps: int,
) -> Iterator[tuple[int, float]]:
    """Yield each copy that ends, and when, in about so many `steps`, which `flowed` keeps.

    `receive_bytes_per_s` is what each unit's destination receives on average.
    """
    units, leader_of, destination_of = flowed.units, flowed.leader_of, flowed.destination_of
    flowed.times.append(now)
    left = np.array([sum(part.left_bytes for part in unit) for unit in units])
    growth = np.array([sum(part.copy.in_bytes_per_s for part in unit) for unit in units])
    # What in-sync followers take of a partition, shared among its copies.
    in_sync = np.array(
        [
            sum(part.copy.in_bytes_per_s * part.copy.followers / part.open_copies for part in unit)
            for unit in units
        ]
    )
    own = np.array(receive_bytes_per_s)
    unit_of = {part.index: i for i, unit in enumerate(units) for part in unit}
    running = np.ones(len(units), np.bool_)
    running[[unit_of[at] for at in submissions.waiting]] = False
    can_send = conditions.room_of(flowed.leaders, Side.LEADER)
    can_receive = conditions.room_of(flowed.destinations, Side.FOLLOWER)
    own = np.minimum(own, can_receive[destination_of])
    quotas = (conditions.quota(broker, Side.LEADER) for broker in flowed.leaders.tolist())
    may_send = np.fromiter(quotas, np.float64, len(flowed.leaders))
    sending = np.minimum(can_send, np.minimum(may_send, conditions.link_bytes_per_s))
    # About how long the busiest side is at work.
    sent_seconds = float((np.bincount(leader_of, left) / sending).max())
    received_seconds = float(np.bincount(destination_of, left / own).max())
    min_step = max(sent_seconds, received_seconds) / steps
    while True:
        while submissions.begins_at <= now:
            running[[unit_of[at] for at in submissions.begin(now)]] = True
        at = np.flatnonzero(running)
        send = may_send - np.bincount(leader_of[at], in_sync[at], len(may_send))
        receive = np.full(destination_of.max() + 1, -np.inf)
        np.maximum.at(receive, destination_of[at], own[at])
        rates = share_fairly(
            leader_of[at],
            destination_of[at],
            np.minimum(np.maximum(send, 0.0), can_send),
            receive,
            conditions.link_bytes_per_s,
        )
        net = rates / conditions.cut - growth[at]
        need = np.where(net > 0, left[at] / np.where(net > 0, net, 1.0), np.inf)
        step = min(max(float(need.min(initial=math.inf)), min_step), submissions.begins_at - now)
        if math.isinf(step):
            return
        now += step
        ending = need <= step
        whole = left[at] + growth[at] * step
        flowed.keep(now, at, np.where(ending, whole, (net + growth[at]) * step))
        left += growth * step
        left[at] -= (net + growth[at]) * step
        for unit in at[ending].tolist():
            running[unit] = False
            for part in units[unit]:
                yield part.index, now
                submissions.caught_up(part.index, now)


def share_fairly(
    leader_of: Ints, destination_of: Ints, send: Floats, receive: Floats, link: float
) -> Floats:
    """Return each flow's rate when all grow alike until a broker's side is full (max-min fair).

    In each round all sides that no other one on their flows fills before them are filled at once,
    so that rounds are few however many sides there are.
    """
    rates = np.zeros(len(leader_of))
    send, receive = np.maximum(send, 0.0), np.maximum(receive, 0.0)
    growing = np.arange(len(leader_of))
    while len(growing):
        senders, receivers = leader_of[growing], destination_of[growing]
        sharing, taking = (
            np.bincount(senders, minlength=len(send)),
            np.bincount(receivers, minlength=len(receive)),
        )
        sent = (send / np.maximum(sharing, 1))[senders]
        received = (receive / np.maximum(taking, 1))[receivers]
        share = np.minimum(np.minimum(sent, received), link)
        slack = share * (1 + _ALIKE)
        later_send = np.bincount(senders, slack < sent, len(send)) > 0
        later_receive = np.bincount(receivers, slack < received, len(receive)) > 0
        filled = ~(later_send[senders] & later_receive[receivers]) | (share >= link)
        rates[growing[filled]] = share[filled]
        done_send, done_receive, gone = senders[filled], receivers[filled], share[filled]
        send = np.maximum(send - np.bincount(done_send, gone, len(send)), 0.0)
        receive = np.maximum(receive - np.bincount(done_receive, gone, len(receive)), 0.0)
        growing = growing[~filled]
    return rates
