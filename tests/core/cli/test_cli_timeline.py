"""`trimtab timeline`: what was recorded, told by time, kind, topic and broker."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from in_process import Trimtab
from json_schemas import validate
from watch_help import RECORDED, at, cluster, damage, record_night, row

from core import paths
from core.errors import ExitCode
from core.watch.timeline.changes import find_changes
from core.watch.timeline.events import Event, Kind, Note
from core.watch.timeline.publisher import Publisher
from core.watch.timeline.store import Timeline


@pytest.fixture
def timeline(trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch) -> Trimtab:
    """Ask for the timeline of a night in which broker 2 died, came back, and a topic was made."""
    monkeypatch.setenv("TZ", "UTC")
    record_night()
    return partial(trimtab, "timeline")


def texts(out: str) -> list[str]:
    return [line[12:] for line in out.splitlines() if not line.startswith("2026-")]


def test_events_are_printed_in_order_under_their_date(timeline: Trimtab) -> None:
    code, out, err = timeline()
    assert code == 0
    assert out.splitlines()[:2] == ["2026-03-01 UTC", "03:00:10.0  broker 2 went down"]
    assert texts(out)[-1] == "new-0 came, on 1,2"
    assert "Recorded until 2026-03-01T03:02:00.000Z" in err


def test_summary_has_one_line_per_group_of_related_events(timeline: Trimtab) -> None:
    assert texts(timeline("--summary")[1]) == [
        "broker 2 went down",
        "4 partitions have another leader than 2: 4 on 1 (orders)",
        "4 partitions lost 2 from their ISR (orders)",
        "broker 2 is back",
        "4 partitions have 2 in their ISR again (orders)",
        "topic new was created",
        "new-0 came, on 1,2",
    ]


def test_published_events_are_shown_though_the_cluster_was_not_recorded(timeline: Trimtab) -> None:
    with Publisher("told-only") as teller:
        teller.report(Kind.CLIENT, by="probe", text="transport failure", brokers=(2,))
    code, out, err = timeline("--cluster-id", "told-only")
    assert (code, texts(out)) == (0, ["probe: transport failure"])
    assert "This cluster was not recorded" in err
    code, _, err = timeline("--cluster-id", "told-only", "--at", "1m")
    assert code == 2
    assert "Nothing has been recorded yet." in err


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("--kind", "broker"), 2),
        (("--kind", "leader,topic"), 6),
        (("--topics", "new"), 2),
        (("--topics", "new", "--kind", "leader"), 0),
        (("--brokers", "1", "--kind", "leader"), 4),
        (("--brokers", "3"), 0),
        (("--since", "2026-03-01T03:01Z"), 7),
        (("--since", "36525d"), 12),
        (("--since", "2026-03-01T03:01Z", "--until", "2026-03-01T03:01:30Z"), 5),
        (("--last", "3"), 3),
    ],
)
def test_filters_select_only_the_matching_events(timeline: Trimtab, words: Any, count: int) -> None:
    code, out, _ = timeline(*words, "--json")
    assert code == 0
    document = json.loads(out)
    assert len(document) == count
    if not count:
        assert timeline(*words)[1] == "No events.\n"


def test_filters_accept_topics_and_brokers_that_are_gone_or_only_in_events(
    timeline: Trimtab,
) -> None:
    opened = Timeline.write(paths.timeline_file(RECORDED))
    before = cluster([row("old", 0, (5, 1))], seconds=130, brokers=(1, 5))
    opened.append(find_changes(cluster([row("orders", 0, (2, 1))]), before), before)
    after = cluster([row("orders", 0, (2, 1))], seconds=140)
    opened.append(find_changes(before, after), after)
    opened.close()
    note = Note("probe", "timed out", (6,))
    with Publisher(RECORDED) as publisher:
        publisher.publish_all([Event(datetime.now(UTC), Kind.CLIENT, None, note, "told")])
    for words in (
        ("--topics", "old"),
        ("--brokers", "5"),
        ("--topics", "told"),
        ("--brokers", "6"),
    ):
        code, out, _ = timeline(*words, "--json")
        assert (code, bool(json.loads(out))) == (0, True), words


def test_summary_filtered_by_kind_has_only_events_of_that_kind(timeline: Trimtab) -> None:
    assert texts(timeline("--summary", "--kind", "leader")[1]) == [
        "4 partitions have another leader than 2: 4 on 1 (orders)"
    ]


def test_summary_as_json_counts_the_events_of_each_line(timeline: Trimtab) -> None:
    document = json.loads(timeline("--summary", "--json")[1])
    assert [summary["events"] for summary in document] == [1, 4, 4, 1, 4, 1, 1]


@pytest.fixture
def with_a_gap(timeline: Trimtab) -> Any:
    """Ask for the night's timeline; at 04:02 somebody looked again after an hour."""
    opened = Timeline.write(paths.timeline_file(RECORDED))
    before = opened.state_at(at(120))
    assert before is not None
    opened.append([Event(at(3720), Kind.GAP, None, 3600)], replace(before, fetched_at=at(3720)))
    opened.close()
    return timeline


UNSEEN = "Nobody looked from 2026-03-01T03:02:00.000Z to 2026-03-01T04:02:00.000Z."
GAP = "nobody looked for 1 h 00 m: only what lasted is known"


@pytest.mark.parametrize(
    ("words", "shown", "message"),
    [
        (("--since", "03:20Z", "--until", "03:40Z"), "No events.", UNSEEN),
        (("--until", "02:00Z"), "No events.", "Nothing was recorded before"),
        (("--kind", "topic"), "topic new was created", UNSEEN),
        (("--topics", "new"), "topic new was created", UNSEEN),
        (("--kind", "gap"), GAP, ""),
        (("--since", "03:20Z"), GAP, ""),
        (("--until", "03:01Z"), "broker 2 went down", ""),
        (("--at", "03:20Z"), '"alive": true', f"{UNSEEN} This is the cluster as of before that"),
        (("--at", "04:30Z"), '"alive": true', "Recorded until 2026-03-01T04:02:00.000Z"),
        (("--at", "03:00:30Z"), '"alive": false', ""),
    ],
)
def test_unobserved_periods_are_reported_and_not_presented_as_quiet(
    with_a_gap: Any, words: tuple[str, ...], shown: str, message: str
) -> None:
    dated = [f"2026-03-01T{word}" if word.endswith("Z") else word for word in words]
    code, out, err = with_a_gap(*dated)
    assert (code, shown in out) == (0, True), out
    about = [line for line in err.splitlines() if "--until" in words or "Recorded" not in line]
    if message:
        assert message in err
    else:
        assert about == []


def test_only_the_newest_of_many_recording_gaps_are_listed(timeline: Trimtab) -> None:
    opened = Timeline.write(paths.timeline_file(RECORDED))
    for hour in range(1, 6):
        state = cluster([row("orders", 0, (2, 1))], seconds=3600 * hour)
        opened.append([Event(state.fetched_at, Kind.GAP, None, 60)], state)
    opened.close()
    _, _, err = timeline("--kind", "topic", "--until", "2026-03-01T08:00Z")
    first, *rest = err.splitlines()
    assert first == "2 earlier gaps in the recording: --kind gap lists them."
    assert len(rest) == 3


def test_past_cluster_state_is_saved_to_a_file_and_usable_offline(
    timeline: Trimtab, trimtab: Trimtab, tmp_path: Path
) -> None:
    path = tmp_path / "then.json"
    assert timeline("--at", "2026-03-01T03:00:30Z", "-o", str(path))[0] == 0
    document = json.loads(path.read_text())
    validate("cluster", document)
    assert document["fetched_at"] == "2026-03-01T03:00:30.000Z"
    assert {p["leader"] for p in document["partitions"]} == {1}
    assert trimtab("--from", path, "show")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--since", "soon"), "Not a time: 'soon'."),
        (("--since", "25:10"), "Not a time: '25:10'."),
        (("--kind", "brokers"), "There is no kind 'brokers'."),
        (("--topics", "("), "--topics ( is not a regular expression"),
        (("--topics", "order"), "No topic matches order.\nDid you mean orders?"),
        (("--brokers", "one"), "Not broker ids: 'one'."),
        (("--brokers", "2,9"), "No broker 9 was seen.\nThere were 1, 2, 3, 4."),
        (("--at", "2026-03-01T02:00Z"), "was not recorded yet"),
        (("--cluster-id", "another"), "Nothing has been recorded of this cluster"),
    ],
)
def test_invalid_options_are_reported_in_a_sentence(
    timeline: Trimtab, words: Any, message: str
) -> None:
    code, out, err = timeline(*words)
    assert (code, out) == (2, "")
    assert message in err


def test_damaged_timeline_is_reported_in_a_sentence(timeline: Trimtab) -> None:
    damage(paths.timeline_file(RECORDED))
    code, out, err = timeline("--cluster-id", RECORDED)
    assert (code, out) == (1, "")
    assert "The timeline cannot be read or written: database disk image is malformed." in err


def test_cluster_must_be_named_if_several_were_recorded(timeline: Trimtab) -> None:
    record_night("other")
    code, _, err = timeline()
    assert code == 2
    assert f"Give --cluster-id other or {RECORDED}." in err


LEADS = (
    "[2026-03-01 03:00:10,200] INFO [Broker id=1] Leader orders-0 with topic id "
    "Some(zZBg-1TQR2aAmKgVpr87eg) starts at leader epoch 5 from offset 7 with partition epoch 9, "
    "high watermark 7, ISR [1], adding replicas [] and removing replicas [] . Previous leader "
    "Some(2) and previous leader epoch was 4. (state.change.logger)\n"
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "state-change.log"
    path.parent.mkdir()
    path.write_text(LEADS + LEADS.replace("03:00:10", "04:00:10"))
    return path


def test_broker_state_change_logs_are_merged_into_the_recorded_events(
    timeline: Trimtab, log: Path
) -> None:
    code, out, _ = timeline("--statelog", str(log.parent), "--until", "2026-03-01T03:00:11Z")
    assert code == 0
    lines = texts(out)
    assert lines[0] == "broker 2 went down"
    (logged,) = (line for line in lines if line.startswith("log of broker 1: "))
    assert logged == (
        "log of broker 1: orders-0 leads from epoch 5.9, offset 7, ISR 1; before 2, epoch 4"
    )


def test_doubtful_logs_are_reported_and_the_rest_is_shown(timeline: Trimtab, log: Path) -> None:
    (log.parent / "state-change.log.1.gz").write_bytes(gzip.compress(LEADS.encode() * 50)[:-9])
    (log.parent / "state-change.log.2").write_text("no log at all\n")
    log.write_text(log.read_text().replace("Leader orders-0", "Hello orders-0", 1) + LEADS)
    wanted = ("--statelog", str(log.parent), "--until", "2026-03-01T03:02Z")
    code, out, err = timeline(*wanted)
    assert code == ExitCode.INCOMPLETE
    assert "log of broker 1: orders-0 leads" in out
    assert "taken as UTC; --zone says another" in err
    assert "state-change.log.1.gz: the gzip file is cut short or damaged" in err
    assert "state-change.log.2: left out, " in err
    assert "1 of their records are of unknown form" in err
    assert "taken as UTC" not in timeline(*wanted, "--zone", "UTC")[2]


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("--topics", "orders"), 1),
        (("--topics", "new"), 0),
        (("--brokers", "2"), 1),
        (("--brokers", "3"), 0),
        (("--kind", "leader"), 1),
        (("--kind", "broker"), 0),
        (("--since", "2026-03-01T03:00:10.3Z"), 0),
    ],
)
def test_state_change_log_events_are_filtered_like_recorded_events(
    timeline: Trimtab, log: Path, words: tuple[str, ...], count: int
) -> None:
    wanted = ("--statelog", str(log), "--until", "2026-03-01T03:02Z", *words, "--json")
    document = json.loads(timeline(*wanted)[1])
    assert [event["log"] for event in document if event["log"]] == [str(log)] * count


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--statelog", "{log}", "--summary"), "--summary takes no --statelog."),
        (("--statelog", "{log}", "--at", "03:10"), "--at takes no --statelog."),
        (("--at", "03:10", "--summary"), "--at takes no --summary."),
        (("--at", "03:10", "--topics", "new"), "--at takes no --topics."),
        (("--at", "03:10", "--last", "3"), "--at takes no --last."),
        (("--record", "--kind", "leader"), "--record takes no --kind."),
        (("--statelog", "{log}.no"), "There is no "),
        (("--zone", "Europe/Berlin"), "--zone needs --statelog"),
        (("--statelog", "{log}", "--zone", "Nowhere"), "Nowhere"),
    ],
)
def test_incompatible_or_invalid_options_are_refused(
    timeline: Trimtab, log: Path, words: tuple[str, ...], message: str
) -> None:
    code, _, err = timeline(*(word.format(log=log) for word in words))
    assert code == 2
    assert message in err
