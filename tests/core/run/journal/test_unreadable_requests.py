"""Requests that are none, written into a run's journal by anybody: refused, and it goes on."""

from __future__ import annotations

from typing import Any

import pytest
from run_help import MB, Start, cluster, plan_of

from core.run.journal.move_state import Outcome
from core.run.journal.records import Kind
from core.run.journal.replay import fold
from core.run.reporting.documents import of_record
from core.run.reporting.event_text import run_requests


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("skip", {}),
        ("retry", {"moves": None}),
        ("skip", {"moves": [0.0]}),
        ("skip", {"moves": [True]}),
        ("skip", {"moves": 0}),
        ("skip", {"moves": ["0"]}),
        ("cancel", {"moves": {"t": 0}}),
        ("cancel", {"moves": 7}),
        ("cancel", {"moves": [[0]]}),
        ("retarget", {"move": 0}),
        ("retarget", {"move": 0.0, "after": [4, 2]}),
        ("retarget", {"move": 0, "after": [4, "2"]}),
        ("retarget", {"move": 0, "after": [4, 4]}),
        ("retarget", {"move": 0, "after": []}),
        ("retarget", {"move": 0, "after": [4, 2], "allow": "disk"}),
        ("retarget", {"move": 0, "after": [4, 2], "allow": [["disk"]]}),
        ("throttle", {}),
        ("throttle", {"rate_bytes_per_s": "fast"}),
        ("throttle", {"rate_bytes_per_s": 1.5}),
        ("throttle", {"auto": 5}),
        ("throttle", {"auto": {"least_bytes_per_s": MB}}),
        (
            "throttle",
            {"auto": {"least_bytes_per_s": 1, "most_bytes_per_s": 2, "spare": [[1, "up", 3]]}},
        ),
        ("throttle", {"auto": {"least_bytes_per_s": 1, "most_bytes_per_s": 2, "spare": 3}}),
        ("cancel", ["all"]),
        ("cancel", None),
        ("pause", "please"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_and_the_run_goes_on(
    start: Start, kind: str, payload: Any
) -> None:
    client = cluster({"t": [(1, 2)]})
    run = start(client, plan_of(client, {("t", 0): (3, 2)}))
    run.journal.ask(client.now, kind, payload)
    waiting = run_requests((), run.journal.requests(), run.runner.state)
    assert [request.kind for request in waiting] == [kind]
    assert run.to_the_end() is Outcome.DONE
    (taken,) = [r for r in run.journal.records() if r.kind is Kind.REQUEST]
    assert taken.payload["refused"]
    assert fold(run.journal.records()) == run.runner.state
    assert [r.refused for r in run.view().requests] == [taken.payload["refused"]]
    (event,) = of_record(taken, run.runner.state)
    assert (event["request"], event["who"]) == (kind, "?")


def test_a_journal_into_which_such_a_request_was_taken_can_still_be_read(start: Start) -> None:
    client = cluster({"t": [(1, 2)]})
    run = start(client, plan_of(client, {("t", 0): (3, 2)}))
    taken = {"kind": "skip", "seq": 1, "who": "ann", "host": "here"}
    run.journal.write(client.now, Kind.REQUEST, taken)
    run.again()
    assert run.to_the_end() is Outcome.DONE
