"""Runs that have ended are tried again and rolled back on the command line, by other runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_help import FAST, SLOW, Here
from waiting import eventually

from core.cli.runs.retry_rollback import _launch_options
from core.errors import ExitCode
from core.run.reporting.runs import read_journal

pytestmark = pytest.mark.long

ALLOWED = ("--yes", "--allow", "disk,never")


def done(here: Here, plan: Path, *more: str) -> str:
    """Carry a plan out to its end; return its run."""
    code, out, err = here("apply", plan, *FAST, *more, "--json")
    assert code == ExitCode.DONE, err
    return str(json.loads(out.splitlines()[0])["run"])


def cancelled(here: Here, plan: Path) -> str:
    """Begin a plan and cancel all of it; return its run."""
    run = str(json.loads(here("apply", plan, *SLOW)[1])["run"])
    eventually(lambda: bool(here.client.fetch_reassignments()))
    assert here("runs", "cancel", run, "--yes")[0] == ExitCode.DONE
    return run


def targets(plan: Path) -> set[tuple[str, int, tuple[int, ...]]]:
    entries = json.loads(plan.read_text())["partitions"]
    return {(e["topic"], e["partition"], tuple(e["replicas"])) for e in entries}


def test_done_run_is_rolled_back_by_a_new_run_at_the_rate_of_the_original(here: Here) -> None:
    plan = here.plan(skip=200)
    before = here.replicas(plan)
    run = done(here, plan, "--elect", "--if-throttles-removed", "pause")
    code, out, err = here("runs", "rollback", run, *ALLOWED, "--json")
    assert code == ExitCode.DONE, err
    back = json.loads(out.splitlines()[0])["run"]
    assert back != run
    assert here.replicas(plan) == before
    cluster_id = here.state().cluster_id
    history = read_journal(cluster_id, back).state
    assert (history.rate_bytes_per_s, history.elect) == (2 * 10**9, True)
    assert history.pause_if_removed
    again = here.home / "again.json"
    again.write_text("an older plan")
    code, out, err = here("runs", "rollback", run, "-o", again, "--json")
    assert (code, json.loads(out)) == (ExitCode.DONE, {"run": None})
    assert "already" in err
    assert "Nothing to do" in err
    assert targets(again) == set()


def test_followup_runs_elect_as_the_original_unless_the_option_overrides_it(here: Here) -> None:
    run = done(here, here.plan(skip=220), "--elect")
    reading = read_journal(here.state().cluster_id, run)
    words = ("throttle", "detach", "yes", "allow", "override_throttles", "metrics", "as_json")
    unset = dict.fromkeys(words)
    for elect_option, elects in ((None, True), (False, False), (True, True)):
        assert _launch_options(reading, unset | {"elect": elect_option}).elect is elects
    code, out, err = here("runs", "rollback", run, "--no-elect", *ALLOWED, "--json")
    assert code == ExitCode.DONE, err
    back = read_journal(here.state().cluster_id, json.loads(out.splitlines()[0])["run"])
    assert back.state.elect is False
    assert _launch_options(back, unset | {"elect": None}).elect is False


def test_cancelled_moves_are_retried_by_a_new_run(here: Here) -> None:
    plan = here.plan(skip=210)
    run = cancelled(here, plan)
    code, out, err = here("runs", "retry", run, "--throttle", "2GB/s", *ALLOWED, "--json")
    assert code == ExitCode.DONE, err
    assert all(now == planned for now, planned in here.replicas(plan))
    code, _, err = here("runs", "rollback", run, *ALLOWED)
    assert code == ExitCode.USAGE
    assert "has moved nothing" in err
    code, _, err = here("runs", "retry", json.loads(out.splitlines()[0])["run"], *ALLOWED)
    assert code == ExitCode.USAGE
    assert "left nothing undone" in err


def test_retry_with_an_output_file_only_writes_the_plan_even_if_read_only(
    here: Here, tmp_path: Path
) -> None:
    plan = here.plan(skip=220)
    run = cancelled(here, plan)
    (tmp_path / "config").mkdir(exist_ok=True)
    marked = f'[clusters.prod]\nbootstrap = "{here.address.bootstrap}"\nread_only = true\n'
    (tmp_path / "config" / "config.toml").write_text(marked)
    code, _, err = here("runs", "retry", run, *ALLOWED)
    assert code == ExitCode.REFUSED
    assert "read_only" in err
    again = tmp_path / "again.json"
    code, out, err = here("runs", "retry", run, "-o", again, "--json")
    assert code == ExitCode.DONE, err
    assert json.loads(out) == {"run": None}
    assert targets(again) == targets(plan)
    assert len(json.loads(here("runs", "ls", "--json")[1])) == 1


def test_retry_requires_confirmation_and_moves_only_the_named_partition(here: Here) -> None:
    plan = here.plan(skip=230)
    run = cancelled(here, plan)
    first = json.loads(plan.read_text())["partitions"][0]
    name = f"{first['topic']}-{first['partition']}"
    code, _, err = here("runs", "retry", run, name, "--throttle", "2GB/s", "--allow", "disk")
    assert code == ExitCode.USAGE
    assert "there is no terminal" in err
    code, _, err = here("runs", "retry", run, name, *FAST)
    assert code == ExitCode.DONE, err
    there = [now == planned for now, planned in here.replicas(plan)]
    assert sorted(there) == [False, True]


def test_retry_is_refused_while_another_run_is_in_progress(here: Here) -> None:
    ended = cancelled(here, here.plan(skip=250))
    run = str(json.loads(here("apply", here.plan(skip=260), *SLOW)[1])["run"])
    code, _, err = here("runs", "retry", ended, *ALLOWED)
    assert code == ExitCode.REFUSED
    assert f"Run {run} is in progress" in err
    assert here("runs", "cancel", run, "--yes")[0] == ExitCode.DONE
