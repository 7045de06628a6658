"""A run in which some brokers get less than the others, because less will do for them."""

from __future__ import annotations

from typing import Any

import pytest
from run_help import MB, Run, Start, ask, cluster, own, set_config, submitted

from core.cluster.configs import FOLLOWER_RATE, LEADER_RATE, Resource
from core.plan.copies import Side
from core.run.journal.move_state import Outcome
from core.run.reporting.report import report

B2, B3, B4 = (Resource.broker(broker) for broker in (2, 3, 4))
RATE, LESS = 40 * MB, 12 * MB
APART = {(2, Side.LEADER): LESS, (4, Side.FOLLOWER): LESS}


def a_run(start: Start, **options: Any) -> Run:
    """Return a run in flight that copies from broker 1 to 3, and from 2 to 4."""
    client = cluster({"big": [(1,)], "little": [(2,)]}, size_bytes=400 * MB)
    for name, value in options.pop("found", {}).items():
        set_config(client, B4, name, value)
    run = start(
        client, {("big", 0): (3,), ("little", 0): (4,)}, rate=RATE, per_side_rates=APART, **options
    )
    run.until(submitted)
    return run


def rates(run: Run) -> dict[str, str | None]:
    return {
        "2 sends": own(run.client, B2, LEADER_RATE),
        "4 receives": own(run.client, B4, FOLLOWER_RATE),
        "3 receives": own(run.client, B3, FOLLOWER_RATE),
        "4 sends": own(run.client, B4, LEADER_RATE),
    }


def test_lower_per_side_rates_are_set_and_all_rates_are_restored_at_the_end(start: Start) -> None:
    run = a_run(start)
    assert rates(run) == {
        "2 sends": str(LESS),
        "4 receives": str(LESS),
        "3 receives": str(RATE),
        "4 sends": str(RATE),
    }
    assert run.to_the_end() is Outcome.DONE
    assert set(rates(run).values()) == {None}
    assert "throttle 40 MB/s a broker and side, less for 2 of them" in report(run.look())


def test_next_process_continues_with_the_per_side_rates(start: Start) -> None:
    run = a_run(start)
    run.restart_process()
    run.until(lambda _: True)
    assert rates(run)["4 receives"] == str(LESS)
    assert run.state.rate_control.per_side_rates == APART
    assert run.to_the_end() is Outcome.DONE


@pytest.mark.parametrize(
    ("theirs", "holds"),
    [(5 * MB, 5 * MB), (LESS + MB, LESS)],
    ids=["a lower one is kept", "one between both is not"],
)
def test_lower_of_foreign_and_per_side_rate_holds_and_the_foreign_one_is_restored(
    start: Start, theirs: int, holds: int
) -> None:
    run = a_run(start, found={FOLLOWER_RATE: str(theirs)})
    assert rates(run)["4 receives"] == str(holds)
    assert run.to_the_end() is Outcome.DONE
    assert rates(run)["4 receives"] == str(theirs)


@pytest.mark.parametrize("rate", [20 * MB, 8 * MB], ids=["between", "lower than all"])
def test_rate_requested_later_applies_to_every_side(start: Start, rate: int) -> None:
    run = a_run(start)
    ask(run, "throttle", rate_bytes_per_s=rate)
    run.until(lambda _: set(rates(run).values()) == {str(rate)})
    assert run.to_the_end() is Outcome.DONE
    assert set(rates(run).values()) == {None}


def test_resume_from_the_floor_returns_to_the_lower_per_side_rate(start: Start) -> None:
    run = a_run(start)
    ask(run, "pause", floor=True)
    run.until(lambda _: rates(run)["4 receives"] == "1")
    ask(run, "resume")
    run.until(lambda _: rates(run)["4 receives"] == str(LESS))
    assert run.to_the_end() is Outcome.DONE
    assert "on the way to 12 MB/s" in report(run.look())


def test_rollback_drops_the_per_side_rates(start: Start) -> None:
    run = a_run(start)
    ask(run, "rollback")
    run.restores(Outcome.CANCELLED)
    assert run.state.rate_control.per_side_rates == {}


def test_broker_that_becomes_leader_of_more_partitions_gets_the_full_rate(start: Start) -> None:
    """Broker 2 sends little; then it leads what broker 1, which dies, has led."""
    run = start(
        cluster({"big": [(1, 2)], "little": [(2,)]}, size_bytes=900 * MB),
        {("big", 0): (3, 2), ("little", 0): (4,)},
        rate=RATE,
        per_side_rates={(2, Side.LEADER): LESS},
    )
    run.until(submitted)
    assert rates(run)["2 sends"] == str(LESS)
    run.client.stop_broker(1)
    run.until(lambda _: rates(run)["2 sends"] == str(RATE))
    run.client.start_broker(1)
    assert run.to_the_end() is Outcome.DONE
    assert set(rates(run).values()) == {None}
