"""A run's report: what was asked, done and moved, and each config before, during and after."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from cli_help import FAST, Here
from clusters import NOON
from run_help import (
    MB,
    Run,
    Start,
    ask,
    cluster,
    move,
    new_journal,
    plan_of,
    set_config,
    spend,
    submitted,
)

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
from core.plan.plan import Plan
from core.run.journal.journal import Journal
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.rates import RateBounds
from core.run.journal.records import Kind, Record
from core.run.journal.replay import fold
from core.run.reporting.alerts import NoticeTracker
from core.run.reporting.config_changes import ChangedConfig, changes
from core.run.reporting.documents import end
from core.run.reporting.event_text import restored, story
from core.run.reporting.notifier import notice
from core.run.reporting.report import headline, markdown, report
from core.run.reporting.runs import read_journal
from core.run.reporting.views import RunStatus, summary
from core.run.steps import Poll


@pytest.fixture
def client() -> SimulatedCluster:
    client = cluster({"t": [(1, 2)]})
    set_config(client, Resource.broker(3), FOLLOWER_RATE, "900000000")
    set_config(client, Resource.broker(2), LEADER_RATE, "1000000")
    set_config(client, Resource.topic("t"), LEADER_LIST, "0:9")
    return client


@pytest.fixture
def run(client: SimulatedCluster, start: Start) -> Run:
    return start(client, {("t", 0): (1, 3)})


def changes_by_config(run: Run) -> dict[tuple[str, str], tuple[str, str, str]]:
    config_changes = changes(run.journal.records(), run.state)
    return {
        (f"{c.resource} {c.name}", c.config): (c.before_words, c.during_words, c.after_words)
        for c in config_changes
    }


def test_config_changes_are_reported_before_during_and_after_the_run(run: Run) -> None:
    run.until(lambda step: isinstance(step, Poll))
    assert changes_by_config(run)["broker 3", FOLLOWER_RATE] == (
        "900 MB/s",
        "5.0 MB/s",
        "still set",
    )
    run.to_the_end()
    assert changes_by_config(run) == {
        ("broker 1", LEADER_RATE): ("unset", "5.0 MB/s", "unset again"),
        ("broker 2", LEADER_RATE): ("1.0 MB/s", "kept", "was kept"),
        ("broker 3", FOLLOWER_RATE): ("900 MB/s", "5.0 MB/s", "set as before"),
        ("broker 3", LEADER_RATE): ("unset", "5.0 MB/s", "unset again"),
        ("topic t", FOLLOWER_LIST): ("unset", "0:3", "taken out again, unset again"),
        ("topic t", LEADER_LIST): ("0:9", "0:1, 0:2, 0:3", "taken out again, as before"),
    }


def test_rate_changed_by_somebody_else_is_reported_as_theirs(
    client: SimulatedCluster, run: Run
) -> None:
    run.until(lambda step: isinstance(step, Poll))
    set_config(client, Resource.broker(3), FOLLOWER_RATE, "7000000")
    run.to_the_end()
    assert "changed by somebody else" in changes_by_config(run)["broker 3", FOLLOWER_RATE][2]


def test_many_rates_of_one_config_are_summarized_by_count_and_range() -> None:
    rates = [str(n * MB) for n in range(5, 25)]
    change = ChangedConfig("broker", "7", FOLLOWER_RATE, None, ConfigSource.DEFAULT, rates)
    assert change.during_words == "20 rates from 5.0 MB/s to 24 MB/s"


def test_report_text_names_what_was_requested_and_what_was_changed(run: Run) -> None:
    run.to_the_end()
    text = report(run.look())
    assert "asked for by" in text
    assert "1 partitions, throttle 5.0 MB/s a broker and side" in text
    assert "follower rate of broker 3: 900 MB/s → 5.0 MB/s → set as before" in text
    assert "took" in text


def test_markdown_tables_have_the_same_columns_in_every_row(run: Run) -> None:
    run.cancel()
    run.to_the_end()
    text = markdown(run.look())
    tables = [part.strip() for part in re.findall(r"^(?:\|.*\n)+", text, re.M)]
    assert tables
    for table in tables:
        lines = table.splitlines()
        columns = {line.replace("\\|", "").count("|") for line in lines}
        assert len(columns) == 1, table


def test_requester_names_cannot_break_a_markdown_table(run: Run) -> None:
    run.journal.ask(NOON, "cancel", {"who": "a|b\nc", "host": "<h>"})
    run.to_the_end()
    text = markdown(run.look())
    assert "a|b c" not in text.split("## Done")[1]
    assert "<h>" not in text


# -- the story of what is new ----------------------------------------------------------------------


def lines(run: Run, *more: tuple[Kind, dict[str, Any]]) -> list[str]:
    """Return the story's lines of records that follow a run's own."""
    records = [*run.journal.records()]
    history = run.state
    new = [Record(1000 + n, NOON, kind, payload) for n, (kind, payload) in enumerate(more)]
    return [
        event.text
        for event in story([*records, *new], history, 0)[len(story(records, history, 0)) :]
    ]


def test_rate_ramp_is_reported_in_one_line(run: Run) -> None:
    up = {"rates": [], "why": "on the way to 20 MB/s, by a tenth a second"}
    down = {"rates": [], "why": "slowed down to 5 MB/s, as asked"}
    kinds = [(Kind.RATES_CHANGING, up)] * 3 + [(Kind.RATES_CHANGING, down)]
    assert lines(run, *kinds) == [f"throttles: {up['why']}", f"throttles: {down['why']}"]


def test_recovered_run_reports_that_it_was_brought_back(run: Run) -> None:
    started = (Kind.STARTED, {"pid": 7, "pid_started": "once"})
    assert lines(run, started) == []
    assert lines(run, started, started) == ["brought back: process 7 goes on"]


def test_refused_request_is_reported_with_its_reason(run: Run) -> None:
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
def test_journal_records_are_reported_in_plain_words(
    run: Run, kind: Kind, payload: dict[str, Any], text: list[str]
) -> None:
    assert lines(run, (kind, payload)) == text


# -- on the command line ---------------------------------------------------------------------------


def test_report_command_writes_markdown_to_a_file_or_stdout(here: Here) -> None:
    assert here("apply", here.plan(skip=90), *FAST)[0] == ExitCode.DONE
    run = here("runs", "ls")[1].splitlines()[1].split()[0]
    path = here.home / "ticket.md"
    assert here("runs", "report", run, "-o", path)[0] == ExitCode.DONE
    assert "## Changed and restored" in path.read_text()
    assert here("runs", "report", run)[1] == path.read_text()
    assert "TOOK" in here("runs", "ls")[1]


TWO_PARTITIONS = {"t": [(1, 2), (2, 3)]}
TO_4 = {("t", 0): (4, 2), ("t", 1): (2, 4)}


def test_report_of_a_done_run_lists_its_moves_and_config_changes(start: Start) -> None:
    client = cluster(TWO_PARTITIONS)
    set_config(client, Resource.broker(4), FOLLOWER_RATE, str(9 * MB))
    run = start(client, TO_4, cluster_name="prod-eu")
    assert run.to_the_end() is Outcome.DONE
    text = markdown(read_journal(run.view().cluster_id, run.view().run))
    for words in (
        f"# Run {run.view().run} on prod-eu: done",
        "- 2 moves, 2 with data",
        "- 2 partitions, throttle 5.0 MB/s a broker and side, estimated not known",
        "- 2 of 2 done (2 done)",
        "| t-0 | 1,2 | 4,2 |",
        "| follower rate of broker 4 | 9.0 MB/s | 5.0 MB/s | set as before |",
        "| leader rate of broker 1 | unset | 5.0 MB/s | unset again |",
        "| leader list of t | unset |",
        "taken out again",
        "throttles as found",
    ):
        assert words in text, text
    assert "Left in the cluster" not in text


def test_report_lists_every_requested_option(start: Start) -> None:
    client = cluster(TWO_PARTITIONS)
    bounds = RateBounds(5 * MB, 40 * MB)
    run = start(
        client,
        plan_of(client, TO_4),
        rate=40 * MB,
        auto=bounds,
        retention_ms=3_600_000,
        elect=True,
        max_extra_bytes=50 * MB,
        override_rates=True,
        allow=frozenset(("never",)),
        start_at=client.now,
    )
    look = read_journal(run.view().cluster_id, run.view().run)
    asked = markdown(look).partition("## Done")[0]
    for words in (
        "- asked for by ",
        "- 2 partitions, throttle adapted between 5.0 MB/s and 40 MB/s a broker and side",
        "- 2 moves, ",
        "- to start at ",
        "- with the retention of its topics lowered to 1 h 00 m meanwhile",
        "- with preferred leaders elected at the end",
        "- no broker to receive more than 50 MB at a time",
        "- over lower rates that somebody else has set",
        "- although these checks spoke against it: never",
    ):
        assert words in asked, asked


def test_report_of_a_dead_run_names_configs_that_are_still_set(start: Start) -> None:
    run = start(cluster(TWO_PARTITIONS), TO_4)
    run.until(lambda step: isinstance(step, Poll))
    look = read_journal(run.view().cluster_id, run.view().run)
    assert "still set" in markdown(look)


@pytest.fixture
def own_journal() -> Any:
    plan = Plan("c", (move("t", 0, (1, 2), (3, 2)),))
    with new_journal(plan) as made:
        yield made


def story_of(own_journal: Journal) -> list[str]:
    records = own_journal.records()
    return [event.text for event in story(records, fold(records), 0)][1:]


def write_waiting(own_journal: Journal, *reasons: str) -> None:
    for why in reasons:
        own_journal.write(NOON, Kind.WAITING, {"why": why})


def write_request(own_journal: Journal, kind: str) -> None:
    own_journal.write(NOON, Kind.REQUEST, {"seq": 1, "kind": kind, "who": "ann", "host": "here"})


def test_pause_is_reported_once_whatever_is_in_flight_by_then(own_journal: Journal) -> None:
    write_request(own_journal, "pause")
    write_waiting(
        own_journal, "paused, as asked: what is in flight goes on", "paused, as asked", ""
    )
    write_waiting(own_journal, "paused, as asked", "broker 3 is down", "paused, as asked")
    write_request(own_journal, "resume")
    write_waiting(own_journal, "")
    write_request(own_journal, "pause")
    write_waiting(own_journal, "paused, as asked")
    assert story_of(own_journal) == [
        "pause asked for by ann on here",
        "paused, as asked: what is in flight goes on",
        "broker 3 is down",
        "resume asked for by ann on here",
        "goes on, no longer: paused, as asked",
        "pause asked for by ann on here",
        "paused, as asked",
    ]


@pytest.mark.parametrize(
    ("brokers", "words"), [([6], "broker 6 unset again"), ([6, 2, 6], "brokers 2 6 unset again")]
)
def test_restored_rates_name_each_broker_once(brokers: list[int], words: str) -> None:
    rates = [{"broker": broker, "side": "leader", "how": "unset"} for broker in brokers]
    assert restored(iter(rates)) == f"throttle rates: {words}"


def all_counts(run: Run) -> list[str]:
    """Return each place that counts what a run has done."""
    view, history = run.view(), run.state
    notices = NoticeTracker()
    notices.update(replace(view, state=RunStatus.RUNNING))
    called_out = notices.update(view)
    assert called_out is not None
    document = notice("ended", history, run.client.now, "")
    listed = summary(view)
    return [
        headline(view),
        view.events[-1].text,
        markdown(run.look()),
        called_out.text,
        document["text"],
        f"{document['done']} of {document['moves']} done",
        f"{listed.done} of {listed.moves} done",
    ]


def test_retargeted_partition_is_counted_once(start: Start) -> None:
    run = start(count=2, size_bytes=60 * MB)
    run.until(submitted)
    ask(run, "retarget", move=0, after=[4, 2])
    assert run.to_the_end() is Outcome.DONE
    assert len(run.state.moves) == 3
    assert all("2 of 2" in words for words in all_counts(run)), all_counts(run)
    view = run.view()
    assert (view.undone, view.moved_away) == (0, 2)


def test_rollback_is_reported_to_its_end_and_leaves_nothing_to_roll_back(
    start: Start,
) -> None:
    run = start(count=4, batch_size=1)
    run.until(lambda _: sum(m.phase is Phase.DONE for m in run.state.moves) == 2)
    ask(run, "pause", floor=False)
    spend(run, 20)
    assert run.view().state is RunStatus.PAUSED
    ask(run, "rollback")
    states, away = set(), []
    while run.state.ended is None:
        run.runner.advance()
        states.add(run.view().state)
        away.append(run.view().moved_away)
        assert summary(run.view()).moved_away == away[-1]
    assert states == {RunStatus.ROLLING_BACK, RunStatus.ROLLED_BACK}
    assert len(run.state.moves) == 6
    assert all("2 of 4" in words for words in all_counts(run)), all_counts(run)
    assert headline(run.view()).split(": ")[1].startswith("rolled-back, 2 of 4 done")
    assert run.view().events[-1].text.startswith("rolled back: 2 of 4 partitions")
    ended = end(run.view())
    assert (ended["outcome"], ended["why"]) == ("cancelled", "rolled back")
    assert sorted(set(away), reverse=True) == [2, 1, 0]


def test_paused_rollback_is_reported_as_paused(start: Start) -> None:
    run = start(count=4, batch_size=1)
    run.until(lambda _: sum(m.phase is Phase.DONE for m in run.state.moves) == 2)
    ask(run, "rollback")
    run.until(lambda step: submitted(step) and run.state.rolling_back)
    ask(run, "pause", floor=False)
    spend(run, 5)
    assert run.view().state is RunStatus.PAUSED
