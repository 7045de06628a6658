"""`trimtab autopilot`: what is typed, what contradicts, and that off works without the cluster."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from clusters import NOON, tp
from clusters import cluster as pictured
from in_process import Trimtab
from run_help import TARGETS, TWO, Run, Start, cluster, plan_of

from core import files, paths
from core.autopilot import daemon as background
from core.autopilot import switch as switches
from core.autopilot.daemon import ROLE, set_switch
from core.autopilot.decision import Reason
from core.autopilot.log import DecisionLog, Entry, EntryKind
from core.autopilot.settings import AutopilotSettings, Mode
from core.autopilot.switch import Switch
from core.cli.autopilot import autopilot
from core.clock import SystemClock
from core.cluster.connect import Address, Connection
from core.daemons.lease import hold_lease, lease_file
from core.daemons.process import Process
from core.errors import UnreachableError
from core.run import run_process
from core.run.journal.move_state import Outcome
from core.run.run_process import LogoutPolicy
from core.run.steps import Submit

NOWHERE = "127.0.0.1:1"


def known(
    cluster_id: str = "c-1",
    bootstrap: str = NOWHERE,
    mode: Mode = Mode.ACT,
    *,
    name: str | None = None,
) -> Switch:
    settings = AutopilotSettings(mode=mode)
    name = name or f"name-{cluster_id}"
    switch = Switch(cluster_id, name, Address(bootstrap), settings, NOON, "ada")
    switches.write(switch)
    return switch


def configured(home: Path, bootstrap: str, *more: str) -> None:
    """Write a config.toml that knows the cluster `prod`."""
    config = home / "config"
    config.mkdir()
    lines = ("[clusters.prod]", f'bootstrap = "{bootstrap}"', *more, "")
    (config / "config.toml").write_text("\n".join(lines))


def answers(address: Address) -> Connection:
    state = pictured({"payments.v2-0": [1], "orders-0": [1]})
    state = replace(state, cluster_id="c-9")
    client: Any = SimpleNamespace(describe_cluster=lambda: state, close=lambda: None)
    return Connection(client, SystemClock(), address)


def nobody(address: Address) -> NoReturn:
    raise UnreachableError(f"No broker answers at {address.bootstrap}.")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--avoid", "nine to five"), "--avoid: not hours of the week: 'nine to five'."),
        (("--only", "02:00-02:00"), "--only: 02:00-02:00 is no time at all."),
        (("--band", "20"), "--band 20% is not inside --start-band 20%"),
        (("--band", "0"), "--band 0: it must be a percentage between 1 and 90."),
        (("--start-band", "much"), "--start-band much: it must be a percentage"),
        (("--max-moves", "1.5"), "--max-moves 1.5: it must be a number of partitions from 1."),
        (("--max-bytes", "100"), "Not a size: '100'."),
        (("--lasting", "soon"), "Not a time: 'soon'."),
        (("--keep", "("), "--keep"),
        (("--avoid", "8:00-20:00", "--only", "9:00-10:00"), "no time is left to act in"),
        (("--cancel",), "--cancel goes with --mode off."),
        (("--metrics", ":0"), "Metrics cannot go to ':0'."),
    ],
)
def test_invalid_settings_are_reported_before_the_cluster_is_contacted(
    trimtab: Trimtab, words: tuple[str, ...], says: str
) -> None:
    code, _, err = trimtab("-b", NOWHERE, "autopilot", "--mode", "act", *words)
    assert code == 2
    assert says in err
    assert list(switches.read_all()) == []


def test_limits_without_a_mode_are_refused(trimtab: Trimtab) -> None:
    code, _, err = trimtab("autopilot", "--band", "5")
    assert (code, "--mode is missing" in err) == (2, True)
    code, _, err = trimtab("autopilot", "--mode", "act", "status")
    assert (code, "sets nothing" in err) == (2, True)


def test_mode_off_turns_every_autopilot_off_without_a_cluster(trimtab: Trimtab) -> None:
    known("c-1")
    known("c-2", "127.0.0.1:2")
    code, out, err = trimtab("autopilot", "--mode", "off", "--json")
    assert code == 0
    assert {switch["cluster_id"]: switch["mode"] for switch in json.loads(out)} == {
        "c-1": "off",
        "c-2": "off",
    }
    assert "The autopilot of name-c-1 is off." in err
    assert {switch.mode for switch in switches.read_all()} == {Mode.OFF}


@pytest.mark.parametrize(
    ("variable", "value"), [("TRIMTAB_BOOTSTRAP", NOWHERE), ("TRIMTAB_CLUSTER", "prod")]
)
def test_environment_variables_do_not_limit_which_autopilots_mode_off_ends(
    trimtab: Trimtab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    known("c-1")
    known("c-2", "127.0.0.1:2")
    configured(tmp_path, NOWHERE)
    monkeypatch.setenv(variable, value)
    assert trimtab("autopilot", "--mode", "off")[0] == 0
    assert {switch.mode for switch in switches.read_all()} == {Mode.OFF}


@pytest.mark.parametrize(
    "words",
    [
        ("-b", "b:2,a:1"),
        ("-b", "b:2"),
        ("-b", " A:1 ,elsewhere:9"),
        ("--cluster", "prod"),  # config.toml has another address for it by now
    ],
)
def test_autopilot_switch_is_found_by_cluster_name_or_any_of_its_brokers(
    trimtab: Trimtab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str]
) -> None:
    monkeypatch.setattr("core.cli.common.context.connect", nobody)
    known("c-1", "a:1,b:2", name="prod")
    known("c-2", "c:3")
    configured(tmp_path, "new:1")
    code, out, _ = trimtab(*words, "autopilot", "status", "--json")
    assert (code, [status["cluster_id"] for status in json.loads(out)]) == (0, ["c-1"])
    assert trimtab(*words, "autopilot", "--mode", "off")[0] == 0
    assert {switch.cluster_id: switch.mode for switch in switches.read_all()} == {
        "c-1": Mode.OFF,
        "c-2": Mode.ACT,
    }


def test_mode_off_reports_the_known_autopilots_when_no_broker_answers(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.cli.common.context.connect", nobody)
    known("c-1", "a:1")
    known("c-2", "b:2")
    code, _, err = trimtab("-b", "c:3", "autopilot", "--mode", "off")
    assert code == 4
    assert "No broker answers at c:3." in err
    assert "There are: name-c-1 (a:1), name-c-2 (b:2)." in err
    assert "trimtab autopilot --mode off" in err


@pytest.mark.parametrize(
    "broken", [f".tmp-{os.getpid()}-ab-switch.json", "decisions.jsonl"], ids=["switch", "decisions"]
)
def test_failure_to_turn_off_one_autopilot_still_turns_off_the_rest(
    trimtab: Trimtab, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: "ab")
    for cluster_id in ("c-1", "c-2", "c-3"):
        known(cluster_id)
    path = switches.switch_file("c-2")
    (path.parent / broken).mkdir()  # so that it cannot be written
    code, out, err = trimtab("autopilot", "--mode", "off", "--json")
    assert code == 1
    assert [switch["cluster_id"] for switch in json.loads(out)] == ["c-1", "c-3"]
    assert "Failed for name-c-2: " in err
    assert "Is a directory" in err
    assert f"(Its switch is {path}.)" in err


def begun(start: Start) -> Run:
    """Begin a run that its autopilot's log tells of, on a cluster whose switch is on."""
    client = cluster(TWO)
    run = start(client, plan_of(client, TARGETS))
    cluster_id = client.describe_cluster().cluster_id
    known(cluster_id)
    log = DecisionLog(cluster_id)
    moved = ((tp("t-0"), (1,), (2,)),)
    log.add(Entry(NOON, EntryKind.ACT, (Reason("act", "Broker 1 is hot."),), moved=moved))
    log.add(Entry(NOON, EntryKind.STARTED, (Reason("started", "…"),), run=run.view().run))
    return run


def test_mode_off_reports_the_run_that_continues(trimtab: Trimtab, start: Start) -> None:
    run = begun(start)
    code, _, err = trimtab("autopilot", "--mode", "off")
    assert code == 0
    assert f"Run {run.view().run} continues; --cancel cancels it." in err


def test_mode_off_cancels_the_run_in_progress_if_requested(trimtab: Trimtab, start: Start) -> None:
    run = begun(start)
    run.until(lambda step: isinstance(step, Submit))
    code, out, err = trimtab("autopilot", "--mode", "off", "--cancel", "--json")
    (answer,) = json.loads(out)
    assert (code, answer["runs"], answer["cancelled"]) == (0, [run.view().run], True)
    assert f"Run {run.view().run} is being cancelled" in err
    assert run.to_the_end() is Outcome.CANCELLED


def test_mode_off_with_cancel_ignores_a_run_that_has_already_ended(
    trimtab: Trimtab, start: Start
) -> None:
    run = begun(start)
    run.to_the_end()  # and nobody flew that would have written it down
    code, out, err = trimtab("autopilot", "--mode", "off", "--cancel", "--json")
    assert (code, [answer["runs"] for answer in json.loads(out)]) == (0, [[]])
    assert "Run" not in err


def test_autopilot_status_and_decision_log_are_printed(trimtab: Trimtab) -> None:
    assert "No autopilot here." in trimtab("autopilot", "status")[2]
    known()
    reasons = (Reason("run", "Run x is in progress."), Reason("budget", "All is used up."))
    DecisionLog("c-1").add(Entry(NOON, EntryKind.WAIT, reasons))
    code, out, _ = trimtab("autopilot", "status")
    assert code == 0
    assert "not running: its process has ended" in out
    assert "0 B of 100 GB and 0 of 200 partitions in the last hour" in out
    code, out, _ = trimtab("autopilot", "log")
    assert "wait      Run x is in progress." in out
    assert "All is used up." in out
    known("c-2", "127.0.0.1:2")
    code, _, err = trimtab("autopilot", "log")
    assert (code, "Which cluster's?" in err) == (2, True)


def test_status_prints_each_reason_of_the_last_decision_on_its_own_line(trimtab: Trimtab) -> None:
    known("c-1")
    reasons = (Reason("avoid", "These are busy hours."), Reason("amiss", "Broker 3 is down."))
    DecisionLog("c-1").add(Entry(NOON, EntryKind.WAIT, reasons))
    _, out, _ = trimtab("autopilot", "status")
    first, second = out.splitlines()[-2:]
    assert first.startswith("last ")
    assert first.endswith("These are busy hours.")
    assert second.strip() == "Broker 3 is down."
    assert "\N{REPLACEMENT CHARACTER}" not in out


@pytest.mark.parametrize("flag", ["--json", "--detach", "--yes", "--cancel"])
@pytest.mark.parametrize("words", [("status",), ("log",)])
def test_option_before_status_or_log_is_rejected_and_not_ignored(
    trimtab: Trimtab, words: tuple[str, ...], flag: str
) -> None:
    code, _, err = trimtab("autopilot", flag, *words)
    assert (code, "sets nothing" in err, "--json goes after it" in err) == (2, True, True)


def test_mode_act_requires_confirmation_by_the_cluster_name(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.cli.common.context.connect", answers)
    code, _, err = trimtab("-b", NOWHERE, "autopilot", "--mode", "act")
    assert code == 2
    assert "budget      100 GB and 200 partitions in any hour" in err
    assert switches.read("c-9") is None


def test_pattern_that_no_topic_matches_is_reported_before_confirmation(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.cli.common.context.connect", answers)
    words = ("--keep", "payments", "--topics", "order.*")
    code, _, err = trimtab("-b", NOWHERE, "autopilot", "--mode", "act", *words)
    assert code == 2
    asked = err.index("let the autopilot act")
    assert "--keep: No topic matches payments. Did you mean payments.v2?" in err[:asked]
    assert "--topics" not in err
    assert "keep        payments\n" in err[:asked]


def test_configured_limits_are_shown_by_status_and_log(trimtab: Trimtab) -> None:
    limits = {"topics": "orders.*", "keep": "orders-eu", "cool_down_seconds": 7200.0}
    switch = known()
    set_switch(replace(switch, settings=replace(switch.settings, **limits)))  # type: ignore[arg-type]
    status, log = trimtab("autopilot", "status")[1], trimtab("autopilot", "log")[1]
    for name, text in (("topics", "orders.*"), ("keep", "orders-eu"), ("cool-down", "2 h 00 m")):
        assert f"{name:<21}  {text}" in status
        assert f"; {name} {text}" in log


def test_switching_off_and_immediately_on_starts_a_new_autopilot(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.cli.common.context.connect", answers)
    started: list[Switch] = []
    monkeypatch.setattr(background, "start_autopilot", started.append)
    known("c-9", mode=Mode.OFF)
    with ExitStack() as flight:
        flight.enter_context(hold_lease(lease_file(paths.load_root(), "c-9", ROLE)))
        # It has read its switch, and is gone at the first look at whether it flies on.
        monkeypatch.setattr(SystemClock, "sleep", lambda clock, seconds: flight.close())
        words = ("autopilot", "--mode", "act", "--yes", "--detach")
        code, _, err = trimtab("-b", NOWHERE, *words)
    assert (code, "runs in the background, mode act" in err) == (0, True)
    assert [switch.mode for switch in started] == [Mode.ACT]


def test_metrics_destination_is_fixed_while_the_background_autopilot_runs(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("core.cli.common.context.connect", answers)
    started: list[Switch] = []
    monkeypatch.setattr(background, "start_autopilot", started.append)
    words = ("autopilot", "--mode", "suggest", "--detach")
    place = str(tmp_path / "a.prom")
    code, _, err = trimtab("-b", NOWHERE, *words, "--metrics", str(tmp_path / "no" / "a.prom"))
    assert (code, "there is no folder" in err, switches.read("c-9")) == (2, True, None)
    assert trimtab("-b", NOWHERE, *words, "--metrics", place)[0] == 0
    with hold_lease(lease_file(paths.load_root(), "c-9", ROLE)):
        assert trimtab("-b", NOWHERE, *words)[0] == 0
        code, _, err = trimtab("-b", NOWHERE, *words, "--metrics", ":9465")
        assert (code, f"publishes its metrics on {place}" in err) == (2, True)
    stored_switch = switches.read("c-9")
    assert stored_switch is not None
    assert [switch.metrics for switch in (*started, stored_switch)] == [place, place]
    assert trimtab("-b", NOWHERE, *words)[0] == 0
    assert started[-1].metrics is None


@pytest.mark.parametrize("flies", [False, True])
def test_setting_a_background_autopilot_reports_its_state_as_json(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch, flies: bool
) -> None:
    monkeypatch.setattr("core.cli.common.context.connect", answers)
    monkeypatch.setattr(background, "start_autopilot", lambda switch: Process.this())
    known("c-9")
    words = ("autopilot", "--mode", "suggest", "--json", *(() if flies else ("--detach",)))
    with ExitStack() as flight:
        if flies:
            flight.enter_context(hold_lease(lease_file(paths.load_root(), "c-9", ROLE)))
        code, out, err = trimtab("-b", NOWHERE, *words)
    (stands,) = json.loads(out)
    assert (code, stands["mode"], stands["flying"]) == (0, "suggest", True)
    assert (stands["pid"], "mode suggest" in err) == (os.getpid(), True)


def test_background_autopilot_survives_logout_or_missing_linger_is_reported(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.cli.common.context.connect", answers)
    spawned: list[list[str]] = []

    def spawn(command: list[str], output: Path, stdin: int | None) -> Process:
        spawned.append(command)
        return Process.this()

    monkeypatch.setattr("core.daemons.supervisor.spawn", spawn)
    hint_flags = []
    for lingers in (True, False):
        there = LogoutPolicy("sre", kills=True, lingers=lingers, runner="systemd-run")
        for module in (run_process, autopilot):
            monkeypatch.setattr(module, "logout_policy", lambda there=there: there)
        code, _, err = trimtab("-b", NOWHERE, "autopilot", "--mode", "suggest", "--detach")
        assert code == 0
        hint_flags.append("this autopilot too: first loginctl enable-linger sre" in err)
    assert hint_flags == [False, True]
    assert [command[0] for command in spawned] == ["systemd-run", sys.executable]


def test_mode_act_is_refused_on_a_read_only_cluster(trimtab: Trimtab, tmp_path: Path) -> None:
    configured(tmp_path, NOWHERE, "read_only = true")
    code, _, err = trimtab("--cluster", "prod", "autopilot", "--mode", "act", "--yes")
    assert (code, "prod is marked read_only." in err) == (3, True)


def test_options_that_are_not_given_keep_their_previous_values() -> None:
    from core.cli.autopilot.limits import parse_limits

    before = replace(AutopilotSettings(), keep="audit-.*", cool_down_seconds=5)
    after = parse_limits(before, {"band": "5%", "keep": None, "avoid": "9:00-17:00"})
    assert (after.aim_band, after.keep, after.cool_down_seconds) == (0.05, "audit-.*", 5)
    assert parse_limits(after, {"avoid": "none", "keep": "none"}).avoid == AutopilotSettings().avoid
