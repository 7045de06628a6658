"""Throttles that others set: they end as they were found, whatever the run does meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from run_help import (
    MB,
    TARGETS,
    TWO,
    Run,
    Start,
    ask,
    cluster,
    delete,
    own,
    set_config,
    spend,
    submitted,
    throttles,
)

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    Resource,
    ResourceKind,
)
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.run.journal.move_state import Outcome
from core.run.journal.records import Kind
from core.run.reporting.report import report
from core.run.steps import ChangeRates, NoteEnded, Poll, Preflight, Step, Submit


def _set(resource: Resource, name: str, value: str) -> Callable[[SimulatedCluster], None]:
    return lambda client: set_config(client, resource, name, value)


T, B4 = Resource.topic("t"), Resource.broker(4)


EVERY_BROKER = Resource(ResourceKind.BROKER, "")


FOUND: dict[str, list[Callable[[SimulatedCluster], None]]] = {
    "nothing": [],
    "foreign entries": [_set(T, LEADER_LIST, "7:1,8:2"), _set(T, FOLLOWER_LIST, "7:3")],
    "some of our own entries": [_set(T, LEADER_LIST, "0:1,0:4"), _set(T, FOLLOWER_LIST, "0:4")],
    "all replicas": [_set(T, LEADER_LIST, "*"), _set(T, FOLLOWER_LIST, "*")],
    "all replicas on one side": [_set(T, FOLLOWER_LIST, "*")],
    "a list set to nothing": [_set(T, LEADER_LIST, "")],
    "a lower rate": [_set(B4, FOLLOWER_RATE, "3000000")],
    "the same rate": [_set(B4, FOLLOWER_RATE, "5000000")],
    "a higher rate": [_set(B4, FOLLOWER_RATE, "70000000"), _set(B4, LEADER_RATE, "60000000")],
    "a rate for every broker": [_set(EVERY_BROKER, LEADER_RATE, "80000000")],
    "a lower rate for every broker": [_set(EVERY_BROKER, FOLLOWER_RATE, "4000000")],
}


@pytest.mark.parametrize("found", FOUND)
@pytest.mark.parametrize("cancelled", [False, True], ids=["done", "cancelled"])
def test_external_throttles_end_as_they_were_found(
    start: Start, found: str, cancelled: bool
) -> None:
    client = cluster(TWO, static_configs={2: {LEADER_RATE: "90000000"}})
    for setting in FOUND[found]:
        setting(client)
    run = start(client, TARGETS)
    if cancelled:
        run.until(lambda step: isinstance(step, Submit))
        run.cancel()
    assert run.to_the_end() is (Outcome.CANCELLED if cancelled else Outcome.DONE)
    assert throttles(client) == run.found


def test_lower_external_rate_is_kept_and_reported(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    set_config(client, Resource.broker(3), FOLLOWER_RATE, "2000000")
    run = start(client, {("t", 0): (1, 3)})
    run.until(lambda step: isinstance(step, Poll) and client.elapsed_seconds > 2)
    receiving = next(b for b in run.view().brokers if b.side == "receives")
    assert (receiving.limit_bytes_per_s, receiving.why) == (
        2 * MB,
        "foreign quota 2.0 MB/s, kept",
    )
    assert any("b3 follower 2.0 MB/s (kept)" in event.text for event in run.view().events)


def test_lower_external_rate_is_overridden_on_request_and_restored(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    set_config(client, Resource.broker(3), FOLLOWER_RATE, "2000000")
    run = start(client, {("t", 0): (1, 3)}, override_rates=True)
    run.until(lambda step: isinstance(step, Poll))
    assert throttles(client)[Resource.broker(3)][FOLLOWER_RATE].value == "5000000"
    run.restores(Outcome.DONE)


def test_ended_move_clears_only_rates_of_brokers_that_no_other_move_needs(start: Start) -> None:
    """Cruise Control's case: two moves share brokers 1 and 3, one ends: only 2's is cleared."""
    sizes = {TopicPartition("t", 0): 100 * MB, TopicPartition("t", 1): 1 * MB}
    run = start(
        cluster({"t": [(1,), (1, 2)]}, size_bytes=sizes), {("t", 0): (3,), ("t", 1): (1, 3)}
    )
    run.until(lambda step: isinstance(step, NoteEnded))
    run.until(lambda step: isinstance(step, Poll))
    rates = throttles(run.client)
    assert {b for b in (1, 2, 3) if LEADER_RATE in rates[Resource.broker(b)]} == {1, 3}
    lists = rates[Resource.topic("t")]
    assert set((lists[LEADER_LIST].value or "").split(",")) == {"0:1", "0:3"}


@pytest.mark.parametrize("found", ["nothing", "foreign entries", "a higher rate"])
def test_throttles_are_removed_even_if_brokers_still_show_the_previous_configs(
    start: Start, found: str
) -> None:
    """Brokers that lag behind the controller show what was there before until all is over."""
    client = cluster(TWO)
    for setting in FOUND[found]:
        setting(client)
    before = throttles(client)
    everything = client.describe_configs(list(before))

    def late(real: Callable[..., Any], resources: Any, names: Any) -> Any:
        answers = {r: everything[r] for r in resources}
        return {r: {n: v for n, v in a.items() if n in names} for r, a in answers.items()}

    run = start(client, TARGETS)
    run.until(lambda step: isinstance(step, Preflight))
    run.faulty.replaced["describe_configs"] = late
    run.restores(Outcome.FAILED)


B1, B3 = Resource.broker(1), Resource.broker(3)
THEIRS = 4 * MB


def a_run(start: Start, on: Resource = B3, **more: Any) -> Run:
    """Return a run at 20 MB/s in mid-run; somebody else's 4 MB/s limits what broker 3 receives."""
    client = cluster({"t": [(1, 2)]}, size_bytes=400 * MB, **more)
    set_config(client, on, FOLLOWER_RATE, str(THEIRS))
    run = start(client, {("t", 0): (3, 2)}, rate=20 * MB)
    run.until(submitted)
    return run


def changes_rates(step: Step) -> bool:
    return isinstance(step, ChangeRates)


@pytest.mark.parametrize("on", [B3, EVERY_BROKER], ids=["of the broker", "of every broker"])
@pytest.mark.parametrize("command", ["slower", "held"])
@pytest.mark.parametrize("then", ["faster", "cancelled"])
def test_slower_rate_replaces_a_kept_foreign_rate_which_is_restored_exactly(
    start: Start, on: Resource, command: str, then: str
) -> None:
    run = a_run(start, on)
    slow = {"slower": 500_000, "held": 1}[command]
    if command == "slower":
        ask(run, "throttle", rate_bytes_per_s=slow)
    else:
        ask(run, "pause", floor=True)
    run.until(changes_rates)
    spend(run, 25)  # what was let through before is paid for
    assert own(run.client, B3, FOLLOWER_RATE) == str(slow)
    moved = run.view().moved_bytes
    spend(run, 40)
    assert run.view().moved_bytes - moved <= 45 * slow + 5 * MB, "a fetch passes in 11 s"
    if then == "cancelled":
        run.cancel()
        assert run.to_the_end() is Outcome.CANCELLED
    else:
        ask(run, "throttle", rate_bytes_per_s=20 * MB)
        ask(run, "resume") if command == "held" else None
        spend(run, 40)
        assert own(run.client, B3, FOLLOWER_RATE) == str(THEIRS), "ours is never above theirs"
        seen = next(b for b in run.view().brokers if (b.broker, b.side) == (3, "receives"))
        assert seen.why == "foreign quota 4.0 MB/s, kept"
        assert run.to_the_end() is Outcome.DONE
    assert throttles(run.client) == run.found
    assert run.view().leftovers is None


def test_kept_foreign_rate_returns_gradually_and_is_reported_with_its_own_value(
    start: Start,
) -> None:
    run = a_run(start)
    ask(run, "pause", floor=True)
    run.until(changes_rates)
    spend(run, 20)
    ask(run, "resume")
    spend(run, 3)
    rate = int(own(run.client, B3, FOLLOWER_RATE) or 0)
    assert 0 < rate < 2 * MB, "a tenth of 4 MB/s a second, not of 20"
    spend(run, 60)
    assert "follower rate of broker 3: 4.0 MB/s → " in report(run.look())
    assert any("on the way to 4.0 MB/s" in event.text for event in run.view().events)


def test_requested_rate_above_a_kept_foreign_rate_leaves_that_one_unchanged(start: Start) -> None:
    run = a_run(start)
    ask(run, "throttle", rate_bytes_per_s=10 * MB)
    run.until(changes_rates)
    spend(run, 10)
    assert own(run.client, B1, LEADER_RATE) == str(10 * MB)
    changed = [p["rates"] for p in run.payloads(Kind.RATES_CHANGING)]
    assert not any((rate["broker"], rate["side"]) == (3, "follower") for c in changed for rate in c)


@pytest.mark.parametrize("theirs", ["3000000", "300000", "90000000", None])
def test_kept_foreign_rate_changed_just_before_ours_is_set_is_restored_as_changed(
    start: Start, theirs: str | None
) -> None:
    """Changed right before ours is set, and seen by nobody."""
    run = a_run(start)
    spend(run, 5)
    if theirs:
        set_config(run.client, B3, FOLLOWER_RATE, theirs)
    else:
        delete(run.client, B3, FOLLOWER_RATE)
    ask(run, "throttle", rate_bytes_per_s=MB)
    run.until(changes_rates)
    spend(run, 10)
    assert own(run.client, B3, FOLLOWER_RATE) == min(theirs or "1000000", "1000000", key=int)
    assert run.to_the_end() is Outcome.DONE
    assert own(run.client, B3, FOLLOWER_RATE) == theirs


@pytest.mark.parametrize("dies", ["before it is set", "after it was set"])
@pytest.mark.parametrize("on", [B3, EVERY_BROKER], ids=["of the broker", "of every broker"])
def test_process_death_while_lowering_a_kept_rate_is_recovered_and_the_rate_restored(
    start: Start, dies: str, on: Resource
) -> None:
    run = a_run(start, on)

    def die(real: Any, changes: Any) -> Any:
        if dies == "after it was set":
            real(changes)
        raise KeyboardInterrupt

    run.faulty.replaced["alter_configs"] = die
    ask(run, "throttle", rate_bytes_per_s=MB)
    with pytest.raises(KeyboardInterrupt):
        spend(run, 10)
    assert run.journal.records()[-1].kind is Kind.RATES_CHANGING
    run.faulty.replaced.clear()
    run.restart_process()
    spend(run, 5)
    assert own(run.client, B3, FOLLOWER_RATE) == str(MB)
    run.cancel()
    run.restores(Outcome.CANCELLED)


def test_kept_foreign_rate_of_a_broker_that_was_down_is_lowered_on_its_return(start: Start) -> None:
    run = a_run(start)
    run.client.stop_broker(3)
    spend(run, 5)
    ask(run, "throttle", rate_bytes_per_s=MB)
    spend(run, 10)
    assert own(run.client, B1, LEADER_RATE) == str(MB)
    run.client.start_broker(3)
    spend(run, 15)
    assert own(run.client, B3, FOLLOWER_RATE) == str(MB)
    run.cancel()
    run.to_the_end()
    assert own(run.client, B3, FOLLOWER_RATE) == str(THEIRS)


def test_adaptive_run_slows_a_side_below_a_kept_foreign_rate(start: Start) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=400 * MB)
    set_config(client, B3, FOLLOWER_RATE, str(THEIRS))
    run = start(client, {("t", 0): (3, 2)}, rate=20 * MB, auto=None)
    run.until(submitted)
    ask(run, "throttle", auto={"least_bytes_per_s": MB, "most_bytes_per_s": 20 * MB})
    run.until(lambda step: isinstance(step, Poll) and own(client, B3, FOLLOWER_RATE) == str(MB))
    run.cancel()
    assert run.to_the_end() is Outcome.CANCELLED
    assert own(client, B3, FOLLOWER_RATE) == str(THEIRS)
