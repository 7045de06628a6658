"""What brokers' links carry for copies: each way its own bytes, one fetch behind the other.

Only where capacities are configured; without them nothing waits for anything here.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.plan.copying import BrokerSide, Flow, Side


class Links:
    """When each broker's link is free again, each way; `room` is what it has, in bytes/s."""

    def __init__(self, room: Mapping[BrokerSide, float]) -> None:
        self._room = room
        self._free_at = dict.fromkeys(room, 0.0)

    def carry(self, flow: Flow, size_bytes: float, now: float) -> float:
        """Let a fetch pass behind those before it; return in how many seconds it is through."""
        through = now
        for side in (
            BrokerSide(flow.leader, Side.LEADER),
            BrokerSide(flow.destination, Side.FOLLOWER),
        ):
            if side in self._room:
                begins = max(now, self._free_at[side])
                self._free_at[side] = begins + size_bytes / self._room[side]
                through = max(through, self._free_at[side])
        return through - now

    @property
    def free_at(self) -> float:
        """Return when all that was asked for is through."""
        return max(self._free_at.values(), default=0.0)
