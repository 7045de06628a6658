"""How long a run takes, reckoned as it begins, by the sizes of that moment.

Hours may lie between (`--at`), or minutes before an open dialog, and topics grow meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from core.cluster.state import ClusterState
from core.errors import UsageError
from core.load.locate import newest_load
from core.load.snapshot import Load
from core.plan.calibration import Calibration
from core.plan.check_capacity import is_limited
from core.plan.copying import BrokerSide, Side
from core.plan.estimate import at_rate
from core.plan.estimate_document import to_json
from core.plan.plan import Plan
from core.plan.spread import Task
from core.run.record.history import History

Learned = Callable[[], Calibration]
"""Asks what earlier runs on the cluster have taught about times."""
Loaded = Callable[[ClusterState], Load]
"""Asks for the newest load, laid upon a state."""

log = logging.getLogger(__name__)


def load_as_known(state: ClusterState, snapshots_path: str | None = None) -> Load:
    """Return the newest load; all unknown where it is damaged, or gone: that fails no run."""
    try:
        return newest_load(state, snapshots_path)
    except (UsageError, OSError) as error:
        log.warning("the load is not known: %s", error)
        return Load.unknown(state)


def estimate_of_start(
    state: ClusterState, history: History, learned: Learned, known: Loaded
) -> dict[str, Any] | None:
    """Return the document of the estimate for what is queued, at the run's rates.

    None of a run that was made without one.
    """
    if history.estimate is None:
        return None
    queued = [history.moves[index] for index in history.queued]
    plan = Plan(history.cluster_id, tuple(m.move for m in queued))
    produced = {m.move.tp: m.produced_bytes_per_s for m in queued}
    rows = {row: rate for tp, rate in produced.items() if (row := state.find(tp)) is not None}
    load = _with_rates(known(state) if is_limited(state) else Load.unknown(state), rows)
    apart = {
        BrokerSide(broker, Side(side.value)): rate
        for (broker, side), rate in history.pace.apart.items()
    }
    task = Task.of(state, load, plan, history.most_extra_bytes)
    return to_json(at_rate(task, history.rate_bytes_per_s, learned(), apart=apart))


def _with_rates(load: Load, rates: Mapping[int, float]) -> Load:
    """Return a load in which rows of which nothing is known have what the run was told of them."""
    found = load.in_bytes_per_s.copy()
    for row, rate in rates.items():
        if np.isnan(found[row]):
            found[row] = rate
    return replace(load, in_bytes_per_s=found)
