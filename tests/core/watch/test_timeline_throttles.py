"""Throttles that no run of this machine set are told to the timeline: set, changed, gone."""

from __future__ import annotations

from typing import Any

import pytest
from run_help import MB, TARGETS, TWO, Faulty, Run, cluster, plan_of, set_config, submitted

from core.cluster.configs import (
    LEADER_LIST,
    LEADER_RATE,
    ConfigChange,
    ConfigOp,
    Resource,
    ResourceKind,
)
from core.cluster.kafka_errors import Fault
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import AccessDeniedError
from core.run.external.throttles import fetch_throttles
from core.run.reporting.runs import with_throttles
from core.watch.timeline import event_sources as throttle_news
from core.watch.timeline.event_sources import THROTTLES_SECONDS, ThrottleEvents
from core.watch.timeline.events import Event, Kind
from core.watch.timeline.text import format_event, group_events


class Watched:
    """A cluster whose throttles are looked at once a minute."""

    def __init__(self, client: SimulatedCluster, events: list[Event] | None = None) -> None:
        self.client, self.faulty = client, Faulty(client)
        self.events = events or []
        through: Any = self.faulty
        cluster_id = client.describe_cluster().cluster_id
        self.took = 0.0
        """What each call takes by the stopwatch."""
        self.asked: list[int] = []
        """Of how many topics lists were asked for, each time."""
        self._time = 0.0
        self.faulty.replaced["describe_configs"] = self._configs
        self.news = ThrottleEvents(
            through, cluster_id, client.clock, self.events, stopwatch=lambda: self._time
        )

    def _configs(self, real: Any, resources: Any, names: Any) -> Any:
        if topics := [r for r in resources if r.kind is ResourceKind.TOPIC]:
            self.asked.append(len(topics))
            self._time += self.took
        return real(resources, names)

    def look(self, *, after: float = THROTTLES_SECONDS) -> list[str]:
        self.client.advance(after)
        events = self.news.news(self.client.describe_cluster())
        self.events += events
        assert {event.kind for event in events} <= {Kind.CONFIG}
        return [format_event(event) for event in events]


@pytest.fixture
def watched() -> Watched:
    return Watched(cluster(TWO))


def unset(client: SimulatedCluster, of: Resource, name: str) -> None:
    assert client.alter_configs([ConfigChange(of, name, ConfigOp.DELETE)]) == {of: None}


def test_throttle_rate_is_reported_when_set_changed_and_removed(watched: Watched) -> None:
    two = Resource.broker(2)
    assert watched.look() == []
    set_config(watched.client, two, LEADER_RATE, "1000")
    assert watched.look() == [f"broker 2: {LEADER_RATE} set to 1.0 kB/s"]
    assert watched.look() == []
    set_config(watched.client, two, LEADER_RATE, "5000000")
    assert watched.look() == [f"broker 2: {LEADER_RATE} set to 5.0 MB/s, before it 1.0 kB/s"]
    unset(watched.client, two, LEADER_RATE)
    assert watched.look() == [f"broker 2: {LEADER_RATE} is set no more"]
    assert watched.look() == []
    assert {event.brokers for event in watched.events} == {frozenset({2})}


def test_throttled_replica_lists_of_topics_are_reported_when_set(watched: Watched) -> None:
    watched.look()
    limit(watched)
    watched.look()
    set_config(watched.client, Resource.topic("t"), LEADER_LIST, "0:1,0:2")
    set_config(watched.client, Resource.topic("u"), LEADER_LIST, "*")
    assert watched.look() == [
        f"topic t: {LEADER_LIST} set to 2 replicas",
        f"topic u: {LEADER_LIST} set to every replica",
    ]
    assert [event.topic for event in watched.events] == [None, "t", "u"]
    watched.client.delete_topic("u")
    assert watched.look() == [], "that it was deleted is told already"


def limit(watched: Watched) -> None:
    """Throttle a broker: lists count for nothing without a rate."""
    set_config(watched.client, Resource.broker(5), LEADER_RATE, "1000")


def test_throttle_lists_without_a_rate_are_fetched_only_occasionally(watched: Watched) -> None:
    for _ in range(10):
        watched.look()
    assert watched.asked == [2], "once, as recording began"
    set_config(watched.client, Resource.topic("t"), LEADER_LIST, "*")
    assert [watched.look() for _ in range(10)].count([]) == 9
    assert [event.topic for event in watched.events] == ["t"]
    assert watched.asked == [2, 2, 1], "and once more of the one that is new"


def test_throttle_lists_removed_with_the_last_rate_are_reported_as_removed(
    watched: Watched,
) -> None:
    watched.look()
    limit(watched)
    set_config(watched.client, Resource.topic("t"), LEADER_LIST, "*")
    watched.look()
    unset(watched.client, Resource.broker(5), LEADER_RATE)
    unset(watched.client, Resource.topic("t"), LEADER_LIST)
    assert watched.look() == [
        f"broker 5: {LEADER_RATE} is set no more",
        f"topic t: {LEADER_LIST} is set no more",
    ]


def test_throttle_lists_slow_to_fetch_are_fetched_less_often(watched: Watched) -> None:
    limit(watched)
    watched.took = 30.0
    for _ in range(10):
        watched.look()
    assert watched.asked == [2, 2], "ten times half a minute apart"
    watched.took = 0.0
    for _ in range(10):
        watched.look()
    assert len(watched.asked) > 8


def test_next_recorder_reports_only_throttles_changed_since_the_last_one(watched: Watched) -> None:
    watched.look()
    for broker, rate in ((1, "1000"), (2, "2000"), (3, "3000")):
        set_config(watched.client, Resource.broker(broker), LEADER_RATE, rate)
    set_config(watched.client, Resource.topic("t"), LEADER_LIST, "*")
    watched.look()
    set_config(watched.client, Resource.broker(3), LEADER_RATE, "4000")
    watched.look()
    second = Watched(watched.client, watched.events)
    assert second.look() == []
    set_config(watched.client, Resource.broker(2), LEADER_RATE, "5000")
    unset(watched.client, Resource.broker(1), LEADER_RATE)
    assert Watched(watched.client, watched.events).look() == [
        f"broker 2: {LEADER_RATE} set to 5.0 kB/s, before it 2.0 kB/s",
        f"broker 1: {LEADER_RATE} is set no more",
    ]
    assert Watched(watched.client, watched.events).look() == []


def test_throttle_that_cannot_be_fetched_is_not_reported_as_gone(watched: Watched) -> None:
    set_config(watched.client, Resource.broker(1), LEADER_RATE, "1000")
    set_config(watched.client, Resource.broker(2), LEADER_RATE, "1000")
    watched.look()

    def partly(real: Any, resources: Any, names: Any) -> Any:
        configs = dict(real(resources, names))
        if Resource.broker(2) in configs:
            configs[Resource.broker(2)] = Fault("REQUEST_TIMED_OUT")
        return configs

    watched.faulty.replaced["describe_configs"] = partly
    watched.client.stop_broker(1)
    assert watched.look() == []
    watched.faulty.replaced.clear()
    watched.client.start_broker(1)
    watched.client.advance(60)
    assert watched.look() == []


def test_throttles_set_by_runs_of_this_machine_are_not_reported(watched: Watched) -> None:
    watched.look()
    run = Run(watched.client, plan_of(watched.client, TARGETS), rate=1 * MB)
    run.until(submitted)
    assert fetch_throttles(watched.client, watched.client.describe_cluster(), []).throttles
    set_config(watched.client, Resource.broker(6), LEADER_RATE, "1000")
    assert watched.look() == [f"broker 6: {LEADER_RATE} set to 1.0 kB/s"]
    run.to_the_end()
    assert watched.look() == []
    run.journal.close()


def test_throttle_of_a_run_that_sets_it_during_the_fetch_is_not_reported(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(watched.client, plan_of(watched.client, TARGETS), rate=1 * MB)
    run.until(submitted)
    read = [(), with_throttles(watched.client.describe_cluster().cluster_id)]
    monkeypatch.setattr(throttle_news, "with_throttles", lambda _: read.pop(0))
    assert watched.look() == []
    assert not read
    run.journal.close()


def test_same_throttle_on_many_brokers_or_topics_is_grouped_into_one_line(watched: Watched) -> None:
    watched.look()
    for broker in (1, 2, 3):
        set_config(watched.client, Resource.broker(broker), LEADER_RATE, "1000")
    for topic in ("t", "u"):
        set_config(watched.client, Resource.topic(topic), LEADER_LIST, "*")
    watched.look()
    assert [group.text for group in group_events(watched.events)] == [
        f"brokers 1,2,3: {LEADER_RATE} set to 1.0 kB/s",
        f"2 topics: {LEADER_LIST} set to every replica (t, u)",
    ]


def test_rates_that_may_not_be_read_are_not_reported_as_removed(watched: Watched) -> None:
    two = Resource.broker(2)
    set_config(watched.client, two, LEADER_RATE, "1000")
    assert watched.look() == [f"broker 2: {LEADER_RATE} found at 1.0 kB/s"], "as recording begins"
    no = Fault("CLUSTER_AUTHORIZATION_FAILED")
    watched.faulty.replaced["describe_configs"] = lambda real, of, names: {
        resource: no if resource == two else answer for resource, answer in real(of, names).items()
    }
    message = "recorder: could not read brokers' throttle rates: CLUSTER_AUTHORIZATION_FAILED"
    assert watched.look() == [message]
    assert watched.look() == []

    def denied(*_: Any) -> Any:
        raise AccessDeniedError("You may not.")

    watched.faulty.replaced["describe_configs"] = denied
    assert watched.look() == []
    del watched.faulty.replaced["describe_configs"]
    assert watched.look() == ["recorder: could read brokers' throttle rates again"]
    assert Watched(watched.client, watched.events).look() == [], "who records next knows it all"
