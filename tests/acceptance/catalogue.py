"""Every scenario by its name, in the order in which they are listed and played."""

from __future__ import annotations

from tests.acceptance import (
    dms_balancing,
    group_rebalance,
    leader_return,
    preferred_order,
    self_balancing,
)
from tests.acceptance.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        dms_balancing.SCENARIO,
        group_rebalance.SCENARIO,
        leader_return.SCENARIO,
        preferred_order.SCENARIO,
        self_balancing.SCENARIO,
    )
}
