"""What a run is asked for on the command line reaches its process, and is done."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cli_help import SLOW, Here
from waiting import eventually

from core.errors import ExitCode

pytestmark = pytest.mark.long


class Live:
    """A run in progress, looked at from outside."""

    def __init__(self, here: Here, skip: int) -> None:
        self.here, self.plan = here, here.plan(moves=3, skip=skip)
        self.before = here.replicas(self.plan)
        code, out, err = here("apply", self.plan, *SLOW)
        assert code == ExitCode.DONE, err
        self.run = str(json.loads(out)["run"])
        eventually(lambda: bool(here.client.fetch_reassignments()))

    def document(self) -> dict[str, Any]:
        document = json.loads(self.here("runs", "show", self.run, "--json")[1])
        assert isinstance(document, dict)
        return document

    def ask(self, *words: str) -> None:
        kind, *more = words
        code, _, err = self.here("runs", kind, self.run, *more, "--json")
        assert code == ExitCode.DONE, err

    def becomes(self, state: str) -> None:
        eventually(lambda: self.document()["state"] == state)

    def states(self) -> dict[str, str]:
        return {f"{m['topic']}-{m['partition']}": m["state"] for m in self.document()["moves"]}


def test_run_is_paused_resumed_and_throttled_on_request(here: Here) -> None:
    live = Live(here, 110)
    live.ask("pause", "--floor")
    live.becomes("paused")
    code, _, err = here("runs", "pause", live.run, "--floor")
    assert code == ExitCode.USAGE
    assert "paused already" in err
    live.ask("resume")
    eventually(lambda: live.document()["state"] != "paused")
    live.ask("throttle", "2MB/s", "--allow", "never")
    eventually(lambda: live.document()["rate_bytes_per_s"] == 2_000_000)
    live.ask("throttle", "auto:1MB/s-9MB/s")
    asked = [request["what"] for request in live.document()["requests"]]
    kinds = [words.split()[0].rstrip(",") for words in asked]
    assert kinds == ["pause", "resume", "throttle", "throttle"]
    assert here("runs", "cancel", live.run, "--yes")[0] == ExitCode.DONE
    assert here.replicas(live.plan) == live.before
    assert "No throttle is set." in here("throttles", "ls")[2]


def test_single_move_is_cancelled_and_retried(here: Here) -> None:
    live = Live(here, 120)
    flying = next(tp for tp, state in live.states().items() if state in ("moving", "stuck"))
    code, _, err = here("runs", "cancel", live.run, "--move", flying)
    assert code == ExitCode.USAGE
    assert "there is no terminal" in err
    code, _, err = here("runs", "cancel", live.run, "--move", flying, "--yes")
    assert f"Requested of run {live.run}: cancel {flying}. " in err
    eventually(lambda: live.states()[flying] == "cancelled")
    assert not live.document()["ended_at"]
    live.ask("retry", flying)
    eventually(lambda: live.states()[flying] in ("moving", "queued", "stuck"))
    assert here("runs", "cancel", live.run, "--yes")[0] == ExitCode.DONE
    assert here.replicas(live.plan) == live.before


def test_a_run_is_rolled_back_to_where_it_began(here: Here) -> None:
    live = Live(here, 130)
    code, _, err = here("runs", "rollback", live.run, "--yes")
    assert code == ExitCode.DONE, err
    assert here.replicas(live.plan) == live.before
    assert live.document()["state"] == "rolled-back"
    assert "No throttle is set." in here("throttles", "ls")[2]


def test_moving_partition_is_retargeted_to_another_broker(here: Here) -> None:
    live = Live(here, 140)
    moving = next(m for m in live.document()["moves"] if m["state"] in ("moving", "stuck"))
    tp = f"{moving['topic']}-{moving['partition']}"
    racks = {broker.id: broker.rack for broker in here.state().brokers}
    last = moving["after"][-1]
    others = [b for b in racks if b not in (*moving["after"], *moving["before"])]
    there = next((b for b in others if racks[b] == racks[last]), others[0])
    brokers = ",".join(map(str, (*moving["after"][:-1], there)))
    live.ask("retarget", tp, brokers, "--allow", "rack-spread", "--yes")
    eventually(lambda: f"{tp} goes to" in str(live.document()["story"]))
    assert here("runs", "cancel", live.run, "--yes")[0] == ExitCode.DONE
    assert here.replicas(live.plan) == live.before
