"""The first look happens in a fork: what it saw, what stopped it, and its end reach the parent."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from clusters import cluster

from core.cli.common.context import Target
from core.clock import SystemClock
from core.cluster.connect import Address
from core.errors import UnreachableError
from tui.feed import feed
from tui.feed import prefetch as first_look
from tui.feed.prefetch import Prefetch

ADDRESS = Address("127.0.0.1:1")
STATE = cluster({"orders-0": [1, 2]})

# The test runner has threads; the fork does not use what they may hold.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def see(monkeypatch: pytest.MonkeyPatch, describe: Callable[[], Any]) -> None:
    client = SimpleNamespace(describe_cluster=describe, ping=lambda: None, close=lambda: None)
    connection = SimpleNamespace(client=client, clock=SystemClock())
    for module in (first_look, feed):
        monkeypatch.setattr(module, "connect", lambda address: connection)


def fail(error: Exception) -> Callable[[], Any]:
    def describe() -> Any:
        raise error

    return describe


def test_cluster_state_read_by_the_fork_is_returned_to_the_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    see(monkeypatch, lambda: STATE)
    seen = Prefetch(ADDRESS).result()
    assert seen is not None
    assert seen.cluster_id == STATE.cluster_id
    assert seen.topics == STATE.topics
    assert np.array_equal(seen.replica_broker, STATE.replica_broker)


def test_error_in_the_fork_is_raised_in_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    see(monkeypatch, fail(UnreachableError("Nothing listens.", detail="why", next="Look.")))
    with pytest.raises(UnreachableError) as caught:
        Prefetch(ADDRESS).result()
    assert str(caught.value) == "Nothing listens.\nwhy\nLook."


def test_bug_in_the_fork_yields_no_result_and_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    see(monkeypatch, fail(ZeroDivisionError()))
    assert Prefetch(ADDRESS).result() is None
    assert capfd.readouterr() == ("", "")


def test_stopped_prefetch_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    see(monkeypatch, lambda: time.sleep(60))
    look = Prefetch(ADDRESS)
    look.stop()
    assert look.result() is None
    look.stop()


@pytest.mark.parametrize("describe", [lambda: STATE, fail(ZeroDivisionError())])
def test_feed_shows_the_state_read_by_the_fork_or_reads_it_itself(
    monkeypatch: pytest.MonkeyPatch, describe: Callable[[], Any]
) -> None:
    see(monkeypatch, describe)
    look = Prefetch(ADDRESS)
    see(monkeypatch, lambda: STATE)
    reader = feed.Feed(Target(address=ADDRESS), start_load=False)
    reader._look = look
    got: list[feed.Event] = []

    def deliver(event: feed.Event) -> None:
        got.append(event)
        if isinstance(event, feed.PictureChanged):
            reader.stop()

    reader.attach(deliver)
    reader._read_cluster()
    assert isinstance(got[-1], feed.PictureChanged)
    assert got[-1].state.cluster_id == STATE.cluster_id


def test_simulator_is_not_prefetched_in_a_fork() -> None:
    assert not Prefetch.suits(Address("sim:/somewhere"))
