"""`plan suggest` on a saved cluster: what it prints and writes, and its exit codes."""

from __future__ import annotations

import json

import pytest
from clusters import cluster, load_of
from offline import MB, Here

from core.cluster.documents.cluster_document import ClusterDocument, document_to_json
from core.errors import ExitCode
from core.plan.copies import Side
from core.plan.estimate.calibration import Calibration, Learned
from core.units import format_bytes, format_duration, parse_rate

ONE_SIDED = {f"t-{n}": ([n % 2, 1 - n % 2], [0, 1], 100 * MB, MB) for n in range(20)}
"""All that there is on brokers 0 and 1 of five."""


def test_suggested_plan_is_reported_and_written_and_passes_check(saved: Here) -> None:
    saved.save_cluster(ONE_SIDED)

    code, out, err = saved.run("plan", "suggest", "-o", str(saved.folder / "plan.json"))

    assert code == ExitCode.DONE
    assert "disk             0% … 250%  100% … 100%" in out
    assert "12 partitions to copy (2.4 GB)" in out
    assert f"trimtab apply {saved.folder / 'plan.json'}" in err
    code, out, _ = saved.run("plan", "check", str(saved.folder / "plan.json"))
    assert code == ExitCode.DONE, out


def test_json_suggestion_holds_the_plan_and_a_reason_for_every_move(saved: Here) -> None:
    saved.save_cluster(ONE_SIDED)

    code, suggestion = saved.json("plan", "suggest", "--drain", "0", "--within", "1h")

    assert code == ExitCode.DONE
    assert suggestion["reached"]
    keys = list(suggestion)  # the sums come before what is long
    assert keys[:4] == ["moves", "leader_moves", "dropped_replicas", "bytes"]
    assert keys[-4:] == ["reasons", "plan", "log_dirs", "allow"]
    planned = suggestion["plan"]["partitions"]
    assert all(0 not in entry["replicas"] for entry in planned)
    assert len(suggestion["reasons"]) == len(planned) == suggestion["moves"] == 20
    assert {
        (reason["broker"], reason["leaves"], reason["before"], reason["after"])
        for reason in suggestion["reasons"]
    } == {(0, True, None, None)}, "who should hold nothing has no share"
    assert suggestion["bytes"] == 20 * 100 * MB
    least, most = suggestion["range_seconds"]
    assert 0 < least < suggestion["seconds"] < most <= 3600
    _, out, _ = saved.run("plan", "suggest", "--drain", "0", "--within", "1h")
    between = f"({format_duration(least)} to {format_duration(most)}) at "
    assert f"; about {format_duration(suggestion['seconds'])} {between}" in " ".join(out.split())


def test_suggestion_of_an_election_does_not_report_that_nothing_helps(saved: Here) -> None:
    held = {f"t-{n}": [1 + (n + k) % 3 for k in range(3)] for n in range(18)}
    state = cluster(held, leaders=dict.fromkeys(held, 1), size_bytes=MB)
    rates = load_of(state, MB)
    document = document_to_json(ClusterDocument(state, rates.in_bytes_per_s, rates.out_bytes_per_s))
    saved.write("cluster.json", document)
    code, out, _ = saved.run("plan", "suggest")
    assert code == ExitCode.NO
    first, *_, last = out.splitlines()
    assert "trimtab elect gives them back." in first
    assert last == "An election comes first: no move is suggested before it."
    assert "helps" not in out


def test_reasons_of_moves_between_remaining_brokers_are_in_fair_shares(saved: Here) -> None:
    saved.save_cluster(ONE_SIDED)
    reasons = saved.json("plan", "suggest")[1]["reasons"]
    assert {reason["leaves"] for reason in reasons} == {False}
    assert all(reason["before"] in (0.0, 2.5) and reason["after"] == 1.0 for reason in reasons)


def test_suggested_time_is_calibrated_by_earlier_runs_and_says_so(
    saved: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved.save_cluster(ONE_SIDED)
    _, unlearned = saved.json("plan", "suggest")
    assert unlearned["calibration"] is None
    learned = dict.fromkeys(Side, Learned(4, 1.1, 1.0))
    monkeypatch.setattr("core.cli.plan.suggest.calibration", lambda _: Calibration(learned))
    _, suggestion = saved.json("plan", "suggest")
    assert suggestion["seconds"] > unlearned["seconds"]
    assert suggestion["calibration"]["runs"] == 4
    assert suggestion["calibration"]["uncalibrated_seconds"] == round(unlearned["seconds"], 1)
    _, out, _ = saved.run("plan", "suggest")
    assert ", learned from 4 runs here: 10 % longer.\n" in out


def test_rate_that_was_not_fully_simulated_is_reported_as_maybe_too_low(
    saved: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved.save_cluster(ONE_SIDED)
    monkeypatch.setattr("core.plan.estimate.rate_table.SIMULATION_SECONDS", 60.0)
    asked = ("plan", "suggest", "--drain", "0", "--time-budget", "60s", "--within")
    code, out, _ = saved.run(*asked, "1h")
    assert code == ExitCode.DONE
    assert "the rate is the least that might do, and may be too low." in out
    code, suggestion = saved.json(*asked, "1h")
    assert code == ExitCode.DONE
    assert suggestion["rate_bytes_per_s"]
    assert any("may be too low" in note for note in suggestion["notes"])
    code, suggestion = saved.json(*asked, "3s")
    assert code == ExitCode.NO
    assert suggestion["never"].startswith("No rate moves 2.0 GB in 3 s")


def test_only_the_topics_in_kafkas_topics_to_move_file_are_moved(saved: Here) -> None:
    saved.save_cluster(ONE_SIDED | {f"t.x-{n}": ([0, 1], [0, 1], 100 * MB, MB) for n in range(9)})
    chosen = saved.folder / "topics.json"
    chosen.write_text('{"version":1,"topics":[{"topic":"t.x"},{"topic":"t.x"}]}')
    code, suggestion = saved.json(
        "plan", "suggest", "--drain", "0", "--topics-to-move", str(chosen)
    )
    assert code == ExitCode.DONE
    planned = suggestion["plan"]["partitions"]
    assert {entry["topic"] for entry in planned} == {"t.x"}
    assert len(planned) == 9


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"version":1,"topics":[{"topic":"nobody"},{"topic":"u"}]}', "topic nobody and 1 more"),
        ('{"version":1,"topics":[]}', "topics.json names no topic."),
        ('{"version":2,"topics":[{"topic":"t"}]}', "topics.json has version 2"),
        ('{"version":1,"partitions":[]}', "the document has no 'topics'"),
        ('{"topics":[{"topic":7}]}', "'topic' of topics[0] is not a text"),
        ("topics: t", "topics.json is not JSON"),
    ],
)
def test_invalid_list_of_topics_to_move_is_refused(saved: Here, text: str, words: str) -> None:
    saved.save_cluster(ONE_SIDED)
    (saved.folder / "topics.json").write_text(text)
    chosen = str(saved.folder / "topics.json")
    code, _, err = saved.run("plan", "suggest", "--topics-to-move", chosen)
    assert code == ExitCode.USAGE
    assert words in err
    code, _, err = saved.run("plan", "suggest", "--topics", "t", "--topics-to-move", chosen)
    assert "exclude each other" in err


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        (("--drain", "0", "--add", "3,4"), {3, 4}),
        (("--replace", "0:2", "--add", "3"), {2, 3}),
        (("--rf", "3", "--drain", "0", "--add", "4,3,2"), {2, 3, 4}),
        (("--drain", "0", "--topics", "t", "--rf", "1"), set()),
        (("--brokers", "2,3"), {2, 3}),
        (("--brokers", "2,3,4", "--rf", "3", "--ignore-racks"), {2, 3, 4}),
    ],
)
def test_intents_of_a_suggestion_can_be_combined(
    saved: Here, arguments: tuple[str, ...], received: set[int]
) -> None:
    saved.save_cluster(ONE_SIDED)
    code, suggestion = saved.json("plan", "suggest", *arguments)
    assert code == ExitCode.DONE, suggestion["notes"]
    planned = [set(entry["replicas"]) for entry in suggestion["plan"]["partitions"]]
    assert {b for held in planned for b in held} - {1} == received


def test_allow_flags_needed_to_apply_are_reported(saved: Here) -> None:
    saved.save_cluster(ONE_SIDED)
    _, _, err = saved.run("plan", "suggest", "--rf", "3")
    assert "then: trimtab apply plan.json --allow rf-change" in err
    assert saved.json("plan", "suggest", "--rf", "3")[1]["allow"] == ["rf-change"]


def test_plan_that_exceeds_broker_capacity_requires_allow_of_capacity(saved: Here) -> None:
    saved.save_cluster(ONE_SIDED, out_capacity_bytes_per_s=5.0 * MB)
    file = str(saved.folder / "plan.json")
    code, _, err = saved.run("plan", "suggest", "--rf", "3", "-o", file)
    assert code == ExitCode.NO
    assert err.rstrip().endswith("--allow rf-change,capacity")
    code, out, _ = saved.run("plan", "check", file)
    assert code == ExitCode.NO
    assert "it can send 5.0 MB/s" in " ".join(out.split())


def test_drain_respects_the_capacity_of_brokers_and_max_replicas(saved: Here) -> None:
    saved.save_cluster(ONE_SIDED, in_capacity_bytes_per_s=5.0 * MB)
    code, out, err = saved.run("plan", "suggest", "--drain", "0")
    assert code == ExitCode.NO
    assert "no broker that could take them can take in or send so much more" in out
    assert "--allow" not in err
    saved.save_cluster(ONE_SIDED)
    code, out, _ = saved.run("plan", "suggest", "--drain", "0", "--max-replicas", "1")
    assert code == ExitCode.NO
    assert "--max-replicas allows no broker that could take them more; raise it." in out


def test_disk_growth_is_estimated_over_the_duration_of_the_plan_as_in_apply(saved: Here) -> None:
    """50 GB arrive beside 75 MB/s: too much for an hour, and not for the minutes that it takes."""
    disk = {"path": "/data", "total_bytes": 1_000_000 * MB, "usable_bytes": 150_000 * MB}
    busy = {"t-0": ([0], [0], 50_000 * MB, 75.0 * MB), "t-1": ([1], [1], 900 * MB, 0.0)}
    saved.save_cluster(busy, log_dirs=[disk])
    file = str(saved.folder / "plan.json")
    asked = ("plan", "suggest", "--replace", "0:3")
    assert saved.json(*asked)[1]["allow"] == []
    _, _, err = saved.run(*asked, "-o", file)
    assert "--allow" not in err
    assert saved.run("plan", "check", file)[0] == ExitCode.DONE
    assert saved.run("plan", "check", file, "--throttle", "300MB/s")[0] == ExitCode.DONE
    code, verdict = saved.json("plan", "check", file, "--throttle", "95MB/s")
    assert (code, verdict["findings"][0]["id"]) == (ExitCode.NO, "disk")


def test_suggested_next_command_includes_the_throttle_of_the_deadline(saved: Here) -> None:
    saved.save_cluster(ONE_SIDED)
    _, _, err = saved.run("plan", "suggest", "--drain", "0", "--within", "1h")
    rate = err.rpartition("--throttle ")[2].strip()
    _, suggestion = saved.json("plan", "suggest", "--drain", "0", "--within", "1h")
    assert parse_rate(rate) >= suggestion["rate_bytes_per_s"]
    assert "--throttle" not in saved.run("plan", "suggest", "--drain", "0")[2]


def test_suggested_next_command_elects_leaders_that_only_an_election_changes(
    saved: Here,
) -> None:
    saved.save_cluster({f"t-{n}": ([0, 1], [0, 1], 100 * MB, MB) for n in range(20)})
    assert "apply plan.json --elect" in saved.run("plan", "suggest", "--leaders")[2]
    assert "--elect" not in saved.run("plan", "suggest", "--drain", "0")[2]


def test_suggestion_reports_brokers_near_capacity_and_peak_extra_disk_usage(saved: Here) -> None:
    capacity = 100 * MB
    busy = {"t-0": ([0, 1], [0, 1], 9_000 * MB, 40.0 * MB), "t-1": ([1, 2], [1, 2], MB, 0.0)}
    saved.save_cluster(busy, in_capacity_bytes_per_s=capacity, out_capacity_bytes_per_s=capacity)
    asked = ("plan", "suggest", "--replace", "1:3", "--topics", "t")
    _, suggestion = saved.json(*asked)
    rate = suggestion["rate_bytes_per_s"]
    near = {"broker": 0, "side": "leader", "fraction": (80 * MB + rate) / capacity}
    assert suggestion["near_capacity"] == near
    (extra,) = suggestion["peak_extra"]
    assert extra["broker"] == 3
    grown = 9_001 * MB + 40 * MB * suggestion["seconds"]
    assert extra["bytes"] == pytest.approx(grown, rel=0.02), "with what is produced meanwhile"
    assert extra["seconds"] < suggestion["seconds"]
    _, out, _ = saved.run(*asked)
    assert f"broker 0 comes to {near['fraction']:.0%} of what it can send" in out
    assert f"disks hold more, at most {format_bytes(extra['bytes'])} on broker 3 after " in out


def test_time_of_a_large_plan_is_reported_as_a_lower_bound(saved: Here) -> None:
    layout = {f"t-{n}": ([0, 1 + n % 2], [0, 1 + n % 2], MB, 10.0) for n in range(1_200)}
    saved.save_cluster(layout)
    code, out, _ = saved.run("plan", "suggest", "--drain", "0")
    assert code == ExitCode.DONE
    assert "1,200 partitions to copy (1.2 GB), 1,200 with another preferred leader; at least" in out
    suggestion = saved.json("plan", "suggest", "--drain", "0")[1]
    sent = 1200 * MB / (suggestion["rate_bytes_per_s"] - 1200 * 2 * 10.0)
    assert 0.2 * sent < suggestion["seconds"] <= sent


def test_balanced_cluster_needs_no_moves(saved: Here) -> None:
    even = {f"t-{n}": ([n % 5, (n + 1) % 5], [n % 5, (n + 1) % 5], MB, MB) for n in range(10)}
    saved.save_cluster(even)
    code, out, _ = saved.run("plan", "suggest", "-o", str(saved.folder / "plan.json"))
    assert (code, out) == (ExitCode.DONE, "Nothing to do: it is so already.\n")
    assert json.loads((saved.folder / "plan.json").read_text())["partitions"] == []


def test_unattainable_balance_goal_is_reported_with_the_best_alternative(
    saved: Here,
) -> None:
    saved.save_cluster({"t-0": ([0], [0], 900 * MB, MB), "t-1": ([0], [0], 100 * MB, MB)})
    code, out, _ = saved.run("plan", "suggest")
    assert code == ExitCode.NO
    assert "t-0 alone is 450% of a broker's share of disk" in out
    assert "Not every broker gets within 10% of its share" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--racks",), "No broker has a rack"),
        (("--drain", "2,3,4,1"), "no other broker is there that holds none of them"),
        (("--drain", "0", "--max-bytes", "250MB"), "--max-bytes allows no more, all of it needs"),
        (("--drain", "0", "--max-moves", "3"), "--max-moves allows no more, all of it needs 20"),
        (("--drain", "0", "--max-per-broker", "3"), "--max-per-broker allows no more"),
        (("--max-moves", "3"), "--max-moves allows no more: all 3 are used"),
        (("--drain", "0", "--within", "1s"), "No rate moves 2.0 GB in 1 s"),
        (("--drain", "0", "--within", "1s"), "Give --within longer, or --max-bytes to plan"),
    ],
)
def test_limit_or_cluster_that_prevents_the_goal_is_named_and_exits_with_6(
    saved: Here, arguments: tuple[str, ...], words: str
) -> None:
    saved.save_cluster(ONE_SIDED)
    code, out, _ = saved.run("plan", "suggest", *arguments)
    assert code == ExitCode.NO
    assert words in out


@pytest.mark.parametrize("more", [("--rf", "1"), ("--rf", "1", "--disks")])
def test_no_shares_are_reported_if_all_brokers_are_drained_or_excluded(
    saved: Here, more: tuple[str, ...]
) -> None:
    saved.save_cluster({"t-0": ([1, 2], [1, 2], 100 * MB, MB)})
    asked = ("plan", "suggest", "--drain", "2", "--exclude", "0,1,3,4", *more)
    code, out, err = saved.run(*asked)
    # What log dirs brokers have is not known here: whether they are even cannot be said.
    assert code == (ExitCode.NO if "--disks" in more else ExitCode.DONE), err
    assert "of a fair share" not in out
    assert "t-0        1,2  1        leaves b2" in out
    code, suggestion = saved.json(*asked)
    assert (suggestion["before"], suggestion["after"]) == ({"brokers": []}, {"brokers": []})


def test_insufficient_disk_for_a_drain_is_reported_with_the_available_space(saved: Here) -> None:
    disk = {"path": "/data", "total_bytes": 1000 * MB, "usable_bytes": 300 * MB}
    saved.save_cluster(ONE_SIDED, log_dirs=[disk])
    code, out, _ = saved.run("plan", "suggest", "--drain", "0")
    assert code == ExitCode.NO
    assert "14 replicas (1.4 GB) stay where they are" in out
    assert "that much disk to fill (0 B at most, 0 B in all)" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--drain", "seven"), "--drain seven: not broker ids."),
        (("--replace", "3"), "--replace 3: not a pair of broker ids."),
        (("--drain", "9"), "There is no broker 9."),
        (("--drain", "1", "--leaders"), "--leaders copies nothing, and --drain has to copy."),
        (("--drain", "1", "--add", "1"), "Take it out of --drain or of --add."),
        (("--max-bytes", "lots"), "Not a size: 'lots'."),
        (("--max-bytes", ""), "--max-bytes is empty."),
        (("--drain", ""), "--drain is empty."),
        (("--keep", "a", "--keep", "b"), "--keep is given 2 times."),
        (("--max-replicas", "1"), "replicas do not fit on"),
        (("--keep", ""), "--keep is empty."),
        (("--within", "0"), "A deadline must be positive."),
        (("--within", "0", "--disks"), "A deadline must be positive."),
        (("--keep", "("), "--keep ( is not a regular expression"),
        (("--keep", "no"), "No topic matches no."),
        (("--keep", "no", "--disks"), "No topic matches no."),
        (("--topics", "no"), "No topic matches no."),
    ],
)
def test_invalid_suggest_options_are_refused_with_a_message(
    saved: Here,
    arguments: tuple[str, ...],
    words: str,
) -> None:
    saved.save_cluster(ONE_SIDED)
    before = saved.cluster.read_text()
    code, out, err = saved.run("plan", "suggest", *arguments)
    assert (code, out) == (ExitCode.USAGE, "")
    assert words in err
    assert "Traceback" not in err
    assert json.loads(before) == json.loads(saved.cluster.read_text())


# -- new topics ----------------------------------------------------------------------------------


def test_new_topic_is_placed_where_there_is_room_and_its_create_command_is_printed(
    saved: Here,
) -> None:
    saved.save_cluster(ONE_SIDED)
    code, out, _ = saved.run("plan", "place", "new", "--partitions", "4", "--rf", "2")
    assert code == ExitCode.DONE
    *_, last = out.strip().splitlines()
    command = "kafka-topics.sh --bootstrap-server HOST:PORT --create --topic new"
    assert last.startswith(f"{command} --replica-assignment ")
    placed = {int(b) for row in last.split()[-1].split(",") for b in row.split(":")}
    assert placed == {2, 3, 4}
    placement = saved.json("plan", "place", "new", "--partitions", "4", "--rule", "kafka")[1]
    assert placement["partitions"][0]["replicas"] == [0, 1, 2]


@pytest.mark.parametrize("rate", ["unlimited", "-1"])
def test_unlimited_rate_is_refused_as_the_expected_rate_of_a_new_topic(
    saved: Here, rate: str
) -> None:
    saved.save_cluster(ONE_SIDED)
    code, out, err = saved.run("plan", "place", "new", "--partitions", "4", f"--in={rate}")
    assert (code, out) == (ExitCode.USAGE, "")
    assert f"{rate} is not a rate here." in err


def test_existing_topic_is_not_placed(saved: Here) -> None:
    saved.save_cluster(ONE_SIDED)
    code, _, err = saved.run("plan", "place", "t", "--partitions", "4")
    assert code == ExitCode.USAGE
    assert "Topic t is there already." in err


def test_empty_partitions_are_drained_within_any_time(saved: Here) -> None:
    saved.save_cluster({f"t-{n}": ([0, 1], [0, 1], 0, 0) for n in range(6)})
    code, suggestion = saved.json("plan", "suggest", "--drain", "0", "--within", "30s")
    assert (code, suggestion["never"]) == (ExitCode.DONE, None)
    assert 0 < suggestion["seconds"] < 30
    assert suggestion["rate_bytes_per_s"] > 0


def test_unknown_duration_is_not_reported_as_never(saved: Here) -> None:
    sized = {f"t-{n}": ([0, 1], [0, 1], 100 * MB, 0) for n in range(5)}
    saved.save_cluster(sized | {"t-5": ([0, 1], [0, 1], None, 0)})
    for within in ((), ("--within", "10m")):
        asked = ("plan", "suggest", "--drain", "0", *within)
        code, out, _ = saved.run(*asked)
        assert code == ExitCode.DONE
        assert "; how long it takes is not known.\n" in out
        assert "The size of t-5 is not known.\n" in out
        code, suggestion = saved.json(*asked)
        assert (code, suggestion["seconds"], suggestion["never"]) == (ExitCode.DONE, None, None)
        assert suggestion["rate_bytes_per_s"] is None
        assert "The size of t-5 is not known." in suggestion["notes"]


def test_copies_of_unknown_size_are_not_reported_as_zero_bytes(saved: Here) -> None:
    saved.save_cluster({f"t-{n}": ([0, 1], [0, 1], None, MB) for n in range(6)})
    _, out, _ = saved.run("plan", "suggest", "--drain", "0")
    assert "6 partitions to copy (nobody knows how much)" in out
    _, suggestion = saved.json("plan", "suggest", "--drain", "0")
    assert suggestion["bytes"] is None


def test_plan_that_catches_up_at_no_rate_is_reported_as_never(saved: Here) -> None:
    busy = {f"t-{n}": ([0, 1], [0, 1], 100_000 * MB, 400.0 * MB) for n in range(2)}
    saved.save_cluster(busy, in_capacity_bytes_per_s=450 * MB)
    code, out, _ = saved.run("plan", "suggest", "--drain", "0")
    assert code == ExitCode.NO
    assert "never catches up" in out
    code, suggestion = saved.json("plan", "suggest", "--drain", "0")
    assert code == ExitCode.NO
    assert "never catches up" in suggestion["never"]
    assert suggestion["seconds"] is None


EVEN = {f"t-{n}": ([n % 5, (n + 1) % 5], [n % 5, (n + 1) % 5], MB, MB) for n in range(10)}


@pytest.mark.parametrize("options", [(), ("--disks",)])
def test_older_plan_file_is_replaced_by_an_empty_plan_if_nothing_is_to_do(
    saved: Here, options: tuple[str, ...]
) -> None:
    saved.save_cluster(EVEN)
    file = saved.folder / "plan.json"
    file.write_text("an older plan")
    _, _, err = saved.run("plan", "suggest", *options, "-o", str(file))
    assert err == f"Written to {file}: an empty plan; there is nothing to apply.\n"
    assert json.loads(file.read_text())["partitions"] == []
    code, _, err = saved.run("estimate", str(file))
    assert code == ExitCode.USAGE
    assert "has no partitions" in err


def test_replicas_that_are_dropped_are_counted(saved: Here) -> None:
    saved.save_cluster(EVEN)
    file = str(saved.folder / "plan.json")
    _, out, _ = saved.run("plan", "suggest", "--rf", "1", "-o", file)
    assert ", 10 replicas dropped." in out
    _, suggestion = saved.json("plan", "suggest", "--rf", "1")
    assert (suggestion["moves"], suggestion["dropped_replicas"]) == (0, 10)
    _, out, _ = saved.run("plan", "show", file)
    assert out.endswith(", 10 replicas dropped.\n")
    _, shown = saved.json("plan", "show", file)
    assert shown["dropped_replicas"] == 10
    assert "dropped" not in saved.run("plan", "suggest", "--drain", "0")[1]


def test_whole_json_answer_used_as_a_plan_is_recognized_and_explained(saved: Here) -> None:
    saved.save_cluster(EVEN)
    file = str(saved.folder / "answer.json")
    saved.run("plan", "suggest", "--drain", "0", "--json", "-o", file)
    code, _, err = saved.run("plan", "check", file)
    assert code != ExitCode.DONE
    assert 'answer.json has its plan under "plan"' in err
    assert "without --json" in err


def test_unknown_production_is_reported_for_copies_between_log_dirs(saved: Here) -> None:
    dirs = [{"path": path, "total_bytes": 10**9, "usable_bytes": 10**9} for path in ("/a", "/b")]
    held = {"leader": 1, "replicas": [1]}
    detail = [{"broker": 1, "size_bytes": MB, "log_dir": "/a"}]
    rows = [{"topic": "t", "partition": n} | held | {"replica_detail": detail} for n in range(4)]
    saved.write("cluster.json", {"brokers": [{"id": 1, "log_dirs": dirs}], "partitions": rows})
    code, suggestion = saved.json("plan", "suggest", "--disks")
    assert (code, suggestion["moves"]) == (ExitCode.DONE, 2)
    assert any(note.startswith("What is produced to ") for note in suggestion["notes"])
