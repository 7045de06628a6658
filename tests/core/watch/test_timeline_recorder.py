"""The recorder on a simulated cluster: what happens there is on its timeline."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial, reduce
from itertools import count
from operator import or_
from pathlib import Path

import numpy as np
import pytest
from run_help import Faulty, cluster, set_config, unreachable

from core.cluster.client import ClusterClient, NewTopic
from core.cluster.configs import ConfigChange, ConfigOp, Resource
from core.cluster.metadata import TopicPartition
from core.cluster.observer import Observer
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import ClusterState
from core.errors import TrimtabError
from core.watch.timeline.coverage import find_gaps
from core.watch.timeline.event_sources import EventSource
from core.watch.timeline.events import Event, Kind
from core.watch.timeline.recorder import Recorder, run_recorder
from core.watch.timeline.store import Timeline
from core.watch.timeline.text import format_event


class Recorded:
    """A cluster that is looked at each second of its own time."""

    def __init__(
        self, path: Path, client: SimulatedCluster, sources: Sequence[EventSource] = ()
    ) -> None:
        self.client, self.faulty = client, Faulty(client)
        self.troubles: list[TrimtabError] = []
        self._path, self._sources = path, sources
        self.start()

    def start(self) -> None:
        """Begin to record, after `close` as the next recorder."""
        self.timeline = Timeline.write(self._path)
        faulty: ClusterClient = self.faulty  # type: ignore[assignment]
        self.recorder = Recorder(faulty, self.client.clock, self.timeline, self._sources)

    def close(self) -> None:
        self.timeline.close()

    def spend(self, seconds: float) -> list[Event]:
        until = self.client.elapsed_seconds + seconds
        events: list[Event] = []

        def report(what: list[Event] | TrimtabError) -> None:
            if isinstance(what, TrimtabError):
                self.troubles.append(what)
            else:
                events.extend(what)

        run_recorder(
            self.recorder,
            self.client.clock,
            keep_on=lambda: self.client.elapsed_seconds < until,
            report=report,
        )
        return events


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    client = cluster({"t": [(1, 2), (2, 1)], "u": [(1, 2, 3)]})
    with closing(Recorded(tmp_path / "a.timeline", client)) as recording:
        assert recording.spend(3) == []
        yield recording


def test_reassignment_that_becomes_hidden_is_not_reported_as_ended(recorded: Recorded) -> None:
    client = recorded.client
    client.pause_replication(3)
    client.alter_reassignments({TopicPartition("t", 0): (3, 2)})
    assert [format_event(e) for e in recorded.spend(2)] == ["t-0 moves 1,2 → 3,2"]

    def hidden(real: Callable[[], ClusterState]) -> ClusterState:
        state = real()
        none = np.zeros(state.replica_count, np.bool_)
        return dataclasses.replace(state, adding=none, removing=none, moves_unknown="It may not.")

    recorded.faulty.replaced["describe_cluster"] = hidden
    assert recorded.spend(2) == []
    del recorded.faulty.replaced["describe_cluster"]
    assert recorded.spend(2) == []
    recorded.faulty.replaced["describe_cluster"] = hidden
    client.resume_replication(3)
    (ended,) = (e for e in recorded.spend(60) if e.kind & Kind.ASSIGNMENT)
    assert format_event(ended).endswith("has moved, now on 3,2")


def kinds(events: list[Event]) -> Kind:
    return reduce(or_, (event.kind for event in events), Kind(0))


def test_broker_death_and_return_are_recorded_with_leader_and_isr_changes(
    recorded: Recorded,
) -> None:
    recorded.client.stop_broker(1)
    died = recorded.spend(60)
    assert "broker 1 went down" in map(format_event, died)
    assert Kind.BROKER_DOWN | Kind.LEADER | Kind.ISR_SHRINK in kinds(died)
    recorded.client.start_broker(1)
    back = recorded.spend(60)
    assert kinds(back) == Kind.BROKER_UP | Kind.ISR_EXPAND
    assert list(recorded.timeline.events()) == [*died, *back]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("min.insync.replicas", "2", "min.insync.replicas 1 → 2"),
        ("retention.ms", "1000", "retention.ms 604800000 → 1000"),
        ("retention.bytes", "1000", "retention.bytes -1 → 1000"),
        ("cleanup.policy", "compact", "cleanup.policy delete → compact"),
    ],
)
def test_change_of_a_tracked_topic_config_is_recorded(
    recorded: Recorded, name: str, value: str, words: str
) -> None:
    set_config(recorded.client, Resource.topic("t"), name, value)
    (event,) = recorded.spend(130)
    assert format_event(event) == f"topic t: {words}"
    gone = ConfigChange(Resource.topic("t"), name, ConfigOp.DELETE)
    assert recorded.client.alter_configs([gone]) == {Resource.topic("t"): None}
    (event,) = recorded.spend(130)
    assert event.kind is Kind.CONFIG


def test_config_change_of_a_new_topic_between_two_recorders_is_recorded(recorded: Recorded) -> None:
    """Also where nobody looked as it was changed."""
    recorded.client.create_topics([NewTopic("new", ((1, 2),), {"min.insync.replicas": "2"})])
    (made, *_) = recorded.spend(5)
    assert made.kind is Kind.TOPIC_CREATED
    recorded.close()
    set_config(recorded.client, Resource.topic("new"), "min.insync.replicas", "1")
    recorded.start()
    (event,) = recorded.spend(5)
    assert format_event(event).endswith("2 → 1")


def test_deletion_of_a_topic_is_recorded(recorded: Recorded) -> None:
    recorded.client.delete_topic("t")
    assert kinds(recorded.spend(5)) == Kind.TOPIC_DELETED | Kind.PARTITION


def test_unreachable_cluster_is_reported_and_polled_until_it_answers(recorded: Recorded) -> None:
    recorded.faulty.replaced["describe_cluster"] = unreachable
    assert recorded.spend(30) == []
    assert 5 < len(recorded.troubles) < 31
    recorded.client.stop_broker(1)
    recorded.faulty.replaced.clear()
    events = recorded.spend(30)
    assert format_event(events[0]).startswith("nobody looked for ")
    assert Kind.BROKER_DOWN in events[1].kind


def test_quiet_time_before_a_restart_is_not_recorded_as_a_gap(recorded: Recorded) -> None:
    recorded.spend(300)
    recorded.close()
    recorded.client.stop_broker(2)
    recorded.start()
    events = recorded.spend(12)
    assert Kind.GAP not in kinds(events)
    assert Kind.BROKER_DOWN in kinds(events)


def test_gap_is_recorded_even_where_nothing_changed_during_it(recorded: Recorded) -> None:
    """A broker may have died in it, and come back."""
    recorded.close()
    recorded.client.clock.sleep(3600)
    recorded.start()
    (gap,) = recorded.spend(30)
    assert gap.kind is Kind.GAP
    assert format_event(gap) == "nobody looked for 1 h 00 m: only what lasted is known"
    assert recorded.spend(30) == []


def test_clock_set_back_is_recorded_as_a_gap(recorded: Recorded) -> None:
    recorded.faulty.replaced["describe_cluster"] = lambda real: dataclasses.replace(
        state := real(), fetched_at=state.fetched_at - timedelta(hours=1)
    )
    (back,) = recorded.spend(30)
    assert back.kind is Kind.GAP
    assert format_event(back).startswith("this machine's clock was set back by 1 h 00 m")
    recorded.client.stop_broker(1)
    recorded.spend(30)
    span = recorded.timeline.span
    assert find_gaps(recorded.timeline, None, span[1], span[1])[1:] == []
    newest = recorded.timeline.state_at(span[1])
    assert [broker.id for broker in newest.brokers if not broker.alive] == [1]
    recorded.close()
    recorded.client.clock.sleep(600)
    recorded.start()
    (gap,) = recorded.spend(10)  # an hour back no more, but unseen
    assert format_event(gap).startswith("nobody looked for 10 m")


def test_slow_cluster_is_not_recorded_as_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking = count(step=5.0)
    slow = partial(Observer, stopwatch=lambda: next(ticking))
    monkeypatch.setattr("core.watch.timeline.recorder.Observer", slow)
    client = cluster({"t": [(1, 2), (2, 1)]})
    with closing(Recorded(tmp_path / "a.timeline", client)) as recorded:
        assert recorded.spend(300) == []
        client.clock.sleep(100)
        assert kinds(recorded.spend(100)) == Kind.GAP


def test_next_recorder_records_a_gap_and_what_changed_during_it(recorded: Recorded) -> None:
    recorded.close()
    recorded.client.stop_broker(2)
    recorded.client.clock.sleep(100)
    recorded.start()
    events = recorded.spend(3)
    assert [event.kind for event in events[:2]] == [Kind.GAP, Kind.BROKER_DOWN]
    last = recorded.timeline.state_at(recorded.client.now)
    described = recorded.client.describe_cluster()
    assert last.broker_by_id[2].alive is described.broker_by_id[2].alive is False
    assert [row.isr for row in last.rows()] == [row.isr for row in described.rows()]
