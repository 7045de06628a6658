"""apply, runs and throttles on the command line, with real run processes on a simulated cluster."""

from __future__ import annotations

import json
import os
import re
import signal
from datetime import UTC, datetime

import pytest
from cli_help import FAST, SLOW, Here
from run_help import move
from waiting import eventually

from core.cluster.configs import FOLLOWER_LIST, ConfigChange, ConfigOp, Resource
from core.cluster.connect import Address
from core.errors import ExitCode
from core.plan.plan import Plan
from core.run.journal.journal import Journal, journal_path
from core.run.journal.records import Kind
from core.run.options import RunOptions, create_journal
from core.units import parse_time

pytestmark = pytest.mark.long


def test_apply_reports_events_and_exits_with_the_outcome_of_the_run(here: Here) -> None:
    plan = here.plan()
    code, out, err = here("apply", plan, *FAST, "--json")
    assert code == ExitCode.DONE, err
    events = [json.loads(line) for line in out.splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds[0] == "started"
    assert kinds[-1] == "ended"
    assert {"throttled", "submitted", "progress", "moved", "restored"} <= set(kinds)
    assert events[-1]["outcome"] == "done"
    assert all(now == planned for now, planned in here.replicas(plan))
    run = events[0]["run"]
    code, out, _ = here("runs", "ls", "--json")
    assert [entry["run"] for entry in json.loads(out)] == [run]
    assert here("runs", "attach", run)[0] == ExitCode.DONE
    assert run in here("runs", "ls")[1]
    assert "done: 2 of 2 partitions" in here("runs", "show", run[:8])[1]


def test_no_command_changes_a_cluster_marked_read_only_by_any_of_its_brokers(here: Here) -> None:
    config = here.home / "config" / "config.toml"
    config.parent.mkdir()
    config.write_text('[clusters.prod]\nbootstrap = "b2.sim:9092"\nread_only = true\n')
    commands = (
        ("apply", here.plan(), *FAST),
        ("throttles", "clear", "--yes"),
        ("autopilot", "--mode", "act", "--yes", "--detach"),
    )
    for words in commands:
        code, _, err = here(*words)
        assert (code, "is marked read_only." in err) == (ExitCode.REFUSED, True), err
    assert here("runs", "ls")[2] == "No runs yet.\n"


def test_detached_run_is_found_and_cancelled_and_restores_the_previous_state(here: Here) -> None:
    plan = here.plan(skip=10)
    before = here.replicas(plan)
    code, out, err = here("apply", plan, *SLOW)
    assert code == ExitCode.DONE, err
    run = json.loads(out)["run"]
    eventually(lambda: bool(here.client.fetch_reassignments()))
    code, out, _ = here("throttles", "ls", "--json")
    assert {entry["run"] for entry in json.loads(out) if entry["whose"] == "ours"} == {run}
    code, _, err = here("runs", "cancel", run, "--yes")
    assert code == ExitCode.DONE, err
    assert here("runs", "attach", run, "--json")[0] == ExitCode.INCOMPLETE
    assert here.replicas(plan) == before
    assert "No throttle is set." in here("throttles", "ls")[2]
    code, _, err = here("runs", "cancel", run, "--yes")
    assert code == ExitCode.USAGE
    assert "has ended" in err


def test_options_given_to_apply_are_written_to_the_journal(here: Here) -> None:
    words = ("--throttle", "auto:1MB/s-2MB/s", "--at", "+2h", "--retention", "1h", "--elect")
    more = ("--yes", "--allow", "disk,never", "--detach", "--json")
    code, out, err = here("apply", here.plan(skip=70), *words, *more)
    assert code == ExitCode.DONE, err
    assert "It starts at" in err
    assert "delete none of these topics" in err
    assert "UTC" in err
    assert "older than 60 m are deleted for good" in err.replace("1 h 00 m", "60 m")
    assert re.search(r"With that, up to .* of .* do not have to be copied\.", err)
    assert "adapted between 1.0 MB/s and 2.0 MB/s" in err
    run = json.loads(out)["run"]
    with Journal.open(journal_path(here.state().cluster_id, run)) as journal:
        created = journal.records()[0]
    options = created.payload["options"]
    assert options["auto"] == {"least_bytes_per_s": 10**6, "most_bytes_per_s": 2 * 10**6}
    assert options["retention"] == {"ms": 3_600_000}
    assert options["elect"] is True
    assert parse_time(options["at"]) > created.at
    assert sorted({move["batch"] for move in created.payload["moves"]})[0] == 0
    assert here("runs", "cancel", run, "--yes")[0] == ExitCode.DONE


def test_plan_applied_within_a_deadline_uses_the_recommended_rate(here: Here) -> None:
    plan = here.plan(skip=80)
    asked = json.loads(here("estimate", plan, "--within", "20m", "--json")[1])
    code, out, err = here("apply", plan, "--within", "20m", "--yes", "--detach", "--json")
    assert code == ExitCode.DONE, err
    run = json.loads(out)["run"]
    with Journal.open(journal_path(here.state().cluster_id, run)) as journal:
        created = journal.records()[0].payload
    recommended = asked["recommended_bytes_per_s"]
    assert created["options"]["rate_bytes_per_s"] == pytest.approx(recommended, rel=0.02)
    assert created["estimate"]["rate_bytes_per_s"] == created["options"]["rate_bytes_per_s"]
    assert created["estimate"]["range_seconds"][1] <= 20 * 60
    assert here("runs", "cancel", run, "--yes")[0] == ExitCode.DONE


def test_only_one_run_works_on_a_cluster(here: Here) -> None:
    run = json.loads(here("apply", here.plan(skip=20), *SLOW)[1])["run"]
    code, _, err = here("apply", here.plan(skip=30), *SLOW)
    assert code == ExitCode.REFUSED
    assert f"Run {run} is in progress" in err
    assert here("runs", "cancel", run, "--yes")[0] == ExitCode.DONE


def test_killed_run_is_reported_as_died_with_what_it_left(here: Here) -> None:
    run = json.loads(here("apply", here.plan(skip=40), *SLOW)[1])["run"]
    eventually(lambda: bool(here.client.fetch_reassignments()))
    os.kill(json.loads(here("runs", "show", run, "--json")[1])["pid"], signal.SIGKILL)
    eventually(lambda: json.loads(here("runs", "show", run, "--json")[1])["state"] == "died")
    code, out, _ = here("runs", "show", run, "--json")
    assert code == ExitCode.INCOMPLETE
    document = json.loads(out)
    assert {(m["topic"], m["partition"]) for m in document["left"]["moves"]} == set(
        here.client.fetch_reassignments()
    )
    assert document["left"]["lists"]
    assert document["left"]["rates"]
    code, out, _ = here("runs", "attach", run, "--json")
    assert code == ExitCode.INCOMPLETE
    last = json.loads(out.splitlines()[-1])
    assert last["left"] == document["left"]
    here.client.cancel_reassignments(list(here.client.fetch_reassignments()))
    here.client.alter_configs(
        [
            ConfigChange(Resource.broker(r["broker"]), f"{r['side']}.replication.throttled.rate",
                         ConfigOp.DELETE)
            for r in document["left"]["rates"]
        ]
    )  # fmt: skip


def test_leftovers_of_a_run_are_not_looked_up_in_another_cluster(here: Here) -> None:
    plan = Plan("elsewhere", (move("t", 0, (1,), (2,)),))
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    asked = (Address("b:9092"), "elsewhere", plan, RunOptions(1), None)
    with create_journal(*asked, at=noon) as journal:
        journal.write(noon, Kind.STARTED, {"pid": 2**30, "pid_started": "once"})
        journal.write(noon, Kind.SUBMITTING, {"batch": 0, "moves": [0]})
    code, out, err = here("runs", "show", journal.path.stem, "--json")
    assert code == ExitCode.INCOMPLETE
    assert json.loads(out)["left"]["moves"] == [{"topic": "t", "partition": 0}]
    assert "not the run's" in err


def test_foreign_throttles_are_explained(here: Here) -> None:
    topic = here.state().topics[0].name
    change = ConfigChange(Resource.topic(topic), FOLLOWER_LIST, ConfigOp.SET, "0:99")
    here.client.alter_configs([change])
    code, out, _ = here("throttles", "ls")
    assert code == ExitCode.DONE
    assert "not ours; matches no move in flight" in out
    here.client.alter_configs([ConfigChange(change.resource, change.name, ConfigOp.DELETE)])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--throttle", "10", "--yes"], ExitCode.USAGE, "A rate needs a unit: 10."),
        (["--throttle", "0B/s", "--yes"], ExitCode.USAGE, "moves nothing"),
        (["--throttle", "1B/s", "--yes"], ExitCode.REFUSED, "never"),
        (["--throttle", "2GB/s"], ExitCode.USAGE, "there is no terminal"),
        (["--yes", "--allow", "nonsense"], ExitCode.USAGE, "--allow nonsense"),
        (["--throttle", "auto:9-1", "--yes"], ExitCode.USAGE, "A rate needs a unit: 9."),
        (["--throttle", "1MB/s", "--within", "1h", "--yes"], ExitCode.USAGE, "exclude each other"),
        (["--within", "3s", "--yes"], ExitCode.REFUSED, "No rate moves"),
        (["--within", "soon", "--yes"], ExitCode.USAGE, "soon"),
        (["--at", "soon", "--yes"], ExitCode.USAGE, "Not a time"),
        (["--at", "2020-01-01T00:00Z", "--yes"], ExitCode.USAGE, "is in the past"),
        (["--retention", "0s", "--yes"], ExitCode.USAGE, "is too short"),
    ],
)
def test_apply_refuses_invalid_or_infeasible_options_and_starts_no_run(
    here: Here, arguments: list[str], code: int, says: str
) -> None:
    plan = here.plan(skip=0)
    answer, out, err = here("apply", plan, *arguments)
    assert answer == code, err
    assert says in err
    assert not out
    assert here("runs", "ls", "--json")[1].strip() == "[]"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not json", "not JSON"),
        ('{"version":1,"partitions":[]}', "no partitions"),
        (
            '{"version":1,"partitions":[{"topic":"no-such","partition":0,"replicas":[1]}]}',
            "no-such",
        ),
    ],
)
def test_apply_refuses_an_invalid_plan_file(here: Here, text: str, says: str) -> None:
    path = here.home / "bad.json"
    path.write_text(text)
    code, _, err = here("apply", path, "--throttle", "1MB/s", "--yes")
    assert code in (ExitCode.USAGE, ExitCode.REFUSED)
    assert says in err
    assert "Traceback" not in err


def test_no_run_starts_where_no_journal_can_be_written(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here.home / "file").write_text("")
    monkeypatch.setenv("TRIMTAB_HOME", str(here.home / "file"))
    code, _, err = here("apply", here.plan(), *FAST)
    assert code == ExitCode.FAILED
    assert "journal cannot be made" in err
    assert not here.client.fetch_reassignments()


def test_unknown_run_is_reported_as_not_found(here: Here) -> None:
    code, _, err = here("runs", "show", "0101-000000")
    assert code == ExitCode.USAGE
    assert "No run" in err


def test_damaged_journal_fails_show_and_is_reported_by_list_commands(here: Here) -> None:
    folder = here.home / "data" / "runs" / here.state().cluster_id
    folder.mkdir(parents=True)
    (folder / "0101-000000.run").write_text("garbage, long enough to look like something" * 100)
    code, _, err = here("runs", "show", "0101-000000")
    assert code == ExitCode.FAILED
    assert "damaged" in err
    for command in (("runs", "ls"), ("throttles", "ls")):
        code, _, err = here(*command)
        assert code == ExitCode.DONE
        assert "damaged" in err
