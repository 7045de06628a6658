"""Throttles of a run that somebody else edits in mid-run: whose they are, and how they end."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_help import (
    MB,
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

from core.cluster.configs import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE, Resource
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind
from core.run.journal.throttle_values import entries
from core.run.reporting.config_changes import changes
from core.run.steps import ChangeRates, NoteDrift, ReinstatePairs, SetThrottles, Step

T, B3 = Resource.topic("t"), Resource.broker(3)


def disturbed(step: Step) -> bool:
    return isinstance(step, NoteDrift)


def a_long_run(start: Start, megabytes: int = 200) -> Run:
    run = start(count=3, size_bytes=megabytes * MB, rate=5 * MB)
    run.until(submitted)
    return run


@pytest.mark.parametrize("asked", ["", "throttle", "pause"])
def test_a_rate_that_somebody_changes_in_mid_run_is_theirs_until_another_is_asked_for(
    start: Start, asked: str
) -> None:
    run = a_long_run(start)
    set_config(run.client, B3, FOLLOWER_RATE, "9000000")
    run.until(disturbed)
    spend(run, 5)
    assert own(run.client, B3, FOLLOWER_RATE) == "9000000"
    if asked == "throttle":
        ask(run, "throttle", rate_bytes_per_s=2 * MB)
    elif asked:
        ask(run, "pause", floor=True)
    if asked:
        run.until(lambda step: isinstance(step, ChangeRates))
        spend(run, 5)
        slow = {"throttle": "2000000", "pause": "1"}[asked]
        assert own(run.client, B3, FOLLOWER_RATE) == slow
        ask(run, "resume")
    assert run.to_the_end() is Outcome.DONE
    assert own(run.client, B3, FOLLOWER_RATE) == "9000000"
    assert own(run.client, Resource.broker(1), LEADER_RATE) is None


def test_what_is_held_no_more_because_somebody_set_a_rate_is_said_until_asked_again(
    start: Start,
) -> None:
    run = a_long_run(start, megabytes=600)
    ask(run, "pause", floor=True)
    run.until(lambda step: isinstance(step, ChangeRates))
    set_config(run.client, B3, FOLLOWER_RATE, "9000000")
    run.until(disturbed)
    spend(run, 2)
    held = "paused, as asked: what is in flight is held"
    theirs = f"{held}, but on broker 3, whose rate somebody else has set: ask once more"
    assert run.state.waiting == theirs
    ask(run, "pause", floor=True)
    spend(run, 5)
    assert run.state.waiting == held
    assert own(run.client, B3, FOLLOWER_RATE) == "1"


@pytest.mark.parametrize("again", [False, True], ids=["", "by another process"])
@pytest.mark.parametrize("theirs", ["2000000", "9000000"])
def test_a_rate_that_somebody_puts_back_is_ours_again(
    start: Start, theirs: str, again: bool
) -> None:
    run = a_long_run(start)
    set_config(run.client, B3, FOLLOWER_RATE, theirs)
    run.until(disturbed)
    set_config(run.client, B3, FOLLOWER_RATE, "5000000")
    run.until(disturbed)
    if again:
        run.again()
    ask(run, "throttle", rate_bytes_per_s=4 * MB)
    spend(run, 5)
    assert own(run.client, B3, FOLLOWER_RATE) == "4000000"
    run.restores(Outcome.DONE)
    found = {c.where: c.after for c in changes(run.journal.records(), run.state)}
    assert found["follower rate of broker 3"] == "unset"


@pytest.mark.parametrize("rate", [MB, 4 * MB], ids=["slower", "faster"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_two_runs_on_the_same_brokers_leave_nothing(
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    partitions: int,
    rate: int,
) -> None:
    """The second one belongs to another user: it knows nothing of the first."""
    client = cluster({"t": [(1, 2)] * 5}, size_bytes=50 * MB)
    one = start(client, {("t", p): (3, 2) for p in (0, 1)}, rate=5 * MB)
    one.until(submitted)
    spend(one, 4)
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "other"))
    targets = {("t", 2 + p): (3, 2) for p in range(partitions)}
    two = start(client, targets, rate=rate)
    runs = [one, two]
    while going := [run for run in runs if run.state.ended is None]:
        assert client.elapsed_seconds < 2000
        for run in going:
            run.runner.advance()
    assert {run.state.ended for run in runs} == {Outcome.DONE}
    assert throttles(client) == one.found


@pytest.mark.parametrize("later_seconds", [4.35, 4.4])
def test_a_rate_of_a_run_that_began_after_our_last_look_is_waited_for(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later_seconds: float
) -> None:
    """Nothing of it is in our journal when our last move ends: it is seen as rates go back."""
    client = cluster({"t": [(1, 2)], "v": [(1, 2)]}, size_bytes=20 * MB)
    ours = start(client, {("t", 0): (4, 2)}, rate=5 * MB)
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "another"))
    theirs = start(client, {("v", 0): (4, 2)}, rate=2 * MB)
    ours.until(submitted)
    spend(ours, later_seconds)
    theirs.until(submitted)
    both = (ours, theirs)
    while any(run.state.ended is None for run in both):
        for run in both:
            if run.state.ended is None:
                run.runner.advance()
    assert throttles(client) == ours.found


def test_a_lower_rate_that_somebody_sets_and_deletes_again_leaves_ours(start: Start) -> None:
    run = a_long_run(start, megabytes=600)
    set_config(run.client, B3, FOLLOWER_RATE, "2000000")
    run.until(disturbed)
    delete(run.client, B3, FOLLOWER_RATE)
    run.until(disturbed)
    spend(run, 3)
    assert own(run.client, B3, FOLLOWER_RATE) == "5000000"
    run.cancel()
    assert run.to_the_end() is Outcome.CANCELLED
    assert own(run.client, B3, FOLLOWER_RATE) is None


def test_a_rate_that_was_cleared_while_no_process_was_there_is_set_again(start: Start) -> None:
    client = cluster({"t": [(1, 2)] * 3}, size_bytes=100 * MB)
    for broker in (1, 2, 3):
        for name in (FOLLOWER_RATE, LEADER_RATE):
            set_config(client, Resource.broker(broker), name, "80000000")
    run = start(client, {("t", p): (3, 2) for p in range(3)}, batch_size=1)
    run.until(submitted)
    ask(run, "pause")
    run.until(lambda _: run.state.moves[0].phase is Phase.DONE)
    spend(run, 3)
    for name in (FOLLOWER_RATE, LEADER_RATE):
        for broker in (1, 2, 3):
            set_config(client, Resource.broker(broker), name, "80000000")
    run.again()
    ask(run, "resume")
    began = client.elapsed_seconds
    run.restores(Outcome.DONE)
    assert client.elapsed_seconds - began > 30, "200 MB at 5 MB/s"


def test_every_throttle_that_somebody_deletes_is_put_back(start: Start) -> None:
    """Kafka's own tool deletes all of them when it verifies a plan and no move is in flight."""
    run = a_long_run(start, megabytes=2000)

    def verify_of_kafkas_tool() -> None:
        for broker in range(1, 7):
            delete(run.client, Resource.broker(broker), LEADER_RATE, FOLLOWER_RATE)
        delete(run.client, T, LEADER_LIST, FOLLOWER_LIST)

    before = throttles(run.client)
    for _ in range(3):
        verify_of_kafkas_tool()
        run.until(disturbed)
        spend(run, 3)
        after = throttles(run.client)
        assert after[Resource.broker(1)] == before[Resource.broker(1)]
        assert own(run.client, B3, FOLLOWER_RATE)
        for name in (LEADER_LIST, FOLLOWER_LIST):
            assert entries(own(run.client, T, name)) == entries(before[T][name].value)
    run.cancel()
    assert run.to_the_end() is Outcome.CANCELLED
    assert not any(v.value for found in throttles(run.client).values() for v in found.values())


def test_a_throttle_that_is_deleted_between_two_batches_is_back_before_the_next(
    start: Start,
) -> None:
    run = start(count=2, size_bytes=20 * MB, rate=5 * MB, batch_size=1)
    run.until(submitted)
    run.journal.ask(run.client.now, "pause", {"floor": False, "who": "ann", "host": "here"})
    run.until(lambda step: run.state.moves[0].phase is Phase.DONE)
    spend(run, 3)
    delete(run.client, B3, FOLLOWER_RATE)
    spend(run, 6)
    run.journal.ask(run.client.now, "resume", {"who": "ann", "host": "here"})
    run.until(submitted)
    assert own(run.client, B3, FOLLOWER_RATE) == "5000000"
    assert run.to_the_end() is Outcome.DONE
    assert own(run.client, B3, FOLLOWER_RATE) is None


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_list_that_somebody_overwrites_is_theirs_but_for_our_pairs(
    start: Start, cancelled: bool
) -> None:
    run = a_long_run(start)
    set_config(run.client, T, FOLLOWER_LIST, "9:9")
    run.until(disturbed)
    spend(run, 3)
    assert own(run.client, T, FOLLOWER_LIST) == "9:9,0:3,1:3,2:3"
    if cancelled:
        run.cancel()
    assert run.to_the_end() is (Outcome.CANCELLED if cancelled else Outcome.DONE)
    assert own(run.client, T, FOLLOWER_LIST) == "9:9"
    assert own(run.client, T, LEADER_LIST) is None


@pytest.mark.parametrize("deleted", ["in flight", "before the batch", "twice"])
@pytest.mark.parametrize("all_", [True, False], ids=["all replicas", "entries"])
def test_entries_of_others_that_a_run_relies_on_are_put_back_and_go_in_the_end(
    start: Start, all_: bool, deleted: str
) -> None:
    client = cluster({"t": [(1, 2)] * 3}, size_bytes=600 * MB)
    before = throttles(client)
    ours = {LEADER_LIST: "0:1,0:2,0:3,1:1,1:2,1:3,2:1,2:2,2:3", FOLLOWER_LIST: "0:3,1:3,2:3"}
    for name, pairs in ours.items():
        set_config(client, T, name, "*" if all_ else pairs)
    run = start(client, {("t", p): (3, 2) for p in range(3)}, rate=5 * MB)
    run.until(submitted if deleted != "before the batch" else is_set)
    began = client.elapsed_seconds
    delete(client, T, *ours)
    if deleted == "before the batch":
        run.until(lambda _: bool(run.state.in_flight))
        began = client.elapsed_seconds
    else:
        run.until(disturbed)
        spend(run, 3)
    for name, pairs in ours.items():
        assert entries(own(client, T, name)) == entries(pairs)
    if deleted == "twice":
        delete(client, T, *ours)
        spend(run, 8)
        assert entries(own(client, T, FOLLOWER_LIST)) == entries(ours[FOLLOWER_LIST])
    assert run.to_the_end() is Outcome.DONE
    assert run.kinds.count(Kind.DISTURBED) <= 4
    assert client.elapsed_seconds - began > 100, "limited"
    assert throttles(client) == before


def is_set(step: Step) -> bool:
    return isinstance(step, SetThrottles)


def test_a_list_that_somebody_sets_to_all_is_left_to_them(start: Start) -> None:
    run = a_long_run(start)
    set_config(run.client, T, FOLLOWER_LIST, "*")
    spend(run, 20)
    assert Kind.DISTURBED not in run.kinds
    assert run.to_the_end() is Outcome.DONE
    assert own(run.client, T, FOLLOWER_LIST) == "*"


@pytest.mark.parametrize("after", [Kind.DISTURBED, Kind.PAIRS_PUTTING])
def test_what_was_deleted_is_put_back_by_the_next_process_too(start: Start, after: Kind) -> None:
    run = a_long_run(start)
    delete(run.client, B3, FOLLOWER_RATE)
    delete(run.client, T, FOLLOWER_LIST)
    run.until(
        lambda step: run.journal.records()[-1].kind is after or isinstance(step, ReinstatePairs)
    )
    run.again()
    spend(run, 5)
    assert own(run.client, B3, FOLLOWER_RATE) == "5000000"
    assert own(run.client, T, FOLLOWER_LIST) == "0:3,1:3,2:3"
    assert run.to_the_end() is Outcome.DONE
    assert own(run.client, B3, FOLLOWER_RATE) is None
    assert own(run.client, T, FOLLOWER_LIST) is None
