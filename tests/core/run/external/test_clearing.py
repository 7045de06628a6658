"""Clearing throttles: what no move needs goes, exactly; what somebody needs stays and is named."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from cli_help import SLOW, Here
from in_process import Hand
from run_help import (
    MB,
    Faulty,
    Run,
    Start,
    answering,
    ask,
    cluster,
    set_config,
    spend,
    throttles,
)
from waiting import eventually

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    LOG_DIRS_RATE,
    ConfigChange,
    ConfigOp,
    Resource,
)
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import ExitCode
from core.plan.copies import Side
from core.run import audit
from core.run.external.clearing import Clearing, clear, plan_clearing
from core.run.external.leftovers import fetch_leftovers
from core.run.journal.replay import fold
from core.run.journal.throttle_values import own_list
from core.run.reporting.runs import KnownRun
from core.run.steps import Poll

T, U = Resource.topic("t"), Resource.topic("u")
Changes = set[tuple[str, str, ConfigOp, str | None]]


@pytest.fixture
def client() -> SimulatedCluster:
    """Partition t-0 moves to 3, for somebody else; u rests."""
    client = cluster({"t": [(1, 2), (1, 2)], "u": [(1, 2)]}, size_bytes=20000 * MB)
    assert client.alter_reassignments({TopicPartition("t", 0): (1, 3)})
    return client


def look(client: SimulatedCluster, *named: Resource, runs: Any = ()) -> Clearing:
    return plan_clearing(client, client.describe_cluster(), runs, named)


def changes(clearing: Clearing) -> Changes:
    return {(c.resource.name, c.name, c.op, c.value) for c in clearing.changes}


@pytest.mark.parametrize(
    ("resource", "name", "value", "change"),
    [
        (T, FOLLOWER_LIST, "0:3", None),
        (T, FOLLOWER_LIST, "*", None),
        (T, FOLLOWER_LIST, "0:3,1:2", (ConfigOp.SUBTRACT, "1:2")),
        (T, LEADER_LIST, "1:2", (ConfigOp.DELETE, None)),
        (U, LEADER_LIST, "0:1,0:2", (ConfigOp.DELETE, None)),
        (U, LEADER_LIST, "", (ConfigOp.DELETE, None)),
        (U, LEADER_LIST, "*", None),
        (Resource.broker(3), FOLLOWER_RATE, "5", None),
        (Resource.broker(5), LEADER_RATE, "5", (ConfigOp.DELETE, None)),
        (Resource.broker(5), LOG_DIRS_RATE, "5", None),
    ],
)
def test_only_throttles_that_no_move_needs_are_cleared(
    client: SimulatedCluster,
    resource: Resource,
    name: str,
    value: str,
    change: tuple[ConfigOp, str | None] | None,
) -> None:
    set_config(client, resource, name, value)
    clearing = look(client)
    assert changes(clearing) == ({(resource.name, name, *change)} if change else set())
    assert clear(client, client.clock, clearing) == {}
    assert changes(look(client)) == set()


@pytest.mark.parametrize(
    ("resource", "name", "value"),
    [
        (T, FOLLOWER_LIST, "0:3"),
        (U, LEADER_LIST, "*"),
        (Resource.broker(3), FOLLOWER_RATE, "5"),
        (Resource.broker(5), LOG_DIRS_RATE, "5"),
    ],
)
def test_named_resource_is_cleared_even_if_needed_and_no_other_is(
    client: SimulatedCluster, resource: Resource, name: str, value: str
) -> None:
    set_config(client, resource, name, value)
    set_config(client, Resource.broker(6), LEADER_RATE, "7")
    clearing = look(client, resource)
    assert changes(clearing) == {(resource.name, name, ConfigOp.DELETE, None)}
    clear(client, client.clock, clearing)
    assert throttles(client)[Resource.broker(6)][LEADER_RATE].value == "7"


@pytest.fixture
def run(client: SimulatedCluster, start: Start) -> Run:
    run = start(client, {("u", 0): (4, 2)})
    set_config(client, Resource.broker(4), FOLLOWER_RATE, "900000000")
    run.until(lambda step: isinstance(step, Poll))
    return run


def test_throttles_of_a_run_in_progress_are_never_cleared(
    client: SimulatedCluster, run: Run
) -> None:
    set_config(client, Resource.broker(4), LOG_DIRS_RATE, "5")
    named = (U, *(Resource.broker(b) for b in (1, 2, 4)))
    clearing = look(client, *named, runs=[KnownRun(run.state, living=True)])
    assert not clearing.changes
    assert {why for _, why in clearing.kept} == {
        f"run {run.state.run_id} is in progress and works with it"
    }


def test_throttles_of_a_dead_run_are_restored_to_their_prior_values(
    client: SimulatedCluster, run: Run
) -> None:
    client.cancel_reassignments([TopicPartition("u", 0)])
    client.clock.sleep(1)
    clear(client, client.clock, look(client, runs=[KnownRun(run.state, living=False)]))
    now = throttles(client)
    assert now[Resource.broker(4)][FOLLOWER_RATE].value == "900000000"
    assert not now[U][LEADER_LIST].value
    assert not now[U][FOLLOWER_LIST].value


class _Killed(BaseException):
    """As `kill -9`: nothing of the run's is done after it."""


def test_rate_that_a_killed_run_was_changing_is_restored_to_its_prior_value(
    client: SimulatedCluster, start: Start
) -> None:
    """The journal tells the new rate, the broker holds the one before."""
    through = Faulty(client)
    run = start(client, {("u", 0): (4, 2)}, through=through)
    set_config(client, Resource.broker(4), FOLLOWER_RATE, "900000000")
    run.until(lambda step: isinstance(step, Poll))

    def killed(real: Any, changes: Any) -> Any:
        raise _Killed

    through.replaced["alter_configs"] = killed
    ask(run, "throttle", rate_bytes_per_s=3 * MB)
    with pytest.raises(_Killed):
        spend(run, 60)
    client.cancel_reassignments([TopicPartition("u", 0)])
    client.clock.sleep(1)
    left = run.view(living=False).leftovers
    assert left is not None
    stands = fetch_leftovers(client, left)
    assert {(r.broker, r.side, r.rate_bytes_per_s) for r in stands.rates} == {
        *((broker, Side.LEADER, 5 * MB) for broker in (1, 2, 4)),
        (4, Side.FOLLOWER, 5 * MB),
    }
    known = KnownRun(fold(run.journal.records()), living=False)
    clear(client, client.clock, look(client, runs=[known]))
    assert throttles(client)[Resource.broker(4)][FOLLOWER_RATE].value == "900000000"
    assert 4 not in {rate.broker for rate in fetch_leftovers(client, left).rates}


@pytest.mark.parametrize("found", ["0:1,0:2", ""])
def test_list_entry_appended_after_listing_is_not_cleared(
    client: SimulatedCluster, found: str
) -> None:
    set_config(client, U, LEADER_LIST, found)
    listed = look(client)
    added = ConfigChange(U, LEADER_LIST, ConfigOp.APPEND, "9:5")
    assert client.alter_configs([added]) == {U: None}
    assert clear(client, client.clock, listed) == {}
    assert throttles(client)[U][LEADER_LIST].value == "9:5"


def test_list_is_not_cleared_if_the_controller_does_not_return_its_entries(
    client: SimulatedCluster,
) -> None:
    set_config(client, U, LEADER_LIST, "0:1,0:2")
    through: Any = Faulty(client)
    listed = look(client)
    through.replaced["fetch_list_entries"] = lambda real, lists: dict.fromkeys(
        lists, Fault("REQUEST_TIMED_OUT", "no answer")
    )
    assert clear(through, client.clock, listed) == {U: "REQUEST_TIMED_OUT: no answer"}
    through.replaced.clear()
    assert clear(through, client.clock, look(client)) == {}
    assert own_list(throttles(client)[U], Side.LEADER) is None


def test_list_is_unset_although_a_lagging_broker_still_shows_it(client: SimulatedCluster) -> None:
    set_config(client, U, LEADER_LIST, "0:1,0:2")
    through: Any = Faulty(client)
    listed, late = look(client), client.describe_configs([U])
    through.replaced["describe_configs"] = lambda real, *changes: late
    assert clear(through, client.clock, listed) == {U: "it is set still"}
    assert own_list(throttles(client)[U], Side.LEADER) is None


def test_list_is_cleared_if_the_controller_cannot_return_list_entries(
    client: SimulatedCluster,
) -> None:
    set_config(client, U, LEADER_LIST, "0:1,0:2")
    through: Any = Faulty(client)
    through.replaced["fetch_list_entries"] = answering("UNSUPPORTED_VERSION")
    assert clear(through, client.clock, look(client)) == {}
    assert own_list(throttles(client)[U], Side.LEADER) is None


# -- on the command line ---------------------------------------------------------------------------


def test_clear_command_lists_throttles_needs_confirmation_and_reports_the_result(
    here: Here,
) -> None:
    quiet = Resource.broker(max(broker.id for broker in here.state().brokers))
    here.client.alter_configs([ConfigChange(quiet, LEADER_RATE, ConfigOp.SET, "12345678")])
    code, _, err = here("throttles", "clear")
    assert code == ExitCode.USAGE
    assert "there is no terminal" in err
    assert "12345678" in err
    code, out, _ = here("throttles", "clear", "--yes", "--json")
    assert code == ExitCode.DONE
    assert [entry["value"] for entry in json.loads(out)["cleared"]] == ["12345678"]
    assert "nothing to clear" in here("throttles", "clear", "--yes")[2]
    code, _, err = here("throttles", "clear", "orders")
    assert code == ExitCode.USAGE
    assert "topic:orders" in err
    noted = [line.entry["what"] for line in audit.read() if line.entry is not None]
    assert noted == ["clear", "configs", "answer"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("topic:tt", "There is no topic tt."),
        ("broker:99", "There is no broker 99.\nThe brokers are 1, 2, 3, 4, 5, 6."),
    ],
)
def test_clearing_an_unknown_topic_or_broker_is_refused(
    hand: Hand, client: SimulatedCluster, name: str, message: str
) -> None:
    code, _, err = hand.on(client)("throttles", "clear", name, "--yes")
    assert code == ExitCode.USAGE
    assert message in err


def test_throttles_of_a_killed_run_are_kept_while_its_moves_are_in_flight(here: Here) -> None:
    run = json.loads(here("apply", here.plan(skip=80), *SLOW)[1])["run"]
    eventually(lambda: bool(here.client.fetch_reassignments()))
    code, _, err = here("throttles", "clear", "--yes")
    assert code == ExitCode.DONE
    assert f"run {run} is in progress and works with it" in err
    assert "nothing to clear" in err
    os.kill(json.loads(here("runs", "show", run, "--json")[1])["pid"], signal.SIGKILL)
    eventually(lambda: "died" in here("runs", "ls")[1])
    assert "moves in flight run under it" in here("throttles", "clear", "--yes")[2]
    here.client.cancel_reassignments(list(here.client.fetch_reassignments()))
    eventually(lambda: not here.client.fetch_reassignments())
    assert here("throttles", "clear", "--yes")[0] == ExitCode.DONE
    assert "No throttle is set." in here("throttles", "ls")[2]
