"""An estimate's sentences: what is unknown about a plan, and why it never ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.cluster.metadata import TopicPartition
from core.plan.copies import BrokerSide, PerSideRates, PlanCopies, Side, SideLoad
from core.units import UNLIMITED, format_bytes, format_rate, name_list


def explain_never(
    loads: Mapping[BrokerSide, SideLoad], rate: int, room: Mapping[BrokerSide, float] | None = None
) -> tuple[BrokerSide, str]:
    """Return the side that never catches up, and why; `room` is what links have for copies."""
    side, load = max(loads.items(), key=lambda item: item[1].background)
    if room and (rate == UNLIMITED or rate > load.background):
        slowest = max(room, key=lambda side: loads[side].background / room[side])
        return slowest, (
            f"Broker {slowest.broker} {_headroom(slowest, room)} besides what it does anyway; what "
            "is produced to the moving partitions meanwhile never catches up."
        )
    if side.side is Side.LOG_DIRS:
        return side, (
            f"Broker {side.broker} has to copy {format_rate(load.background)} that are produced "
            f"meanwhile between its log dirs; {format_rate(rate)} never catches up."
        )
    does = "send" if side.side is Side.LEADER else "receive"
    return side, (
        f"Broker {side.broker} has to {does} {format_rate(load.background)} of ordinary "
        f"replication of the moving partitions alone; {format_rate(rate)} never catches up."
    )


def format_per_side_rates(per_side_rates: PerSideRates) -> str:
    """Say which brokers and sides get less than all others, the least first."""
    lowest = sorted(
        per_side_rates.items(), key=lambda item: (item[1], item[0].broker, item[0].side.value)
    )
    shown = [f"broker {of.broker} {of.side.does} at {format_rate(rate)}" for of, rate in lowest]
    return f"Less will do for some: {name_list(shown)}."


def format_slowest_link(
    loads: Mapping[BrokerSide, SideLoad], room: Mapping[BrokerSide, float]
) -> str:
    """Return which link copies take the longest on, and how fast it is."""
    side = max(room, key=lambda side: loads[side].bytes / room[side])
    return f"broker {side.broker} {_headroom(side, room)}"


def _headroom(side: BrokerSide, room: Mapping[BrokerSide, float]) -> str:
    does = "send" if side.side is Side.LEADER else "take in"
    return f"has room to {does} {format_rate(room[side])}"


def explain_risk(loads: Mapping[BrokerSide, SideLoad], rate: int) -> str:
    """Say that a rate which does end may not, with a little more of what comes in."""
    side, load = max(loads.items(), key=lambda item: item[1].background)
    return (
        f"{format_rate(load.background)} of broker {side.broker}'s {format_rate(rate)} are "
        "ordinary replication: with a few percent more of it, this never catches up."
    )


def explain_no_rate(total_bytes: int, seconds: float, around_seconds: float, limit: str) -> str:
    """Return why a deadline is missed at any rate: what is around the copying, else a `limit`."""
    if seconds <= around_seconds:
        limit = f"what comes before and after the copying may take {around_seconds:.1f} s"
    return f"No rate moves {format_bytes(total_bytes)} in {seconds:g} s: {limit}."


def explain_unknown(what: PlanCopies) -> list[str]:
    """Return what is not known, in sentences."""
    notes = []
    if what.sizes_unknown:
        notes.append(f"The size of {name_list(what.sizes_unknown)} is not known.")
    if what.loads_unknown:
        notes.append(explain_not_counted(what.loads_unknown))
    return notes


def explain_not_counted(unknown: Sequence[TopicPartition]) -> str:
    """Say to which partitions nobody knows what is produced."""
    return f"What is produced to {name_list(unknown)} is not known and not counted."
