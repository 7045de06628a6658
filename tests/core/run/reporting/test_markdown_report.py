"""A run's report as Markdown says what was asked, done, changed, restored and left."""

from __future__ import annotations

from run_help import MB, Start, cluster, plan_of, set_config

from core.cluster.configs import FOLLOWER_RATE, Resource
from core.run.journal.move_state import Outcome
from core.run.journal.rates import RateBounds
from core.run.reporting.report import markdown
from core.run.reporting.runs import read_journal
from core.run.steps import Poll

TWO = {"t": [(1, 2), (2, 3)]}
TARGETS = {("t", 0): (4, 2), ("t", 1): (2, 4)}


def test_the_report_of_a_run_that_is_done(start: Start) -> None:
    client = cluster(TWO)
    set_config(client, Resource.broker(4), FOLLOWER_RATE, str(9 * MB))
    run = start(client, plan_of(client, TARGETS), cluster_name="prod-eu")
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


def test_the_report_tells_all_that_was_asked_for(start: Start) -> None:
    client = cluster(TWO)
    bounds = RateBounds(5 * MB, 40 * MB)
    run = start(
        client,
        plan_of(client, TARGETS),
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


def test_the_report_of_a_run_that_died_says_what_it_left(start: Start) -> None:
    client = cluster(TWO)
    run = start(client, plan_of(client, TARGETS))
    run.until(lambda step: isinstance(step, Poll))
    look = read_journal(run.view().cluster_id, run.view().run)
    assert "still set" in markdown(look)
