"""A run's report: what was asked, done and moved, and each config before, during and after."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from cli_help import FAST, Here
from run_help import MB, Run, Start, cluster, plan_of, set_config

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigSource,
    Resource,
)
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import ExitCode
from core.run.journal.records import Kind, Record
from core.run.reporting.config_changes import ChangedConfig, changes
from core.run.reporting.event_text import story
from core.run.reporting.report import markdown, report
from core.run.steps import Poll

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def client() -> SimulatedCluster:
    client = cluster({"t": [(1, 2)]})
    set_config(client, Resource.broker(3), FOLLOWER_RATE, "900000000")
    set_config(client, Resource.broker(2), LEADER_RATE, "1000000")
    set_config(client, Resource.topic("t"), LEADER_LIST, "0:9")
    return client


@pytest.fixture
def run(client: SimulatedCluster, start: Start) -> Run:
    return start(client, plan_of(client, {("t", 0): (1, 3)}))


def told(run: Run) -> dict[tuple[str, str], tuple[str, str, str]]:
    found = changes(run.journal.records(), run.runner.state)
    return {
        (f"{c.resource} {c.name}", c.config): (c.before_words, c.during_words, c.after_words)
        for c in found
    }


def test_each_config_is_told_before_during_and_after(run: Run) -> None:
    run.until(lambda step: isinstance(step, Poll))
    assert told(run)["broker 3", FOLLOWER_RATE] == ("900 MB/s", "5.0 MB/s", "still set")
    run.to_the_end()
    assert told(run) == {
        ("broker 1", LEADER_RATE): ("unset", "5.0 MB/s", "unset again"),
        ("broker 2", LEADER_RATE): ("1.0 MB/s", "kept", "was kept"),
        ("broker 3", FOLLOWER_RATE): ("900 MB/s", "5.0 MB/s", "set as before"),
        ("broker 3", LEADER_RATE): ("unset", "5.0 MB/s", "unset again"),
        ("topic t", FOLLOWER_LIST): ("unset", "0:3", "taken out again, unset again"),
        ("topic t", LEADER_LIST): ("0:9", "0:1, 0:2, 0:3", "taken out again, as before"),
    }


def test_a_rate_that_somebody_changed_is_told_to_be_theirs(
    client: SimulatedCluster, run: Run
) -> None:
    run.until(lambda step: isinstance(step, Poll))
    set_config(client, Resource.broker(3), FOLLOWER_RATE, "7000000")
    run.to_the_end()
    assert "changed by somebody else" in told(run)["broker 3", FOLLOWER_RATE][2]


def test_many_rates_are_counted() -> None:
    rates = [str(n * MB) for n in range(5, 25)]
    change = ChangedConfig("broker", "7", FOLLOWER_RATE, None, ConfigSource.DEFAULT, rates)
    assert change.during_words == "20 rates from 5.0 MB/s to 24 MB/s"


def test_the_text_says_what_was_asked_and_what_was_changed(run: Run) -> None:
    run.to_the_end()
    text = report(run.look())
    assert "asked for by" in text
    assert "1 partitions, throttle 5.0 MB/s a broker and side" in text
    assert "follower rate of broker 3: 900 MB/s → 5.0 MB/s → set as before" in text
    assert "took" in text


def test_the_markdown_has_tables_that_hold_together(run: Run) -> None:
    run.cancel()
    run.to_the_end()
    text = markdown(run.look())
    tables = [part.strip() for part in re.findall(r"^(?:\|.*\n)+", text, re.M)]
    assert tables
    for table in tables:
        lines = table.splitlines()
        columns = {line.replace("\\|", "").count("|") for line in lines}
        assert len(columns) == 1, table


def test_what_others_said_cannot_break_a_table(run: Run) -> None:
    run.journal.ask(NOON, "cancel", {"who": "a|b\nc", "host": "<h>"})
    run.to_the_end()
    text = markdown(run.look())
    assert "a|b c" not in text.split("## Done")[1]
    assert "<h>" not in text


# -- the story of what is new ----------------------------------------------------------------------


def lines(run: Run, *more: tuple[Kind, dict[str, Any]]) -> list[str]:
    """Return the story's lines of records that follow a run's own."""
    records = [*run.journal.records()]
    history = run.runner.state
    new = [Record(1000 + n, NOON, kind, payload) for n, (kind, payload) in enumerate(more)]
    return [
        event.text
        for event in story([*records, *new], history, 0)[len(story(records, history, 0)) :]
    ]


def test_a_ramp_is_one_line(run: Run) -> None:
    up = {"rates": [], "why": "on the way to 20 MB/s, by a tenth a second"}
    down = {"rates": [], "why": "slowed down to 5 MB/s, as asked"}
    kinds = [(Kind.RATES_CHANGING, up)] * 3 + [(Kind.RATES_CHANGING, down)]
    assert lines(run, *kinds) == [f"throttles: {up['why']}", f"throttles: {down['why']}"]


def test_a_run_that_is_brought_back_says_so(run: Run) -> None:
    started = (Kind.STARTED, {"pid": 7, "pid_started": "once"})
    assert lines(run, started) == []
    assert lines(run, started, started) == ["brought back: process 7 goes on"]


def test_what_is_asked_and_refused_is_told(run: Run) -> None:
    asked = {
        "seq": 1,
        "kind": "dance",
        "who": "ann",
        "host": "h",
        "refused": "it does not know how",
    }
    assert lines(run, (Kind.REQUEST, asked)) == [
        "dance asked for by ann on h; refused: it does not know how"
    ]


@pytest.mark.parametrize(
    ("kind", "payload", "text"),
    [
        (
            Kind.DISTURBED,
            {
                "rates": [{"broker": 7, "side": "leader", "mend": True}],
                "lists": [{"topic": "t", "side": "follower", "mend": False}],
            },
            [
                "somebody else changed throttles of this run, put back: b7 leader rate",
                "somebody else changed throttles of this run, left so: follower list of t",
            ],
        ),
        (
            Kind.MOVES_ADDED,
            {"moves": [{"topic": "t", "partition": 0, "after": [4, 1]}], "refused": [],
             "rollback": False},
            ["t-0 goes to 4,1 instead"],
        ),
        (
            Kind.MOVES_ADDED,
            {"moves": [], "refused": [[0, "broker 9 is not there"]], "rollback": False},
            ["t-0 does not go elsewhere: broker 9 is not there"],
        ),
        (
            Kind.MOVES_ADDED,
            {"moves": [{}], "refused": [], "rollback": True},
            ["rolling back: 1 partition that had moved go back"],
        ),
        (Kind.RETENTION_AWAITED, {"moved": 1, "of": 2}, ["logs of 1 of 2 partitions are shorter"]),
        (
            Kind.RETENTION_RESTORED,
            {"topics": {"t": "set", "u": "changed"}},
            ["retention of t as before", "retention of u: changed by others, left so"],
        ),
        (Kind.ELECTED, {"moves": [0], "again": {}}, ["preferred leaders elected: t-0"]),
        (Kind.PAIRS_PUT, {"lists": [["t", "leader", ["0:1"]]]},
         ["throttle list of t is whole again"]),
    ],
)  # fmt: skip
def test_what_happens_is_told_in_words(
    run: Run, kind: Kind, payload: dict[str, Any], text: list[str]
) -> None:
    assert lines(run, (kind, payload)) == text


# -- on the command line ---------------------------------------------------------------------------


def test_a_report_is_written_for_a_ticket(here: Here) -> None:
    assert here("apply", here.plan(skip=90), *FAST)[0] == ExitCode.DONE
    run = here("runs", "ls")[1].splitlines()[1].split()[0]
    path = here.home / "ticket.md"
    assert here("runs", "report", run, "-o", path)[0] == ExitCode.DONE
    assert "## Changed and restored" in path.read_text()
    assert here("runs", "report", run)[1] == path.read_text()
    assert "TOOK" in here("runs", "ls")[1]
