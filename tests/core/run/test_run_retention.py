"""What retention lowered for a run leaves out, and what is told of the bytes that are left."""

from __future__ import annotations

from run_help import MB, Start, cluster, plan_of

from core.run.notify import notice
from core.run.record.history import Outcome
from core.run.record.records import Kind
from core.units import format_bytes

HOUR_MS = 3_600_000


def test_a_topic_that_is_only_compacted_keeps_its_retention_and_is_not_waited_for(
    start: Start,
) -> None:
    configs = {"t": {"cleanup.policy": "compact"}, "u": {"cleanup.policy": "compact,delete"}}
    client = cluster({"t": [(1, 2)], "u": [(1, 2)]}, topic_configs=configs)
    plan = plan_of(client, {("t", 0): (3, 2), ("u", 0): (3, 2)})
    run = start(client, plan, retention_ms=HOUR_MS)
    assert run.to_the_end() is Outcome.DONE
    lowered = [r.payload for r in run.journal.records() if r.kind is Kind.RETENTION_LOWERED]
    assert [p["topics"] for p in lowered] == [["u"]]


def test_a_run_of_nothing_but_compacted_topics_begins_at_once(start: Start) -> None:
    client = cluster({"t": [(1, 2)]}, topic_configs={"t": {"cleanup.policy": "compact"}})
    run = start(client, plan_of(client, {("t", 0): (3, 2)}), retention_ms=HOUR_MS)
    assert run.to_the_end() is Outcome.DONE
    assert not any("waits for leaders" in event.text for event in run.view().events)


def test_what_is_told_was_copied_is_what_the_shorter_logs_held(start: Start) -> None:
    segments = {"t": {"segment.bytes": str(MB)}}
    client = cluster({"t": [(1, 2)]}, size_bytes=200 * MB, topic_configs=segments)
    run = start(client, plan_of(client, {("t", 0): (3, 2)}), retention_ms=HOUR_MS // 2)
    assert run.to_the_end() is Outcome.DONE
    history, view = run.runner.history, run.view()
    left = history.moves[0].size_bytes
    assert left is not None
    assert 80 * MB < left < 101 * MB
    assert 80 * MB < view.moved_bytes < 101 * MB
    events = [event.text for event in view.events]
    said = f"logs of 1 of 1 partitions are shorter: {format_bytes(left)} to copy, not 200 MB"
    assert said in events
    assert events[-1].startswith(f"done: 1 of 1 partition, {format_bytes(view.moved_bytes)} in ")
    assert notice("ended", history, client.now, "")["moved_bytes"] == left
