"""What the recorder may not read is told, so that a quiet timeline is no quiet cluster's."""

from __future__ import annotations

from dataclasses import replace

from clusters import NOON, cluster
from run_help import TWO
from run_help import cluster as simulated

from core.cluster.metadata import Topic
from core.cluster.state import ClusterState
from core.watch.timeline.event_sources import SETTLE_SECONDS, ConfigAccess, ReassignmentAccess
from core.watch.timeline.events import Kind
from core.watch.timeline.text import format_event


def seen(*min_insync: int | None) -> ClusterState:
    topics = [Topic(f"t{n}", f"id-{n}", least) for n, least in enumerate(min_insync)]
    return cluster({f"t{n}-0": [1, 2] for n in range(len(min_insync))}, topics=topics)


class Looked:
    def __init__(self) -> None:
        self.time = simulated(TWO)
        self.news = ConfigAccess(self.time.clock)

    def look(self, state: ClusterState) -> list[str]:
        self.time.advance(1)
        found = self.news.news(replace(state, fetched_at=NOON))
        assert {event.kind for event in found} <= {Kind.CONFIG}
        return [format_event(event) for event in found]


def test_configs_of_no_topic_are_told_at_once_and_that_they_can_be_read() -> None:
    looked = Looked()
    assert looked.look(seen(None, None)) == [
        "recorder: could not read configs of topics: changes of 2 topics of 2 do not show "
        "(DESCRIBE_CONFIGS is missing?)"
    ]
    assert looked.look(seen(None, None)) == []
    assert looked.look(seen(1, 2)) == ["recorder: could read configs of topics again"]
    assert looked.look(seen(1, 2)) == []


def test_configs_of_some_topics_may_be_late_and_are_told_when_they_do_not_come() -> None:
    looked = Looked()
    assert looked.look(seen(1, None)) == []
    assert looked.look(seen(1, 1)) == []
    assert looked.look(seen(1, 1, None)) == []
    looked.time.advance(SETTLE_SECONDS)
    (said,) = looked.look(seen(1, 1, None))
    assert "changes of 1 topic of 3 do not show" in said


def test_moves_that_may_not_be_seen_are_told_once() -> None:
    news, state = ReassignmentAccess(), replace(seen(1), fetched_at=NOON)
    hidden = replace(state, moves_unknown="This user may not list them.")
    assert news.news(state) == []
    (event,) = news.news(hidden)
    assert event.kind == Kind.ASSIGNMENT
    assert (
        format_event(event)
        == "recorder: could not read what is in flight: This user may not list them."
    )
    assert news.news(hidden) == []
    assert [format_event(e) for e in news.news(state)] == [
        "recorder: could read what is in flight again"
    ]


def test_a_cluster_without_topics_hides_nothing() -> None:
    assert Looked().look(cluster({}, brokers=[1])) == []
