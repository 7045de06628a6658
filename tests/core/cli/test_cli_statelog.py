"""`trimtab statelog merge`: what it prints, writes, refuses, and how it ends."""

from __future__ import annotations

import gzip
import io
import json
import os
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from in_process import Trimtab

from core.cli.timeline import statelog
from core.cli.timeline.statelog import parse_numbers
from core.errors import ExitCode, UsageError
from core.watch.statelog.files import LogFile

LEADER = (
    "Leader t-0 with topic id Some(zZBg-1TQR2aAmKgVpr87eg) starts at leader epoch 1 from offset 12 "
    "with partition epoch 3, high watermark 0, ISR [2,3], adding replicas [] and removing replicas "
    "[] . Previous leader Some(1) and previous leader epoch was 0."
)
FOLLOWER = (
    "Follower t-0 starts at leader epoch 1 from offset 0 with partition epoch 3 and high watermark "
    "0. Current leader is 2. Previous leader Some(1) and previous leader epoch was 0."
)
SUFFIX = "(state.change.logger)"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two brokers' logs: one plain, one gz; an unknown line, a stack trace."""
    folder = tmp_path / "logs"
    (folder / "broker-2").mkdir(parents=True)
    (folder / "broker-3").mkdir()
    (folder / "broker-2" / "state-change.log").write_text(
        f"[2026-01-31 02:00:00,000] INFO [Broker id=2] {LEADER} {SUFFIX}\n"
        f"[2026-01-31 02:00:09,000] ERROR [Broker id=2] Error while processing LeaderAndIsr request"
        f" correlationId 3 received from controller 1 epoch 1 for partition t-0 {SUFFIX}\n"
        "java.io.IOException: no \x1b[31mroom\n\tat kafka.log.Log.append\n"
    )
    (folder / "broker-3" / "state-change.log.2026-01-31-02.gz").write_bytes(
        gzip.compress(
            f"[2026-01-31 02:00:00,020] INFO [Broker id=3] {FOLLOWER} {SUFFIX}\n"
            f"[2026-01-31 02:00:01,000] INFO [Broker id=3] Hello (kafka.server.Hello)\n".encode()
        )
    )
    return folder


@pytest.fixture
def merge(trimtab: Trimtab) -> Trimtab:
    return partial(trimtab, "statelog", "merge")


def test_merge_prints_one_line_per_event_and_a_summary_with_clock_offsets(
    logs: Path, merge: Trimtab
) -> None:
    code, out, err = merge(logs)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "2026-01-31T02:00:00.000Z  broker 2       leader    t-0                       "
        "leads from epoch 1.3, offset 12, ISR 2,3; before 1, epoch 0",
        "2026-01-31T02:00:00.020Z  broker 3       follower  t-0                       "
        "follows 2 from epoch 1.3, offset 0; before 1, epoch 0",
        "2026-01-31T02:00:09.000Z  broker 2       failed    t-0                       "
        "Error while processing LeaderAndIsr request correlationId 3 received from controller 1 "
        "epoch 1 for partition t-0",
        "    java.io.IOException: no \ufffd[31mroom",
        "     at kafka.log.Log.append",
        "",
        "# 2 files, 6 lines: 3 events",
        "# 1 of unknown form; --all shows them",
        "# from 2026-01-31T02:00:00.000Z to 2026-01-31T02:00:09.000Z, 9.0 s",
        "# times without a zone are taken as UTC; --zone says another",
        "# clocks, told by changes that several brokers applied (each also takes its time):",
        "#   broker 2: +0.000 s, 1 common moment, unsure",
        "#   broker 3: +0.020 s, 1 common moment, unsure",
    ]


def test_all_option_shows_records_of_unknown_form(logs: Path, merge: Trimtab) -> None:
    _, out, _ = merge(logs, "--all")
    assert "broker 3       unknown                             Hello\n" in out
    assert "# 1 of unknown form\n" in out


def documents(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_json_documents_hold_every_event_and_a_summary(logs: Path, merge: Trimtab) -> None:
    *events, last = documents(merge(logs, "--json", "--all")[1])
    assert [event["kind"] for event in events] == ["leader", "follower", "unknown", "failed"]
    assert {key: events[0][key] for key in ("topic", "partition", "isr", "leader_epoch")} == {
        "topic": "t",
        "partition": 0,
        "isr": [2, 3],
        "leader_epoch": 1,
    }
    assert events[3]["more"] == [
        "java.io.IOException: no \x1b[31mroom",
        "\tat kafka.log.Log.append",
    ]
    summary = last["summary"]
    assert (summary["lines"], summary["events"], summary["unknown"]) == (6, 4, 1)
    assert summary["not_understood"] == 0  # another logger's
    assert [row["broker"] for row in summary["offsets"]] == [2, 3]


def test_output_file_is_written_whole_and_nothing_is_printed(
    logs: Path, merge: Trimtab, tmp_path: Path
) -> None:
    printed = merge(logs)[1]
    answer = tmp_path / "story.txt"
    assert merge(logs, "-o", answer) == (0, "", "")
    assert answer.read_text() == printed
    assert not list(tmp_path.glob(".tmp-*"))


@pytest.mark.parametrize(
    ("words", "times"),
    [
        (["--from", "2026-01-31 02:00:00,020"], [".020", ".000"]),
        (["--to", "2026-01-31T03:00:00.020+01:00"], [".000"]),
        (["--topic", "t", "--partitions", "0"], [".000", ".020", ".000"]),
    ],
)
def test_events_are_filtered_by_time_topic_and_partition(
    words: list[str], times: list[str], logs: Path, merge: Trimtab
) -> None:
    lines = merge(logs, *words)[1].splitlines()
    assert [line[19:23] for line in lines if line.startswith("2026")] == times


def test_search_without_a_match_is_reported(logs: Path, merge: Trimtab) -> None:
    log = logs / "broker-2" / "state-change.log"
    log.write_text(log.read_text().replace(" t-0 ", " orders-0 "))
    _, out, err = merge(logs, "--topic", "orders", "--partitions", "7")
    assert out.startswith("# Nothing matched.\n")
    assert err == "Nothing matched, of 2 topics in the wanted time.\n"
    for form in ((), ("--json",)):
        code, _, err = merge(logs, "--topic", "ordres", *form)
        assert code == ExitCode.NO
        assert err == "Nothing matched, of 2 topics in the wanted time. Did you mean orders?\n"


def test_truncated_log_is_reported_and_the_remaining_logs_are_merged(
    logs: Path, merge: Trimtab
) -> None:
    packed = logs / "broker-3" / "state-change.log.2026-01-31-02.gz"
    packed.write_bytes(packed.read_bytes()[:-12])
    code, out, _ = merge(logs)
    assert code == ExitCode.INCOMPLETE
    assert f"# {packed}: the gzip file is cut short or damaged, after " in out
    assert "broker 2       leader " in out


def test_align_shifts_events_by_the_reliable_clock_offset_of_a_broker(
    tmp_path: Path, merge: Trimtab
) -> None:
    for broker, second in ((1, 0), (2, 30)):
        log = tmp_path / f"{broker}" / "state-change.log"
        log.parent.mkdir()
        text = FOLLOWER.replace("epoch 1", "epoch {0}").replace("was 0", "was {0}")
        log.write_text(
            "".join(
                f"[2026-01-31 02:{n:02}:{second:02},000] INFO [Broker id={broker}] "
                f"{text.format(n)} {SUFFIX}\n"
                for n in range(1, 6)
            )
        )
    events = documents(merge(tmp_path, "--align", "--json")[1])[:-1]
    assert len({event["at"] for event in events}) == 5
    output = merge(tmp_path, "--align")[1]
    assert "; shifted by " in output
    assert "+30.000 s" in output or "-30.000 s" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "There is no nowhere."),
        (["."], "There is no state-change.log in ."),
        (["logs", "--topic", "("], "--topic ( is not a regular expression"),
        (["logs", "--partitions", "a"], "Not partitions: 'a'."),
        (["logs", "--partitions", "5-3"], "Not a range of partitions: 5-3."),
        (["logs", "--from", "yesterday"], "Not a time: 'yesterday'."),
        (["logs", "--from", "2026-02-01", "--to", "2026-01-01"], "is not before --to"),
        (["logs", "--zone", "Nowhere"], "--zone Nowhere: no time zone"),
        (["logs", "-o", "no/such/folder.txt"], "Cannot write no/such/folder.txt"),
    ],
)
def test_invalid_arguments_and_paths_are_reported_as_usage_errors(
    words: list[str],
    message: str,
    logs: Path,
    merge: Trimtab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    if words[0] == "logs":
        (empty / "logs").symlink_to(logs)
    code, out, err = merge(*words)
    assert (code, out) == (ExitCode.USAGE, "")
    assert message in err
    assert 2 <= len(err.splitlines()) <= 3


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stdout", "output", "shown"),
    [
        (io.StringIO, None, "merging: 40% of 500 B"),
        (Terminal, None, ""),  # the events are progress enough
        (Terminal, Path("story.txt"), "merging: 40% of 500 B"),
    ],
)
def test_progress_is_shown_unless_events_are_printed_to_the_terminal(
    stdout: type[io.StringIO], output: Path | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("sys.stdout", stdout())
    monkeypatch.setattr(statelog, "PROGRESS_SECONDS", 0.0)
    source = LogFile(Path("a"), 0, 500, UTC, 1, 0, read_bytes=200)
    progress = statelog.Progress((source,), output, "merging")
    progress.at(1)  # not looked at: too few events since the last look
    assert terminal.getvalue() == ""
    progress.at(4096)
    assert terminal.getvalue().removeprefix("\r\033[2K") == shown
    progress.end()
    assert terminal.getvalue().endswith("\r\033[2K" if shown else "")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_log_file_with_an_unprintable_name_is_merged(
    form: tuple[str, ...], tmp_path: Path, merge: Trimtab
) -> None:
    name = os.fsdecode(b"state-change.log.\x1b]0;x\x07\xc2\x9b\xff")
    (tmp_path / name).write_text(f"[2026-01-31 02:00:00,000] INFO [Broker id=2] {LEADER} {SUFFIX}")
    code, out, _ = merge(tmp_path, *form)
    assert code == ExitCode.DONE
    assert "its last line is cut short" in out
    assert all(line.isprintable() for line in out.split("\n"))
    assert merge(tmp_path, *form, "-o", tmp_path / "story")[0] == ExitCode.DONE
    if form:
        summary = json.loads((tmp_path / "story").read_text().splitlines()[-1])["summary"]
        assert summary["files"][0]["file"] == str(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        "[Broker id={}] Hello",
        "[Controller id=1 epoch={}] Changed partition t-0 state",
        "[Partition t-{} broker=1] Hello",
        "[Broker id=1] Leader t-{} starts at leader epoch 1 from offset 0. Previous leader epoch "
        "was 0",
        "[Broker id=1] Mark replicas t-{},t-1 on broker 1 as offline",
    ],
)
def test_oversized_number_in_a_record_does_not_break_the_merge(
    text: str, tmp_path: Path, merge: Trimtab
) -> None:
    log = tmp_path / "state-change.log"
    lines = [text.replace("{}", "7" * 5_000), f"[Broker id=2] {LEADER}"]
    log.write_text("".join(f"[2026-01-31 02:00:00,000] INFO {t} {SUFFIX}\n" for t in lines))
    code, out, _ = merge(log, "--all", "--partitions", "0-1")
    # One of two lines may be of no known form then.
    assert code in (ExitCode.DONE, ExitCode.INCOMPLETE)
    assert "leads from epoch 1.3" in out


def test_many_records_that_are_not_understood_make_the_answer_incomplete(
    tmp_path: Path, merge: Trimtab
) -> None:
    log = tmp_path / "state-change.log"
    texts = [f"[Broker id=2] {LEADER}", "[Broker id=2] What is new"]
    log.write_text("".join(f"[2026-01-31 02:00:00,000] INFO {t} {SUFFIX}\n" for t in texts))
    assert merge(log)[0] == ExitCode.INCOMPLETE
    code, out, _ = merge(log, "--json")
    assert code == ExitCode.INCOMPLETE
    assert documents(out)[-1]["summary"]["not_understood"] == 1


def test_partition_numbers_and_ranges_are_parsed() -> None:
    assert parse_numbers("0, 3-5") == {0, 3, 4, 5}
    for text in ("", "1-", "-1", "1,,2", "0-99999999"):
        with pytest.raises(UsageError):
            parse_numbers(text)
