"""The story of a run in plain words: told once, and in the right number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from clusters import NOON
from run_help import MB, move

from core.cluster.connect import Address
from core.plan.plan import Plan
from core.run.journal.journal import Journal
from core.run.journal.records import Kind
from core.run.journal.replay import fold
from core.run.options import RunOptions, create_journal
from core.run.reporting.event_text import restored, story


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    plan = Plan("c", (move("t", 0, (1, 2), (3, 2)),))
    with create_journal(Address("b:9092"), "c", plan, RunOptions(5 * MB), None, at=NOON) as made:
        yield made


def told(journal: Journal) -> list[str]:
    records = journal.records()
    return [event.text for event in story(records, fold(records), 0)][1:]


def waits(journal: Journal, *reasons: str) -> None:
    for why in reasons:
        journal.write(NOON, Kind.WAITING, {"why": why})


def asked(journal: Journal, kind: str) -> None:
    journal.write(NOON, Kind.REQUEST, {"seq": 1, "kind": kind, "who": "ann", "host": "here"})


def test_a_pause_is_told_once_whatever_is_in_flight_by_then(journal: Journal) -> None:
    asked(journal, "pause")
    waits(journal, "paused, as asked: what is in flight goes on", "paused, as asked", "")
    waits(journal, "paused, as asked", "broker 3 is down", "paused, as asked")
    asked(journal, "resume")
    waits(journal, "")
    asked(journal, "pause")
    waits(journal, "paused, as asked")
    assert told(journal) == [
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
def test_one_broker_is_one(brokers: list[int], words: str) -> None:
    rates = [{"broker": broker, "side": "leader", "how": "unset"} for broker in brokers]
    assert restored(iter(rates)) == f"throttle rates: {words}"
