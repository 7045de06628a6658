"""What the recorder may not read is told, so that a quiet timeline is no quiet cluster's."""

from __future__ import annotations

from dataclasses import replace

from clusters import NOON, cluster
from run_help import TWO
from run_help import cluster as simulated

from core.cluster.metadata import Topic
from core.cluster.state import ClusterState
from core.watch.timeline.event_sources import SETTLE_SECONDS, AccessNotice, ConfigAccess
from core.watch.timeline.events import Kind
from core.watch.timeline.text import format_event


def with_min_insync(*min_insync: int | None) -> ClusterState:
    topics = [Topic(f"t{n}", f"id-{n}", least) for n, least in enumerate(min_insync)]
    return cluster({f"t{n}-0": [1, 2] for n in range(len(min_insync))}, topics=topics)


def looked_at(*polls: ClusterState, pause: float = 1.0) -> list[list[str]]:
    """Return what is told at each of these looks, so many seconds apart."""
    time = simulated(TWO)
    source = ConfigAccess(time.clock)
    texts_by_look = []
    for state in polls:
        time.advance(pause)
        events = source.news(replace(state, fetched_at=NOON))
        assert {event.kind for event in events} <= {Kind.CONFIG}
        texts_by_look.append([format_event(event) for event in events])
    return texts_by_look


NOT = "recorder: could not read configs of topics: changes of"
WHY = "do not show (DESCRIBE_CONFIGS is missing?)"
AGAIN = "recorder: could read configs of topics again"


def test_unreadable_configs_of_all_topics_and_regained_access_are_reported_at_once() -> None:
    none, both = with_min_insync(None, None), with_min_insync(1, 2)
    assert looked_at(none, none, both, both) == [[f"{NOT} 2 topics of 2 {WHY}"], [], [AGAIN], []]


def test_missing_configs_of_some_topics_are_reported_only_after_a_settling_time() -> None:
    late = with_min_insync(1, 1, None)
    assert looked_at(with_min_insync(1, None), with_min_insync(1, 1), late, late) == [
        [],
        [],
        [],
        [],
    ]
    assert looked_at(late, late, pause=SETTLE_SECONDS) == [[], [f"{NOT} 1 topic of 3 {WHY}"]]


def test_cluster_without_topics_has_no_unreadable_configs_to_report() -> None:
    assert looked_at(cluster({}, brokers=[1])) == [[]]


def test_reassignments_that_may_not_be_listed_are_reported_once() -> None:
    access, why = AccessNotice(Kind.ASSIGNMENT, "what is in flight"), "This user may not list them."
    assert access.notice(NOON, "") == []
    (event,) = access.notice(NOON, why)
    assert event.kind == Kind.ASSIGNMENT
    assert (
        format_event(event)
        == "recorder: could not read what is in flight: This user may not list them."
    )
    assert access.notice(NOON, why) == []
    assert [format_event(e) for e in access.notice(NOON, "")] == [
        "recorder: could read what is in flight again"
    ]
