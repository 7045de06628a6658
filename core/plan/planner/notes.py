"""What a plan cannot mend, in sentences: what is not known, what is too big, what has to stay."""

from __future__ import annotations

import numpy as np

from core.cluster.state import ClusterState
from core.load.snapshot import Load
from core.plan.planner.measures import Measure
from core.plan.planner.problem import Problem


def unknown(state: ClusterState, load: Load) -> list[str]:
    """Say how much of the load is not known: it is never taken for idle without a word."""
    notes = []
    rates = int(np.isnan(load.in_bytes_per_s).sum())
    if rates:
        notes.append(
            f"What is produced to {rates} of {state.partition_count} partitions is not known: "
            "they are planned for by size and count."
        )
    sizes = int((state.partition_size_bytes < 0).sum())
    if sizes:
        notes.append(f"The size of {sizes} partitions is not known.")
    still = int((state.leader < 0).sum())
    if still:
        notes.append(f"{still} partitions have no leader and are left as they are.")
    return notes


def small_racks(given: Problem) -> list[str]:
    """Name brokers that carry more because their rack has few: no plan that keeps racks helps."""
    measure = Measure.DISK if given.active[Measure.DISK] else Measure.REPLICAS
    with np.errstate(divide="ignore", invalid="ignore"):
        more = np.where(given.counts, given.parts[:, measure] / given.even_parts[:, measure], 0.0)
    most = float(np.nan_to_num(more).max(initial=0.0))
    if most <= 1 + given.band:
        return []
    alike = [str(broker) for broker in given.ids[more >= most - 1e-6].tolist()]
    who = f"Broker {alike[0]} carries" if len(alike) == 1 else f"Brokers {','.join(alike)} carry"
    return [
        f"{who} {most:.0%} of the mean: few brokers in the rack hold a replica of every "
        "partition. No plan that keeps racks evens that out; shares are counted by rack."
    ]


def too_big(given: Problem) -> list[str]:
    """Name partitions that alone are more than a broker's share and the band: no plan helps."""
    notes = []
    able = given.counts
    for measure in (Measure.IN, Measure.OUT, Measure.DISK):
        whole = given.items[:, measure] * (
            1 if measure is Measure.OUT else (given.replicas >= 0).sum(axis=1)
        )
        share = whole.sum() * given.parts[able, measure].max(initial=0.0)
        if not share > 0:
            continue
        for row in np.argsort(-given.items[:, measure], kind="stable")[:3].tolist():
            part = given.items[row, measure] / share
            if part > 1 + given.band:
                notes.append(
                    f"{given.state.tp(row)} alone is {part:.0%} of a broker's share of "
                    f"{measure.words}: no plan evens that out; split the topic."
                )
    return notes
