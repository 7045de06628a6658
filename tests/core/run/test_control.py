"""What a run may be asked for: what makes sense is in its journal, all else is one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from clusters import NOON
from run_help import MB, move, new_journal

from core.daemons.process import Process
from core.errors import RefusedError, TrimtabError, UsageError
from core.plan.plan import Plan
from core.run.control import find_moves, request
from core.run.journal.journal import Journal
from core.run.journal.records import Kind
from core.run.reporting.runs import read_journal
from core.units import UNLIMITED

CLUSTER = "cluster"
PRODUCED = {0: 9.0 * MB, 1: 1.5 * MB, 2: 1.0 * MB}
"""The first is over; 1 sends what is produced to the second twice, and to the third later."""
Ask = Callable[..., Any]


@pytest.fixture
def rate() -> int:
    return 5 * MB


@pytest.fixture
def journal(rate: int) -> Any:
    """Three moves of a living run: t-0 is done, t-1 in flight, t-2 queued."""
    moves = tuple(move("t", n, (1, 2), (3, 2)) for n in range(3))
    made = new_journal(Plan(CLUSTER, moves), rate, batch_size=1, produced=PRODUCED)
    with made as journal:
        ours = Process.this()
        journal.write(NOON, Kind.STARTED, {"pid": ours.pid, "pid_started": ours.started})
        preflight = {"sizes": [1] * 3, "leaders": [1] * 3, "min_insync": {}, "said": []}
        journal.write(NOON, Kind.PREFLIGHT, preflight)
        for batch in (0, 1):
            submitted = {"batch": batch, "moves": [batch]}
            journal.write(NOON, Kind.SUBMITTING, submitted)
            journal.write(NOON, Kind.SUBMITTED, submitted)
        moved = {"index": 0, "phase": "done", "why": "", "leader": 3}
        journal.write(NOON, Kind.MOVED, {"moves": [moved], "stop": ""})
        yield journal


@pytest.fixture
def ask(journal: Journal) -> Ask:
    def ask(kind: str, **payload: Any) -> Any:
        allow = payload.pop("allow", ())
        return request(CLUSTER, journal.path.stem, kind, payload, allow=allow)

    return ask


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("cancel", {}),
        ("cancel", {"moves": [1, 2]}),
        ("pause", {"floor": True}),
        ("throttle", {"rate_bytes_per_s": 4 * MB}),
        ("throttle", {"rate_bytes_per_s": 2 * MB, "allow": ["never"]}),
        ("throttle", {"auto": {"least_bytes_per_s": 1, "most_bytes_per_s": 2}}),
        ("skip", {"moves": [2]}),
        ("retarget", {"move": 1, "after": [4, 2]}),
        ("rollback", {}),
    ],
)
def test_valid_request_is_journalled_with_its_requester(
    journal: Journal, ask: Ask, kind: str, payload: dict[str, Any]
) -> None:
    asked = ask(kind, **payload)
    (command,) = journal.requests()
    assert (command.seq, command.kind) == (asked.seq, kind)
    assert not asked.is_waiting
    assert {key: command.payload[key] for key in payload if key != "allow"} == {
        key: value for key, value in payload.items() if key != "allow"
    }
    assert command.payload["who"]
    assert command.payload["host"]


@pytest.mark.parametrize(
    ("kind", "payload", "error", "says"),
    [
        ("dance", {}, UsageError, "cannot be asked to dance"),
        ("resume", {}, UsageError, "nothing to resume"),
        ("throttle", {"rate_bytes_per_s": 0}, UsageError, "moves nothing"),
        ("throttle", {"rate_bytes_per_s": -1}, UsageError, "keeps its throttles"),
        ("throttle", {"rate_bytes_per_s": -5}, UsageError, "moves nothing"),
        (
            "throttle",
            {"rate_bytes_per_s": 3 * MB},
            RefusedError,
            "never end: broker 1 has to send 3.0 MB/s",
        ),
        (
            "throttle",
            {"auto": {"least_bytes_per_s": 2, "most_bytes_per_s": 1}},
            UsageError,
            "are no bounds",
        ),
        ("cancel", {"moves": []}, UsageError, "Which partitions"),
        ("cancel", {"moves": [0]}, UsageError, "t-0 cannot be cancelled: it is done"),
        ("cancel", {"moves": [3]}, UsageError, "has no move 3"),
        ("skip", {"moves": [1]}, UsageError, "t-1 cannot be skipped: it is in flight"),
        ("retry", {"moves": [0]}, UsageError, "t-0 cannot be tried again: it is done"),
        ("retry", {"moves": [2]}, UsageError, "t-2 cannot be tried again: it is queued"),
        ("retarget", {"move": 0, "after": [4, 2]}, UsageError, "has moved already"),
        ("retarget", {"move": 1, "after": [3, 2]}, UsageError, "on its way"),
        ("retarget", {"move": 1, "after": [4, 4]}, UsageError, "names no replicas"),
        ("retarget", {"move": 1, "after": [4]}, UsageError, "2 replicas, not 1"),
    ],
)
def test_invalid_request_is_refused_in_one_sentence_and_not_journalled(
    journal: Journal,
    ask: Ask,
    kind: str,
    payload: dict[str, Any],
    error: type[TrimtabError],
    says: str,
) -> None:
    with pytest.raises(error, match=says) as raised:
        ask(kind, **payload)
    assert "\n" not in raised.value.title
    assert not journal.requests()


@pytest.mark.parametrize(
    ("before", "kind", "payload", "says"),
    [
        ("pause", "pause", {}, "paused already"),
        ("pause", "pause", {"floor": True}, None),
        ("pause", "resume", {}, None),
        ("cancel", "cancel", {}, None),
        ("cancel", "rollback", {}, None),
        ("cancel", "pause", {}, "being cancelled"),
        ("cancel", "throttle", {"rate_bytes_per_s": 9 * MB}, "being cancelled"),
        ("rollback", "skip", {"moves": [2]}, "being rolled back"),
        ("rollback", "rollback", {}, "rolled back already"),
        ("rollback", "throttle", {"rate_bytes_per_s": 9 * MB}, None),
        ("rollback", "pause", {}, None),
    ],
)
@pytest.mark.parametrize("taken", [False, True])
def test_earlier_request_counts_even_if_the_run_has_not_accepted_it_yet(
    journal: Journal,
    ask: Ask,
    before: str,
    kind: str,
    payload: dict[str, Any],
    says: str | None,
    taken: bool,
) -> None:
    seq = ask(before).seq
    if taken:
        (asked,) = journal.requests()
        journal.write(NOON, Kind.REQUEST, {"seq": seq, "kind": before, **asked.payload})
    if says is None:
        assert ask(kind, **payload).seq == seq + 1
    else:
        with pytest.raises(UsageError, match=says):
            ask(kind, **payload)


@pytest.mark.parametrize("rate", [UNLIMITED])
def test_unthrottled_run_cannot_hold_moves_in_flight_until_it_gets_a_throttle(
    journal: Journal, ask: Ask
) -> None:
    with pytest.raises(UsageError, match="what it has in flight cannot be held") as raised:
        ask("pause", floor=True)
    assert "trimtab runs throttle" in raised.value.next
    assert not journal.requests()
    ask("pause", floor=False)
    ask("throttle", rate_bytes_per_s=9 * MB)
    ask("pause", floor=True)
    assert [command.kind for command in journal.requests()] == ["pause", "throttle", "pause"]


@pytest.mark.parametrize("rate", [UNLIMITED])
def test_pending_request_that_the_run_will_refuse_is_ignored(journal: Journal, ask: Ask) -> None:
    journal.ask(NOON, "pause", {"floor": True})
    journal.ask(NOON, "pause", {"refused": "no"})
    with pytest.raises(UsageError, match="nothing to resume"):
        ask("resume")


def test_pending_request_counts_as_if_already_accepted(journal: Journal, ask: Ask) -> None:
    moved = {"index": 1, "phase": "failed", "why": "", "leader": 1}
    journal.write(NOON, Kind.MOVED, {"moves": [moved], "stop": ""})
    ask("retry", moves=[1])
    with pytest.raises(UsageError, match="it is queued"):
        ask("retry", moves=[1])
    ask("pause")
    ask("cancel")
    with pytest.raises(UsageError, match="nothing to resume"):
        ask("resume")


def test_rollback_may_be_requested_anew_once_it_was_cancelled(ask: Ask) -> None:
    for kind in ("rollback", "cancel", "rollback"):
        ask(kind)
    with pytest.raises(UsageError, match="rolled back already"):
        ask("rollback")


def test_request_is_pending_while_the_process_is_down(journal: Journal, ask: Ask) -> None:
    journal.write(NOON, Kind.CRASHED, {"why": "of an error of its own"})
    assert ask("pause").is_waiting
    assert [command.kind for command in journal.requests()] == ["pause"]


@pytest.mark.parametrize("kind", ["cancel", "pause", "resume", "rollback"])
def test_ended_run_refuses_every_request(journal: Journal, ask: Ask, kind: str) -> None:
    journal.write(NOON, Kind.ENDED, {"outcome": "done", "why": ""})
    with pytest.raises(UsageError, match="has ended: done"):
        ask(kind)


def test_moves_are_found_by_partition_name(journal: Journal) -> None:
    history = read_journal(CLUSTER, journal.path.stem).state
    assert find_moves(history, ["t-2", "t-0", "t-2"]) == [2, 0]
    with pytest.raises(UsageError, match="does not move 't-9'") as raised:
        find_moves(history, ["t-9"])
    assert raised.value.next == "It has: t-0, t-1, t-2."
