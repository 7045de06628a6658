"""An autopilot's metrics: what it is set to, what it has decided, what it saw."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from auto_help import EAGER, acted, hot, look
from clusters import NOON, tp
from run_help import MB, cluster, set_config

from core.autopilot.decision import Reason
from core.autopilot.history import DecisionHistory
from core.autopilot.log import Entry, EntryKind
from core.autopilot.metrics import STATES, AutopilotReading, ClusterThrottles, autopilot_metrics
from core.autopilot.observation import Observation
from core.autopilot.settings import Mode
from core.autopilot.switch import Switch
from core.clock import Clock
from core.cluster.configs import LEADER_RATE, Resource
from core.cluster.connect import Address
from core.cluster.observer import CONFIGS_SECONDS
from core.errors import UnreachableError

SWITCH = Switch("test-cluster", "test", Address("127.0.0.1:1"), EAGER, NOON, "ada")
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "metrics.md"


def samples(observed: Observation | None, **changes: Any) -> dict[tuple[str, ...], float]:
    reading = replace(AutopilotReading(SWITCH, None, DecisionHistory(), observed), **changes)
    return {
        (
            sample.name.removeprefix("trimtab_"),
            *(value for name, value in sorted(sample.labels.items()) if name != "cluster"),
        ): sample.value
        for family in autopilot_metrics(reading, NOON)
        for sample in family.samples
    }


def test_mode_and_state_metrics_mark_exactly_one_of_all_values() -> None:
    last = Entry(NOON, EntryKind.SUGGEST, (Reason("uneven", "Broker 1 …"), Reason("x", "y")))
    metrics = samples(look(hot()), last=last)
    assert {mode: metrics["autopilot_mode", mode.value] for mode in Mode} == {
        mode: float(mode is Mode.ACT) for mode in Mode
    }
    assert {kind: metrics["autopilot_state", kind.value] for kind in STATES} == {
        kind: float(kind is EntryKind.SUGGEST) for kind in STATES
    }
    assert [key[1] for key in metrics if key[0] == "autopilot_reason_info"] == ["uneven"]
    assert metrics["autopilot_cluster_up",] == 1


def test_skew_is_the_fullest_brokers_share_by_each_measure() -> None:
    """Of two brokers one holds everything: twice its share."""
    metrics = samples(look(hot()))
    skew = {key[1]: value for key, value in metrics.items() if key[0] == "skew_ratio"}
    assert skew == pytest.approx(
        dict.fromkeys(("disk", "in", "replicas", "leaders", "leader_in", "out"), 2.0)
    )


def test_unreachable_cluster_is_reported_down_without_skew_or_throttles() -> None:
    metrics = samples(None)
    assert metrics["autopilot_cluster_up",] == 0
    assert not [key for key in metrics if key[0] in ("skew_ratio", "throttle_bytes_per_second")]
    assert metrics["autopilot_last_look_timestamp_seconds",] == NOON.timestamp()


def test_hourly_budget_metrics_report_limits_and_amount_spent() -> None:
    history = DecisionHistory(acts=(acted(NOON, [tp("t-0")], bytes=5e9),))
    metrics = samples(look(hot()), history=history)
    assert metrics["autopilot_hour_bytes",] == 5e9
    assert metrics["autopilot_hour_limit_bytes",] == EAGER.max_bytes_per_hour
    assert (metrics["autopilot_hour_moves",], metrics["autopilot_hour_limit_moves",]) == (1, 200)
    unlimited = replace(SWITCH, settings=replace(EAGER, max_bytes_per_hour=math.inf))
    assert ("autopilot_hour_limit_bytes",) not in samples(look(hot()), switch=unlimited)


class At(Clock):
    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def test_external_throttles_are_fetched_as_often_as_configs() -> None:
    client = cluster({"t": [(1, 2)]})
    set_config(client, Resource.broker(2), LEADER_RATE, str(3 * MB))
    clock = At()
    throttles = ClusterThrottles(client, clock, "test-cluster")
    observed = replace(look(hot()), state=client.describe_cluster())
    metrics = samples(observed, throttles=throttles.look(observed))
    assert metrics["throttle_bytes_per_second", "2", "other", "", "leader"] == 3 * MB
    assert metrics["throttle_needed", "2", "other", "", "leader"] == 0, "nothing moves"
    set_config(client, Resource.broker(2), LEADER_RATE, str(4 * MB))
    clock.seconds = CONFIGS_SECONDS - 1
    assert [throttle.value for throttle in throttles.look(observed)] == [str(3 * MB)]
    clock.seconds = CONFIGS_SECONDS
    assert [throttle.value for throttle in throttles.look(observed)] == [str(4 * MB)]
    assert throttles.look(None) == ()


def test_failure_to_fetch_throttle_configs_yields_no_throttles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(*_: Any, **__: Any) -> Any:
        raise UnreachableError("No broker answers.")

    monkeypatch.setattr("core.autopilot.metrics.fetch_throttle_configs", refuses)
    assert ClusterThrottles(cluster({"t": [(1, 2)]}), At(), "c").look(look(hot())) == ()


def test_each_metric_is_in_the_docs() -> None:
    reading = AutopilotReading(SWITCH, None, DecisionHistory(), None)
    names = {family.name for family in autopilot_metrics(reading, NOON)}
    assert names | {"trimtab_build_info"} == set(
        re.findall(r"\b(trimtab_[a-z_]+)\b", PAGE.read_text())
    )
