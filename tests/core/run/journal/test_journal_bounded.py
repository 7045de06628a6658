"""A request that fails with one and the same error for an hour: journal and audit stay small."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from log_dir_help import T0, across, plan
from run_help import MB, Faulty, Run, Start, answering, ask, cluster, plan_of

from core import paths
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs
from core.errors import AccessDeniedError, UnreachableError
from core.run.audited_client import audited
from core.run.journal.records import Kind

HOUR = 3600.0
MOST_RECORDS, MOST_LINES = 60, 60
"""What an hour of one and the same error may add, with all that is begun and ended meanwhile."""

Answers = Callable[[Any], Any]


def each(fault: str) -> Answers:
    return lambda keys: dict.fromkeys(keys, Fault(fault))


def each_resource(fault: str) -> Answers:
    return lambda changes: dict.fromkeys((c.resource for c in changes), Fault(fault))


def silent(fault: str) -> Answers:
    return lambda brokers: tuple(BrokerLogs(broker, error=fault) for broker in brokers)


def raises(error: Exception) -> Answers:
    def call(_: Any) -> Any:
        raise error

    return call


LOST = raises(UnreachableError("The cluster does not answer."))
DENIED = raises(AccessDeniedError("The cluster says no: CLUSTER_AUTHORIZATION_FAILED."))
ERRORS: list[tuple[str, str, Answers]] = [
    ("alter_reassignments", "put off", each("THROTTLING_QUOTA_EXCEEDED")),
    ("alter_reassignments", "no answer", each("REQUEST_TIMED_OUT")),
    ("alter_reassignments", "lost", LOST),
    ("alter_reassignments", "refused", each("INVALID_REPLICA_ASSIGNMENT")),
    ("alter_reassignments", "denied", DENIED),
    ("cancel_reassignments", "no answer", each("REQUEST_TIMED_OUT")),
    ("cancel_reassignments", "refused", each("INVALID_REPLICA_ASSIGNMENT")),
    ("cancel_reassignments", "lost", LOST),
    ("alter_log_dirs", "no answer", each("REQUEST_TIMED_OUT")),
    ("alter_log_dirs", "not yet", each("REPLICA_NOT_AVAILABLE")),
    ("alter_log_dirs", "not there", each("LOG_DIR_NOT_FOUND")),
    ("alter_log_dirs", "offline", each("KAFKA_STORAGE_ERROR")),
    ("alter_log_dirs", "taken, and nothing comes of it", lambda keys: dict.fromkeys(keys)),
    ("alter_configs", "no answer", each_resource("REQUEST_TIMED_OUT")),
    ("alter_configs", "refused", each_resource("POLICY_VIOLATION")),
    ("alter_configs", "invalid", each_resource("INVALID_CONFIG")),
    ("describe_configs", "no answer", each("REQUEST_TIMED_OUT")),
    ("describe_configs", "denied", each("TOPIC_AUTHORIZATION_FAILED")),
    ("fetch_list_entries", "no answer", each("REQUEST_TIMED_OUT")),
    ("elect_leaders", "not in sync", each("PREFERRED_LEADER_NOT_AVAILABLE")),
    ("elect_leaders", "no answer", each("REQUEST_TIMED_OUT")),
    ("describe_log_dirs", "no answer", silent("KafkaTimeoutError")),
    ("describe_cluster", "lost", LOST),
]


OF_A_CANCEL = ("cancel_reassignments", "fetch_list_entries", "describe_log_dirs")
"""Those that are asked for, or missed, once a run is taken back."""


def advance(run: Run) -> None:
    try:
        run.runner.advance()
    except (UnreachableError, AccessDeniedError) as error:
        run.runner._cannot_go_on(error, 0.0)


def audit_lines() -> int:
    path = paths.audit_file()
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.parametrize(
    ("call", "answers"),
    [(call, answers) for call, _, answers in ERRORS],
    ids=[f"{call} {name}" for call, name, _ in ERRORS],
)
def test_one_error_repeated_for_an_hour_adds_few_journal_records_and_audit_lines(
    start: Start, call: str, answers: Answers
) -> None:
    client = cluster({"t": [(1, 2), (2, 1)], "u": [(1, 2)]}, size_bytes=20 * MB)
    client.set_speed(1000)
    faulty = Faulty(client)
    moves = [across(client, T0, [1, 2]), *plan_of(client, {("t", 1): (3, 4), ("u", 0): (2, 1)})]
    through = audited(faulty, "c", "r")  # type: ignore[arg-type]
    options: dict[str, Any] = {"elect": True, "batches": ((2, 0), (1,))}
    run = start(client, plan(client, *moves), through=through, rate=MB, **options)
    while not run.state.in_flight:
        advance(run)
    if call in OF_A_CANCEL:
        for _ in range(10):
            advance(run)
    records, lines = len(run.journal.records()), audit_lines()
    faulty.replaced[call] = lambda real, keys=(), *more, **named: answers(keys)
    if call in OF_A_CANCEL:
        ask(run, "cancel")
    ends = client.elapsed_seconds + HOUR
    while client.elapsed_seconds < ends and run.state.ended is None:
        advance(run)
        client.advance(20)
    written = [record.kind.value for record in run.journal.records()[records:]]
    assert len(written) < MOST_RECORDS, written
    assert audit_lines() - lines < MOST_LINES


def test_repeatedly_refused_call_is_audited_ever_more_seldom() -> None:
    client = cluster({"t": [(1, 2)]})
    faulty = Faulty(client)
    through: Any = audited(faulty, "c", None)  # type: ignore[arg-type]
    faulty.replaced["cancel_reassignments"] = answering("NOT_CONTROLLER")
    for _ in range(5):
        through.cancel_reassignments([T0])
    faulty.replaced["cancel_reassignments"] = lambda real, keys: LOST(keys)
    for _ in range(5):
        with pytest.raises(UnreachableError):
            through.cancel_reassignments([T0])
    del faulty.replaced["cancel_reassignments"]
    through.cancel_reassignments([T0])
    entries = [json.loads(line) for line in paths.audit_file().read_text().splitlines()]
    assert [e["what"] for e in entries] == ["cancel", "answer", *["cancel"] * 4, "answer"]
    assert [e.get("tries") for e in entries] == [None, None, 1, 2, 4, 8, 10]


def test_alternating_waiting_reasons_are_journalled_ever_more_seldom(start: Start) -> None:
    run = start()
    recorder = run.runner._recorder

    def waiting_records() -> int:
        return run.kinds.count(Kind.WAITING)

    for _ in range(1800):
        for why in ("one", "another"):
            recorder.note_waiting(why)
            run.client.advance(1)
    assert waiting_records() < 30
    before = waiting_records()
    run.client.advance(HOUR)
    recorder.note_waiting("a third")
    recorder.note_waiting("one")
    assert waiting_records() == before + 2
    assert run.state.waiting == "one"


def test_current_waiting_reason_is_known_however_often_it_occurred_before(start: Start) -> None:
    run = start()
    recorder = run.runner._recorder

    def look_on(why: str, seconds: int) -> None:
        for _ in range(seconds):
            recorder.note_waiting(why)
            run.client.advance(1)

    for _ in range(15):
        look_on("broker 3 is down", 10)
        look_on("", 1)
        assert run.state.waiting == ""
        look_on("", 289)
    look_on("broker 3 is down", 61)
    assert run.state.waiting == "broker 3 is down"
