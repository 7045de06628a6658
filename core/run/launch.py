"""What a run's options want to know of the cluster: which moves go together, what is to spare.

Pure; decided where state and load are known, before the run's process is started.
"""

from __future__ import annotations

from dataclasses import replace

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.batches import batch_moves
from core.plan.plan import Plan
from core.run.options import RunOptions
from core.run.throttles.rate_bounds import with_spare


def with_batches(options: RunOptions, state: ClusterState, load: Load, plan: Plan) -> RunOptions:
    """Return options with batches in the order that helps most, and with bounds that know spares.

    An adaptive run is reckoned with the rate that is expected, but begins at its least.
    """
    auto = options.auto and with_spare(options.auto, state, load)
    found = batch_moves(
        state,
        load,
        plan,
        rate_bytes_per_s=options.rate_bytes_per_s,
        first_bytes_per_s=auto.least_bytes_per_s if auto else None,
        most_moves=options.batch_size,
        most_extra_bytes=options.most_extra_bytes,
    )
    return replace(
        options,
        auto=auto,
        batches=found.batches,
        long=found.long,
        produced=_produced(state, load, plan),
    )


def _produced(state: ClusterState, load: Load, plan: Plan) -> dict[int, float]:
    """Return what is produced to each move's partition, bytes/s; 0 and unknown left out."""
    found = ((index, state.find(move.tp)) for index, move in enumerate(plan))
    rates = {i: float(load.in_bytes_per_s[row]) for i, row in found if row is not None}
    return {index: round(rate, 1) for index, rate in rates.items() if rate > 0}
