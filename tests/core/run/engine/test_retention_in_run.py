"""Retention lowered for a run: for which topics, how it ends, what is told, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from run_help import (
    MB,
    Run,
    Start,
    ask,
    cluster,
    plan_of,
    refusing,
    set_config,
    submitted,
    throttles,
)

from core.cluster.client import OffsetAt
from core.cluster.configs import ConfigChange, ConfigOp, Resource
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.spec import GroupSpec
from core.load.load import Load
from core.run.external.leftovers import fetch_leftovers
from core.run.journal.move_state import Outcome
from core.run.journal.records import Kind
from core.run.reporting.config_changes import changes
from core.run.reporting.documents import run_document
from core.run.reporting.notifier import notice
from core.run.reporting.report import markdown, report
from core.run.reporting.views import MoveStatus, RunStatus
from core.run.steps import LowerRetention, NoteLogsShortened, Poll, Preflight
from core.units import format_bytes

HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS
T, U = Resource.topic("t"), Resource.topic("u")
TP = TopicPartition("t", 0)


def lowering(
    start: Start,
    *topics: str,
    configs: Mapping[str, Mapping[str, str]] | None = None,
    size_bytes: int = 20 * MB,
    **options: Any,
) -> Run:
    """Return a run of these topics, or t, from broker 1 to 3, with a retention of an hour."""
    layout = {topic: [(1, 2)] for topic in topics or ("t",)}
    client = cluster(layout, size_bytes=size_bytes, topic_configs=configs or {})
    targets = {(topic, 0): (3, 2) for topic in layout}
    return start(client, targets, **{"retention_ms": HOUR_MS, **options})


def retention(client: SimulatedCluster, topic: Resource) -> str | None:
    return client.describe_configs([topic])[topic]["retention.ms"].value  # type: ignore[index]


@pytest.mark.parametrize("dies", [False, True], ids=["", "dying at every step"])
@pytest.mark.parametrize("prior", [None, "172800000"], ids=["unset", "set"])
@pytest.mark.parametrize("cancelled", [False, True], ids=["done", "cancelled"])
def test_retention_is_lowered_before_the_moves_and_put_back_exactly(
    start: Start, prior: str | None, cancelled: bool, dies: bool
) -> None:
    run = lowering(start, configs={"t": {"retention.ms": prior}} if prior else {})
    client, before = run.client, run.client.describe_configs([T])
    while run.state.ended is None:
        step = run.runner.advance()
        if submitted(step):
            assert retention(client, T) == "3600000"
            if cancelled:
                run.cancel()
        if dies and not isinstance(step, Poll):
            run.restart_process()
    assert run.state.ended is (Outcome.CANCELLED if cancelled else Outcome.DONE)
    assert client.describe_configs([T]) == before
    assert client.fetch_offsets([TP], OffsetAt.EARLIEST)


def test_retention_that_is_lower_already_is_left_unchanged(start: Start) -> None:
    run = lowering(start, configs={"t": {"retention.ms": "1000"}})
    assert run.to_the_end() is Outcome.DONE
    assert retention(run.client, T) == "1000"


@pytest.mark.parametrize("copied", [{("t", 0): (3, 2)}, {}], ids=["beside one", "alone"])
def test_retention_of_a_topic_with_nothing_to_copy_is_left_unchanged(
    start: Start, copied: dict[tuple[str, int], tuple[int, ...]]
) -> None:
    run = start(
        cluster({"t": [(1, 2)], "u": [(1, 2, 3)]}),
        {**copied, ("u", 0): (2, 1, 3)},
        retention_ms=HOUR_MS,
    )
    run.until(lambda step: isinstance(step, LowerRetention))
    assert run.state.retention is not None
    assert set(run.state.retention.topics) == {topic for topic, _ in copied}
    assert run.to_the_end() is Outcome.DONE


@pytest.mark.parametrize("theirs", ["700000000", "1000", None], ids=["more", "less", "unset"])
def test_retention_that_somebody_sets_between_intent_and_lowering_is_put_back(
    start: Start, theirs: str | None
) -> None:
    run = lowering(start, configs={"t": {"retention.ms": "172800000"}})
    run.until(lambda step: isinstance(step, LowerRetention))
    op = ConfigOp.DELETE if theirs is None else ConfigOp.SET
    run.client.alter_configs([ConfigChange(T, "retention.ms", op, theirs)])
    left = run.client.describe_configs([T])
    assert run.to_the_end() is Outcome.DONE
    assert run.client.describe_configs([T]) == left


def test_lowered_retention_without_an_answer_is_put_back_though_a_second_try_is_refused(
    start: Start,
) -> None:
    run = lowering(start)
    client, before = run.client, run.client.describe_configs([T])
    tried: list[str] = []

    def answers(real: Callable[..., Any], changes: Any) -> Any:
        asked = [change for change in changes if change.name == "retention.ms"]
        if not asked or len(tried) > 1:
            return real(changes)
        tried.append("")
        if len(tried) == 1:
            real(changes)
            return {T: Fault("REQUEST_TIMED_OUT")}
        return {T: Fault("POLICY_VIOLATION", "not so low")}

    run.faulty.replaced["alter_configs"] = answers
    assert run.to_the_end() is Outcome.DONE
    assert len(tried) == 2
    assert client.describe_configs([T]) == before


@pytest.mark.parametrize("prior", [None, "172800000"], ids=["unset", "set"])
def test_retention_is_put_back_though_a_broker_still_shows_the_old_value(
    start: Start, prior: str | None
) -> None:
    run = lowering(start, configs={"t": {"retention.ms": prior}} if prior else {})
    client, before = run.client, run.client.describe_configs([T])
    run.until(submitted)

    def behind(real: Callable[..., Any], resources: Any, names: Any) -> Any:
        return before if list(names) == ["retention.ms"] else real(resources, names)

    run.faulty.replaced["describe_configs"] = behind
    assert run.to_the_end() is Outcome.DONE
    assert client.describe_configs([T]) == before


def test_compact_only_topic_keeps_its_retention_and_is_not_waited_for(
    start: Start,
) -> None:
    configs = {"t": {"cleanup.policy": "compact"}, "u": {"cleanup.policy": "compact,delete"}}
    run = lowering(start, "t", "u", configs=configs)
    assert run.to_the_end() is Outcome.DONE
    lowered = run.payloads(Kind.RETENTION_LOWERED)
    assert [p["topics"] for p in lowered] == [["u"]]


def test_run_of_only_compacted_topics_begins_without_waiting_for_leaders(start: Start) -> None:
    run = lowering(start, configs={"t": {"cleanup.policy": "compact"}})
    assert run.to_the_end() is Outcome.DONE
    assert not any("waits for leaders" in event.text for event in run.view().events)


def test_bytes_reported_as_copied_are_what_the_shortened_logs_held(start: Start) -> None:
    segments = {"t": {"segment.bytes": str(MB)}}
    run = lowering(start, configs=segments, size_bytes=200 * MB, retention_ms=HOUR_MS // 2)
    assert run.to_the_end() is Outcome.DONE
    history, view = run.state, run.view()
    left = history.moves[0].size_bytes
    assert left is not None
    assert 80 * MB < left < 101 * MB
    assert 80 * MB < view.moved_bytes < 101 * MB
    events = [event.text for event in view.events]
    event_text = f"logs of 1 of 1 partitions are shorter: {format_bytes(left)} to copy, not 200 MB"
    assert event_text in events
    assert events[-1].startswith(f"done: 1 of 1 partition, {format_bytes(view.moved_bytes)} in ")
    assert notice("ended", history, run.client.now, "")["moved_bytes"] == left


def test_log_whose_offsets_are_unknown_is_not_counted_as_shortened(start: Start) -> None:
    run = start(
        cluster({"t": [(1, 2)]}, size_bytes=100 * MB), {("t", 0): (4, 2)}, retention_ms=60_000
    )
    run.until(lambda step: isinstance(step, LowerRetention))
    run.faulty.replaced["fetch_offsets"] = lambda real, partitions, at: {}
    since = run.client.elapsed_seconds
    run.until(lambda step: isinstance(step, NoteLogsShortened), 600)
    assert run.client.elapsed_seconds - since > 300
    assert "logs of 0 of 1 partitions are shorter" in [e.text for e in run.view().events]


def test_logs_of_a_deleted_topic_are_not_waited_for(start: Start) -> None:
    run = start(
        cluster({"t": [(1, 2)]}, size_bytes=100 * MB), {("t", 0): (4, 2)}, retention_ms=60_000
    )
    run.until(lambda step: isinstance(step, LowerRetention))
    run.client.delete_topic("t")
    assert run.to_the_end(60) is Outcome.INCOMPLETE
    assert "every topic was deleted" in run.view().why


# -- what a run that died or gave up leaves --------------------------------------------------------


def a_run(start: Start, own_ms: int | None) -> Run:
    return lowering(start, configs={"t": {"retention.ms": str(own_ms)}} if own_ms else {})


@pytest.mark.parametrize(("own_ms", "before"), [(WEEK_MS, "7 d 0 h"), (None, "unset")])
def test_run_that_died_reports_the_topics_whose_retention_it_left_lowered(
    start: Start, own_ms: int | None, before: str
) -> None:
    run = a_run(start, own_ms)
    run.until(lambda step: isinstance(step, LowerRetention))
    run.until(lambda step: isinstance(step, Poll))
    look = run.look(living=False)
    left = look.view.leftovers
    assert look.view.state is RunStatus.DIED
    assert left
    words = f"retention of t: 1 h 00 m, before {before}"
    assert words in report(look)
    assert f"- {words}" in markdown(look).splitlines()
    assert run_document(look)["left"]["retention"] == [
        {"topic": "t", "retention_ms": HOUR_MS, "before": str(own_ms) if own_ms else None}
    ]
    assert fetch_leftovers(run.client, left) == left
    set_config(run.client, T, "retention.ms", "7200000")
    assert not fetch_leftovers(run.client, left), "somebody has set it since"
    set_config(run.client, T, "retention.ms", str(HOUR_MS))
    assert run.to_the_end() is Outcome.DONE
    assert run.view().leftovers is None


def test_unreadable_retention_counts_as_a_leftover_unless_certainty_is_required(
    start: Start,
) -> None:
    run = a_run(start, WEEK_MS)
    run.until(lambda step: isinstance(step, LowerRetention))
    left = run.view(living=False).leftovers
    assert left
    run.faulty.replaced["describe_configs"] = lambda real, resources, names: dict.fromkeys(
        resources, Fault("TOPIC_AUTHORIZATION_FAILED")
    )
    assert fetch_leftovers(run.faulty, left) == left
    assert not fetch_leftovers(run.faulty, left, surely=True)


# -- what is kept elsewhere, and who has yet to read it --------------------------------------------

REMOTE = "remote.storage.enable"


def test_lowering_retention_of_a_remote_storage_topic_is_refused_before_any_change(
    start: Start,
) -> None:
    run = lowering(start, configs={"t": {REMOTE: "true"}})
    assert run.to_the_end() is Outcome.FAILED
    assert "remote-storage" in run.view().events[-1].text
    assert run.replicas() == {"t-0": (1, 2)}
    assert not changes(run.journal.records(), run.state)


def test_topic_given_remote_storage_after_preflight_keeps_its_retention(start: Start) -> None:
    run = lowering(start, "t", "u")
    run.until(lambda step: isinstance(step, Preflight))
    set_config(run.client, T, REMOTE, "true")
    assert run.to_the_end() is Outcome.DONE
    changed = [c.where for c in changes(run.journal.records(), run.state)]
    assert "retention of u" in changed
    assert "retention of t" not in changed


@pytest.mark.parametrize(
    ("own_ms", "allow", "outcome"),
    [
        (WEEK_MS, (), Outcome.FAILED),
        (WEEK_MS, ("unread",), Outcome.DONE),
        (HOUR_MS // 2, (), Outcome.DONE),  # it has less already: nothing is deleted
    ],
)
def test_retention_is_not_lowered_while_a_broker_fails_to_list_its_groups(
    start: Start, own_ms: int, allow: tuple[str, ...], outcome: Outcome
) -> None:
    run = lowering(start, configs={"t": {"retention.ms": str(own_ms)}}, allow=frozenset(allow))

    def groups(real: Any, matching: Any = None, lost: Any = None) -> Any:
        lost(Fault("COORDINATOR_NOT_AVAILABLE"))
        return real(matching, lost)

    run.faulty.replaced["describe_groups"] = groups
    assert run.to_the_end() is outcome


@pytest.mark.parametrize(
    ("stops", "rates_known", "allow", "outcome"),
    [
        (True, True, (), Outcome.FAILED),
        (True, True, ("unread",), Outcome.DONE),
        (False, True, (), Outcome.DONE),
        (False, False, (), Outcome.FAILED),  # how old what it has yet to read is, nobody knows
    ],
    ids=["stopped", "stopped, allowed", "reads on", "rates unknown"],
)
def test_scheduled_run_does_not_delete_records_that_a_group_has_not_read_by_its_start(
    start: Start, stops: bool, rates_known: bool, allow: tuple[str, ...], outcome: Outcome
) -> None:
    client = cluster(
        {"t": [(1, 2)]}, in_bytes_per_s=50_000.0, groups=(GroupSpec("g", ("t",), 1, 60.0),)
    )
    state, tp = client.describe_cluster(), TopicPartition("t", 0)
    ends = [client.fetch_offsets([tp], OffsetAt.LATEST)[tp]]
    client.clock.sleep(60)
    ends.append(client.fetch_offsets([tp], OffsetAt.LATEST)[tp])
    run = start(
        client,
        plan_of(client, {("t", 0): (3, 2)}),
        retention_ms=HOUR_MS,
        start_at=client.now + timedelta(hours=3),
        allow=frozenset(allow),
    )
    if stops:
        stopped = client.describe_groups()
        run.faulty.replaced["describe_groups"] = lambda real, *args, **options: stopped
    if rates_known:
        per_second = np.array([(ends[1] - ends[0]) / 60])
        load = replace(Load.unknown(state), messages_per_s=per_second)
        run.runner._load = lambda state: load
    assert run.to_the_end(5 * 3600) is outcome
    if outcome is Outcome.FAILED:
        assert "unread" in run.view().why
        assert "alter_configs" not in run.faulty.calls


# -- what cannot be read ---------------------------------------------------------------------------


def failing_reads(fault: str, times: int) -> Any:
    """Answer so often with a fault when a topic's retention is asked for before it is lowered."""
    left = [times]

    def configs(real: Any, resources: Any, names: Any) -> Any:
        if "cleanup.policy" not in names or T not in resources or not left[0]:
            return real(resources, names)
        left[0] -= 1
        return {**real(resources, names), T: Fault(fault, "no")}

    return configs


def test_retention_read_that_timed_out_is_retried(start: Start) -> None:
    run = a_run(start, WEEK_MS)
    run.faulty.replaced["describe_configs"] = failing_reads("REQUEST_TIMED_OUT", 2)
    run.until(lambda step: isinstance(step, LowerRetention))
    assert "the retention of t is not known yet (REQUEST_TIMED_OUT" in run.state.waiting
    assert run.to_the_end() is Outcome.DONE
    lowered = run.payloads(Kind.RETENTION_LOWERED)
    assert [p["topics"] for p in lowered] == [["t"]]


def test_unreadable_retention_stays_as_it_is_and_is_reported(start: Start) -> None:
    run = lowering(start, "t", "u")
    run.faulty.replaced["describe_configs"] = failing_reads("TOPIC_AUTHORIZATION_FAILED", 1000)
    assert run.to_the_end() is Outcome.DONE
    event_texts = [event.text for event in run.view().events]
    assert "retention of t stays as it is: TOPIC_AUTHORIZATION_FAILED: no" in event_texts
    assert "retention of u lowered to 1 h 00 m" in event_texts
    changed = [c.where for c in changes(run.journal.records(), run.state)]
    assert "retention of u" in changed
    assert "retention of t" not in changed


def test_topic_that_needs_no_lower_retention_after_a_restart_is_not_listed_as_changed(
    start: Start,
) -> None:
    run = lowering(start, "t", "u")
    write = run.journal.write

    def dying(at: Any, kind: Kind, payload: Any) -> Any:
        written = write(at, kind, payload)
        if kind is Kind.RETENTION_LOWERING:
            raise KeyboardInterrupt
        return written

    run.journal.write = dying  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run.to_the_end()
    set_config(run.client, T, "retention.ms", "600000")
    run.restart_process()
    assert run.to_the_end() is Outcome.DONE
    config_changes = changes(run.journal.records(), run.state)
    assert [c.name for c in config_changes if c.config == "retention.ms"] == ["u"]


def test_retarget_keeps_retention_lowered_until_the_replacing_move_has_ended(start: Start) -> None:
    segments = {"t": {"segment.bytes": str(MB)}}
    run = lowering(start, configs=segments, size_bytes=200 * MB, retention_ms=HOUR_MS // 2)
    run.until(lambda step: isinstance(step, Poll) and "retention is lowered" in step.waiting)
    ask(run, "retarget", move=0, after=[4, 2])
    run.to_the_end()
    assert run.replicas() == {"t-0": (4, 2)}
    kinds = run.kinds
    assert kinds.count(Kind.RETENTION_RESTORED) == 1
    assert kinds.index(Kind.RETENTION_RESTORED) > kinds.index(Kind.SUBMITTED)
    assert (run.state.moves[-1].size_bytes or 0) < 200 * MB


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("leave", [False, True], ids=["asked again", "left"])
def test_retention_that_cannot_be_put_back_holds_up_no_other_move_or_topic(
    start: Start, leave: bool
) -> None:
    prior = {name: {"retention.ms": "172800000"} for name in "tu"}
    run = lowering(start, "t", "u", configs=prior, batches=((0,), (1,)))
    client = run.client
    run.until(submitted)
    run.faulty.replaced["alter_configs"] = refusing(T, "retention.ms")
    run.until(lambda _: [m.state for m in run.view().moves] == [MoveStatus.DONE] * 2, seconds=120)
    run.until(lambda _: throttles(client) == run.found, seconds=30)
    assert retention(client, U) == "172800000"
    assert retention(client, T) == "3600000"
    run.until(lambda _: "a cancel leaves it" in run.view().why, seconds=30)
    assert run.view().state is RunStatus.WAITING
    assert run.view().why.startswith("the retention of t cannot be put back: POLICY_VIOLATION")
    if leave:
        run.cancel()
        assert run.to_the_end(60) is Outcome.INCOMPLETE
        assert run.view().why.endswith("it is left")
        assert retention(client, T) == "3600000"
    else:
        run.faulty.replaced.clear()
        assert run.to_the_end(60) is Outcome.DONE
        assert retention(client, T) == "172800000"


def test_refused_retention_restores_of_several_topics_do_not_fill_the_journal(start: Start) -> None:
    run = lowering(start, "t", "u", batches=((0,), (1,)))
    run.until(submitted)

    def refused(real: Callable[..., Any], changes: Any) -> Any:
        kept = [change for change in changes if change.name != "retention.ms"]
        faults = {c.resource: Fault("POLICY_VIOLATION") for c in changes if c not in kept}
        return (real(kept) if kept else {}) | faults

    run.faulty.replaced["alter_configs"] = refused
    run.until(lambda _: Kind.RETENTION_RESTORING in run.kinds, seconds=120)
    run.until(lambda _: run.kinds.count(Kind.MOVED) == 2, seconds=120)
    since = run.client.elapsed_seconds
    run.until(lambda _: run.client.elapsed_seconds > since + 20)
    written = run.kinds.count(Kind.RETENTION_RESTORING)
    run.until(lambda _: run.client.elapsed_seconds > since + 120)
    assert run.kinds.count(Kind.RETENTION_RESTORING) == written
    run.faulty.replaced.clear()
    assert run.to_the_end(60) is Outcome.DONE
    assert run.state.retention is not None
    assert not run.state.retention.topics


def test_refused_lowering_of_retention_is_reported_and_the_run_goes_on_without_it(
    start: Start,
) -> None:
    prior = {name: {"retention.ms": "172800000"} for name in "tu"}
    run = lowering(start, "t", "u", configs=prior)
    client = run.client
    run.faulty.replaced["alter_configs"] = refusing(T, "retention.ms")
    run.until(submitted, seconds=600)
    assert retention(client, T) == "172800000"
    assert retention(client, U) == "3600000"
    event_texts = [event.text for event in run.view().events]
    assert "retention of t stays as it is: POLICY_VIOLATION" in event_texts
    assert run.to_the_end(120) is Outcome.DONE
    assert retention(client, T) == retention(client, U) == "172800000"
    changed = changes(run.journal.records(), run.state)
    assert [change.name for change in changed if change.config == "retention.ms"] == ["u"]


def test_retention_that_cannot_be_lowered_yet_is_retried(start: Start) -> None:
    run = lowering(start)
    asked = []

    def busy(real: Callable[..., Any], changes: Any) -> Any:
        asked.append(changes)
        return {c.resource: Fault("REQUEST_TIMED_OUT") for c in changes}

    run.faulty.replaced["alter_configs"] = busy
    run.until(lambda _: len(asked) > 2, seconds=60)
    assert "it is asked again" in run.view().why
    run.faulty.replaced.clear()
    assert run.to_the_end(900) is Outcome.DONE
