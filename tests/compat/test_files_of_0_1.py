"""What version 0.1.0 wrote is read, and says the same: runs, load, timelines, documents."""

from __future__ import annotations

import gzip
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from kept_files import FILES, Command, journals

ON = "demo-e9699e5c828636fa"
"""The cluster that the files are of."""
IN_HOME = {
    "runs": "runs ls",
    "run-done": "runs show 1127-040715",
    "run-cancelled": "runs show 1127-054624",
    "run-elections": "runs show 1127-062236",
    "snapshots": "snapshot ls",
    "snapshot": "snapshot show",
    "snapshot-verify": "snapshot verify",
    "pipeline": "pipeline status",
    "timeline": "timeline --since 2026-11-27T00:00:00Z --until 2026-11-28T00:00:00Z",
    "timeline-summary": "timeline --summary",
    "autopilot": "autopilot status",
    "decisions": "autopilot log",
    "audit": "audit ls",
    "audit-verify": "audit verify",
    "document": "--from {home}/documents/cluster.json show",
    "document-arrow": "--from {home}/documents/cluster.arrow show",
    "plan": "--from {home}/documents/cluster.arrow plan show {home}/documents/suggested.json",
    "plan-check": "--from {home}/documents/cluster.json plan check {home}/documents/suggested.json",
    "plan-kept": f"plan show {{home}}/data/plans/{ON}.json",
    "plan-diff": "plan diff {home}/documents/suggested.json {home}/documents/inverse.json",
    "verify": "--from {home}/documents/cluster.json verify {home}/documents/suggested.json",
}
MOVING = {"age_seconds", "last_heartbeat_seconds"}
"""What is reckoned from now."""


@cache
def expected() -> dict[str, Any]:
    return json.loads(gzip.decompress((FILES / "expected.json.gz").read_bytes()))


def facts(value: Any) -> Any:
    """Return a document without its sentences, which may be put better, and without ages."""
    match value:
        case dict():
            return {key: None if key in MOVING else facts(each) for key, each in value.items()}
        case list():
            return [facts(each) for each in value]
        case str() if re.search(r"\s", value) or value.endswith("."):
            return "(a sentence)"
        case str():
            return value.replace(os.environ["TRIMTAB_HOME"], "HOME")
        case float():
            return float(f"{value:.9g}")
        case _:
            return value


def keys_of_then(value: Any, then: Any) -> Any:
    """Return a document without the keys that it did not have then: more may be said."""
    match value, then:
        case dict(), dict():
            return {key: keys_of_then(value[key], then[key]) for key in then if key in value}
        case list(), list() if len(value) == len(then):
            return [keys_of_then(entry, other) for entry, other in zip(value, then, strict=True)]
        case _:
            return value


@pytest.mark.parametrize("name", IN_HOME)
def test_command_reports_the_facts_that_version_0_1_reported(
    name: str, command: Command, home: Path
) -> None:
    words = IN_HOME[name].format(home=home).split()
    answer = command(*words, "--json")
    code, then = expected()[name]
    assert answer.exit_code == code, answer.stderr
    assert keys_of_then(facts(answer.document), then) == then


@pytest.mark.parametrize("name", journals())
def test_journal_of_version_0_1_reports_the_same_run(name: str, command: Command) -> None:
    cluster_id, run, content = journals()[name]
    folder = Path(os.environ["TRIMTAB_HOME"]) / "data" / "runs" / cluster_id
    folder.mkdir(parents=True)
    (folder / f"{run}.run").write_bytes(content)
    shown = command("runs", "show", run, "--json")
    listed = command("runs", "ls", "--json")
    code, *then = expected()[name]
    run_facts = [facts(shown.document), facts(listed.document)]
    assert (shown.exit_code, keys_of_then(run_facts, then)) == (code, then)
    for words in (("runs", "show", run), ("runs", "report", run)):
        assert command(*words).exit_code in (0, shown.exit_code)


def test_past_cluster_state_is_read_from_a_timeline_of_version_0_1(
    command: Command, home: Path
) -> None:
    then = command("timeline", "--at", "2026-11-27T05:00:00Z")
    assert facts(then.document) == expected()["timeline-at"]


def test_autopilot_of_version_0_1_can_be_turned_off(command: Command, home: Path) -> None:
    switch = home / "data" / "autopilot" / ON / "switch.json"
    switch.write_text(switch.read_text().replace('"mode": "off"', '"mode": "suggest"'))
    assert command("autopilot", "status", "--json").document[0]["mode"] == "suggest"
    assert command("autopilot", "--mode", "off").exit_code == 0
    assert command("autopilot", "status", "--json").document[0]["mode"] == "off"


def test_every_configuration_key_of_version_0_1_is_accepted(command: Command) -> None:
    config = Path(os.environ["TRIMTAB_HOME"]) / "config"
    config.mkdir(parents=True)
    (config / "config.toml").write_bytes((FILES / "config.toml").read_bytes())
    unreachable = command("--cluster", "prod", "show")
    assert unreachable.exit_code == 4
    refused = command("--cluster", "archive", "topics", "create", "t", "--partitions", "1", "--yes")
    assert refused.exit_code == 3
    (config / "config.toml").write_text((FILES / "config.toml").read_text() + "\n[unknown]\n")
    assert command("--cluster", "prod", "show").exit_code == 2
