"""Which rate `apply` chooses when none was asked for, and what is said before it is confirmed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from clusters import cluster as pictured
from run_help import MB, cluster, move, plan_of

from core.cli.common.context import Context, Target
from core.cli.runs.apply import parse_throttle
from core.cli.runs.launch import (
    LaunchOptions,
    LiveCluster,
    _estimate,
    _recommended_rate,
    describe_deletions,
    launch,
)
from core.cluster.connect import Address
from core.cluster.observer import fetch_cluster_state
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import ClusterState
from core.errors import RefusedError, UsageError
from core.load.load import Load
from core.plan.estimate.calibration import NOTHING_LEARNED
from core.plan.plan import Plan
from core.run.journal.rates import RateBounds
from core.units import UNLIMITED


def test_empty_partitions_need_no_throttle_and_none_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=0)
    state = fetch_cluster_state(client)
    plan = plan_of(client, {("t", 0): (1, 3)})
    assert _recommended_rate(state, Load.unknown(state), plan, NOTHING_LEARNED, None) == UNLIMITED
    assert not capsys.readouterr().err


def carried_out(
    client: SimulatedCluster, *allow: str, sizes: bool = True, **options: Any
) -> NoReturn:
    """Have a plan carried out that cannot be; raises why."""
    plan = plan_of(client, {("t", 0): (1, 3)})
    state = fetch_cluster_state(client) if sizes else client.describe_cluster()
    picture = LiveCluster(Address("sim:none"), state, {}, client.now)
    context = Context(Target(), True, True, None, False, False, lambda context: None)
    launch(context, picture, plan, LaunchOptions(allow=frozenset(allow), **options), name="c")
    raise AssertionError("it was carried out")


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """A cluster whose broker 3 is down, and where a plan puts a replica."""
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    client = cluster({"t": [(1, 2)]})
    client.stop_broker(3)
    return client


@pytest.mark.parametrize("throttle", [None, 5 * MB, "auto"])
def test_refused_checks_are_reported_before_a_rate_is_required(
    broken: SimulatedCluster, throttle: Any
) -> None:
    with pytest.raises(RefusedError) as refused:
        carried_out(broken, throttle=throttle)
    assert refused.value.checks == ("dead-broker", "never")


def test_reason_why_no_rate_can_be_recommended_is_reported(broken: SimulatedCluster) -> None:
    with pytest.raises(UsageError, match="No throttle can be recommended") as refused:
        carried_out(broken, "dead-broker", "never")
    assert "Broker 3 is down" in refused.value.detail


def test_unknown_sizes_are_reported_where_a_rate_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="No throttle can be recommended") as refused:
        carried_out(cluster({"t": [(1, 2)]}), sizes=False)
    assert "The size of t-0 is not known." in refused.value.detail


def test_extra_disk_usage_of_brokers_is_reported_before_confirmation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    with pytest.raises(UsageError):  # nobody is there to be asked
        carried_out(cluster({"t": [(1, 2)]}, size_bytes=50 * MB), throttle=5 * MB)
    err = capsys.readouterr().err
    assert "Meanwhile disks hold more, at most 50 MB on broker 3 after 12 s.\n" in err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50MB/s", 50 * MB),
        ("-1", UNLIMITED),
        ("auto", "auto"),
        ("AUTO:5MB/s-50MB/s", RateBounds(5 * MB, 50 * MB)),
    ],
)
def test_throttle_text_is_parsed(text: str, expected: object) -> None:
    assert parse_throttle(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10", "needs a unit: 10"),
        ("auto:5MB/s", "Invalid bounds"),
        ("auto:5-10", "needs a unit: 5"),
        ("auto:50MB/s-5MB/s", "50 MB/s to 5.0 MB/s are no bounds"),
        ("auto:5MB/s--1", "are no bounds"),
        ("auto:", "Invalid bounds"),
    ],
)
def test_invalid_throttle_text_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_throttle(text)


def test_adaptive_rate_is_estimated_within_its_bounds() -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=2000 * MB)
    state = fetch_cluster_state(client)
    plan, load = plan_of(client, {("t", 0): (1, 3)}), Load.unknown(state)
    rate, _, bounds = _estimate(state, load, plan, LaunchOptions(throttle="auto"))
    assert bounds is not None
    assert rate is not None
    assert bounds.min_bytes_per_s <= rate <= bounds.max_bytes_per_s
    narrow = RateBounds(1 * MB, 2 * MB)
    rate, _, bounds = _estimate(state, load, plan, LaunchOptions(throttle=narrow))
    assert (rate, bounds) == (2 * MB, narrow)
    rate, _, bounds = _estimate(state, load, plan, LaunchOptions(throttle=7 * MB))
    assert (rate, bounds) == (7 * MB, None)


def state(**policies: str | None) -> ClusterState:
    there = pictured({f"{name}-0": [1, 2] for name in policies})
    return there.with_topics(
        {t.name: replace(t, cleanup_policy=policies[t.name]) for t in there.topics}
    )


def plan(*topics: str) -> Plan:
    return Plan("c", tuple(move(topic, 0, (1, 2), (3, 2)) for topic in topics))


@pytest.mark.parametrize("policy", ["delete", "compact,delete", None])
def test_records_deleted_by_age_are_reported(policy: str | None) -> None:
    (sentence,) = describe_deletions(state(t=policy), plan("t"), 3_600_000)
    assert sentence.startswith("Records of t older than 1 h 00 m are")


def test_compacted_only_topics_are_named_as_unaffected_by_retention() -> None:
    there = state(t="delete", u="compact", v="compact")
    first, second = describe_deletions(there, plan("t", "u", "v"), 3_600_000)
    assert first.startswith("Records of t older than ")
    assert second == "Only compacted, so no retention shortens what is copied: u and v."


def test_retention_without_any_effect_is_refused() -> None:
    with pytest.raises(UsageError, match=r"has no effect: u is only compacted"):
        list(describe_deletions(state(t="delete", u="compact"), plan("u"), 3_600_000))


def test_no_deletions_are_reported_where_nothing_is_copied() -> None:
    reorder = Plan("c", (move("t", 0, (1, 2), (2, 1)),))
    assert not list(describe_deletions(state(t="compact"), reorder, 3_600_000))
