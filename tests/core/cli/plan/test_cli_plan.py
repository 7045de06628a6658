"""`plan`, `estimate` and `verify` on a saved cluster: what they print, and their exit codes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from clusters import cluster, load_of
from offline import MB

from core.cli.plan.estimate import DISKS, LANES
from core.cluster.documents.cluster_document import ClusterDocument, document_to_json
from core.errors import ExitCode
from core.plan.copies import Side
from core.plan.estimate.calibration import Calibration, Learned
from core.units import format_bytes


def test_check_of_a_plan_without_findings_succeeds(saved):
    free = [{"path": "/d", "total_bytes": 100 * MB, "usable_bytes": 90 * MB}]
    saved.save_cluster({"t-0": ([0, 1], [0, 1], MB, 0.0)}, log_dirs=free)
    code, out, _ = saved.run("plan", "check", saved.plan(t0=[0, 2]))
    assert code == ExitCode.DONE
    assert out.startswith("1 move, no findings.\nChecked at ")


def test_check_reports_the_brokers_it_could_not_compare(saved):
    saved.save_cluster({"t-0": ([0, 1], [0, 1], MB, 0.0)})
    plan = saved.plan(t0=[0, 2])
    assert "the disks of broker 2 is not known: not compared" in saved.run("plan", "check", plan)[1]
    blind = saved.json("plan", "check", plan)[1]["not_compared"]
    assert blind == [{"id": "disk", "brokers": [2]}, {"id": "capacity", "brokers": [0, 2]}]


def test_check_lists_the_worst_finding_first_and_exits_with_no(saved):
    code, out, _ = saved.run("plan", "check", saved.plan(t0=[0, 1, 2], t1=[1]))
    assert code == ExitCode.NO
    assert out.startswith("unsafe  rf-change\n")
    assert "refused, unless --allow rf-change" in out
    assert max(map(len, out.splitlines())) <= 80


def test_allowed_finding_does_not_refuse_the_plan(saved):
    plan = saved.plan(t0=[0, 1, 2])
    assert saved.run("plan", "check", plan, "--allow", "rf-change")[0] == ExitCode.DONE
    code, document = saved.json("plan", "check", plan, "--allow", "rf-change")
    assert (code, document["ok"]) == (ExitCode.DONE, True)
    assert document["findings"][0] == {
        "id": "rf-change",
        "severity": "unsafe",
        "sentence": "t-0: from 2 replicas to 3.",
        "allowed": True,
        "partitions": [{"topic": "t", "partition": 0}],
    }


def test_check_at_too_low_a_rate_reports_never(saved):
    code, document = saved.json("plan", "check", saved.plan(t0=[0, 2]), "--throttle", "1MB/s")
    assert code == ExitCode.NO
    assert "never" in [finding["id"] for finding in document["findings"]]


def test_show_sorts_by_relief_per_byte_and_names_the_relieved_broker(saved):
    code, out, _ = saved.run("plan", "show", saved.plan(t0=[1, 0], t1=[1, 3], t2=[2, 4]))
    assert code == ExitCode.DONE
    assert out.splitlines() == [
        "partition  now  planned  copies  for",
        "t-0        0,1  1,0           -  b0 in 500% → 0%",
        "t-2        2,0  2,4       10 MB  b0 disk 172% → 156%",
        "t-1        1,2  1,3       50 MB  b2 disk 94% → 16%",
        "3 partitions: 2 to copy (60 MB), 1 with another preferred leader.",
    ]


def test_show_reports_the_reasons_with_which_the_plan_was_created(saved):
    layout = {f"t-{n}": ([0, 1], [0, 1], (n + 1) * MB, 0.0) for n in range(6)}
    saved.save_cluster(layout)
    file = str(saved.folder / "suggested.json")
    saved.run("plan", "suggest", "--drain", "0", "-o", file)
    _, suggestion = saved.json("plan", "suggest", "--drain", "0")
    _, shown = saved.json("plan", "show", file)
    assert {move["because"] for move in shown["partitions"]} == {"leaves b0"}
    assert len(shown["partitions"]) == len(suggestion["reasons"])
    relieved = [move["relieves"] for move in shown["partitions"]]
    assert {(relief["broker"], relief["measure"], relief["after"]) for relief in relieved} == {
        (0, "disk", 0)
    }
    for form in ((), ("--format", "markdown"), ("--format", "csv")):
        _, out, _ = saved.run("plan", "show", file, *form)
        assert out.count("leaves b0") == 6
    _, alone, _ = saved.run("plan", "show", file, offline=False)
    assert alone.count("leaves b0") == 6, "the file says it, no cluster is needed"
    saved.run("plan", "inverse", file, "-o", file)
    assert {move["because"] for move in saved.json("plan", "show", file)[1]["partitions"]} == {None}


def test_show_without_a_cluster_and_reasons_has_no_column_for_them(saved):
    plan = saved.plan(t1=[1, 3])
    saved.run("plan", "inverse", plan, "-o", str(saved.folder / "back.json"))
    _, out, _ = saved.run("plan", "show", str(saved.folder / "back.json"), offline=False)
    assert out.splitlines()[0] == "partition  now  planned  copies"


def test_show_as_json_reports_moves_bytes_and_added_replicas(saved):
    _, document = saved.json("plan", "show", saved.plan(t0=[1, 0], t1=[1, 3]))
    assert (document["moves"], document["leader_moves"], document["bytes"]) == (1, 1, 50 * MB)
    assert document["partitions"][1]["adding"] == [3]


def test_show_as_csv_for_a_spreadsheet(saved):
    _, out, _ = saved.run("plan", "show", saved.plan(t0=[1, 0], t1=[1, 3]), "--format", "csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert [(row["topic"], row["partition"]) for row in rows] == [("t", "0"), ("t", "1")]
    reordered, moved = rows
    assert (moved["after"], moved["adding"], moved["after_leader"]) == ("1,3", "3", "1")
    assert int(moved["bytes"]) > 0
    assert (reordered["bytes"], reordered["adding"]) == ("0", "")
    assert (reordered["relieves_broker"], reordered["relieves_measure"]) == ("0", "in")
    assert (reordered["because"], reordered["relieves_after"]) == ("", "0.0")


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ('=HYPERLINK("http://x")', """'=HYPERLINK("http://x")"""),
        ("\t=1+1", "' =1+1"),
        ("disk\x1b]0;x\x07 full", "disk\ufffd]0;x\ufffd full"),
        ("disk full", "disk full"),
    ],
)
def test_text_of_a_plan_file_is_never_a_formula_in_a_spreadsheet(saved, tmp_path, reason, shown):
    plan = json.loads(Path(saved.plan(t1=[1, 3])).read_text())
    reason = {"because": reason}
    base = [entry | {"replicas": [1, 2]} | reason for entry in plan["partitions"]]
    plan["trimtab"] = {"format": "trimtab.plan/1", "base": base}
    (tmp_path / "because.json").write_text(json.dumps(plan))
    code, out, _ = saved.run("plan", "show", str(tmp_path / "because.json"), "--format", "csv")
    assert code == ExitCode.DONE
    (row,) = csv.DictReader(out.splitlines())
    assert row["because"] == shown


def test_notes_of_a_plan_file_are_escaped_in_a_markdown_ticket(saved, tmp_path):
    plan = json.loads(Path(saved.plan(t1=[1, 3])).read_text())
    plan["trimtab"] = {"format": "trimtab.plan/1", "notes": ["<img src=x>\n# [a](http://x)"]}
    (tmp_path / "noted.json").write_text(json.dumps(plan))
    _, out, _ = saved.run("plan", "show", str(tmp_path / "noted.json"), "--format", "markdown")
    assert "&lt;img src=x> # \\[a](http://x)" in out.splitlines()


def test_show_as_markdown_for_a_ticket(saved, tmp_path):
    plan, ticket = saved.plan(t0=[1, 0], t1=[1, 3]), tmp_path / "ticket.md"
    saved.run("plan", "show", plan, "--format", "markdown", "-o", str(ticket))
    first, rule, *rows = ticket.read_text().splitlines()
    assert first == "| partition | now | planned | copies | for |"
    assert rule == "|---|---|---|---:|---|"
    assert [row.split("|")[1].strip() for row in rows[:2]] == ["t-0", "t-1"]
    assert rows[-1].startswith("2 partitions: 1 to copy")


def test_two_output_formats_at_once_are_refused(saved):
    code, _, err = saved.run("plan", "show", saved.plan(t0=[1, 0]), "--format", "csv", "--json")
    assert code == 2
    assert "--format and --json exclude each other" in err


def test_diff_shows_the_partitions_that_are_not_as_planned(saved):
    code, out, _ = saved.run("plan", "diff", saved.plan(t0=[0, 1], t1=[1, 3]))
    assert code == ExitCode.DONE
    assert out.splitlines() == [
        "partition  now  planned",
        "t-1        1,2  1,3      different",
        "1 partition differs.",
    ]


def test_diff_of_two_plans_lists_the_partitions_that_differ(saved):
    first_plan = saved.plan("a.json", t0=[1, 0], t1=[1, 3])
    two = saved.plan("b.json", t0=[1, 0], t2=[2, 4])
    assert saved.run("plan", "diff", first_plan, two, offline=False)[1].splitlines() == [
        "partition  a.json  b.json",
        "t-1        1,3     -",
        "t-2        -       2,4",
        "2 partitions differ.",
    ]
    assert saved.run("plan", "diff", first_plan, first_plan, offline=False)[1] == "No difference.\n"


def test_inverse_of_an_inverse_restores_the_plan_file(saved):
    there = saved.plan(t0=[0, 3], t1=[2, 1])
    ours = saved.folder / "ours.json"
    back, again = saved.folder / "back.json", saved.folder / "again.json"
    saved.run("plan", "inverse", there, "-o", str(back))
    saved.run("plan", "inverse", str(back), "-o", str(ours), offline=False)
    saved.run("plan", "inverse", str(ours), "-o", str(again), offline=False)
    assert back.read_text() == again.read_text()
    rows = json.loads(ours.read_text())["partitions"]
    assert [row["replicas"] for row in rows] == [[0, 3], [2, 1]]


def test_inverse_of_a_plain_file_needs_the_cluster(saved):
    code, out, err = saved.run("plan", "inverse", saved.plan(t0=[0, 3]), offline=False)
    assert (code, out) == (ExitCode.USAGE, "")
    assert "Name the cluster" in err


def test_estimate_at_a_rate_reports_the_time_range_and_the_limiting_broker(saved):
    code, document = saved.json("estimate", saved.plan(t1=[1, 3]), "--throttle", "10MB/s")
    assert code == ExitCode.DONE
    low, high = document["range_seconds"]
    assert low < document["seconds"] < high
    assert document["total_bytes"] == 50 * MB
    assert document["limit"] == {"broker": 1, "side": "leader"}
    code, out, _ = saved.run("estimate", saved.plan(t1=[1, 3]), "--throttle", "10MB/s")
    assert out.startswith("50 MB at 10 MB/s: about ")
    assert max(map(len, out.splitlines())) <= 80


def test_estimate_with_max_extra_takes_no_less_time(saved):
    plan = saved.plan(t0=[0, 2], t1=[1, 3])
    _, whole = saved.json("estimate", plan, "--throttle", "10MB/s")
    _, parts = saved.json("estimate", plan, "--throttle", "10MB/s", "--max-extra", "1MB")
    assert parts["seconds"] >= whole["seconds"]
    code, _, err = saved.run("estimate", plan, "--throttle", "10MB/s", "--max-extra", "much")
    assert code == 2
    assert "much" in err


def loaded(saved):
    """Save brokers of 100 MB/s; broker 1 sends 60 MB/s to its follower and its readers."""
    saved.save_cluster(
        {"t-0": ([0, 1], [0, 1], 100 * MB, 0.0), "t-1": ([1, 2], [1, 2], 50 * MB, 30.0 * MB)},
        in_capacity_bytes_per_s=100 * MB,
        out_capacity_bytes_per_s=100 * MB,
    )
    return saved.plan(t1=[1, 3])


def test_estimate_reports_brokers_near_capacity_and_peak_extra_disk_usage(saved):
    plan = loaded(saved)
    code, document = saved.json("estimate", plan, "--throttle", "90MB/s")
    assert code == ExitCode.DONE
    assert document["near_capacity"] == {"broker": 1, "side": "leader", "fraction": 1.5}
    (extra,) = document["peak_extra"]
    assert extra["broker"] == 3
    grown = 50 * MB + 30 * MB * document["seconds"]
    assert extra["bytes"] == pytest.approx(grown, rel=0.02), "with what is produced meanwhile"
    assert 1.8 < extra["seconds"] < document["seconds"]
    _, out, _ = saved.run("estimate", plan, "--throttle", "90MB/s")
    words = " ".join(out.split())
    assert "broker 1 comes to 150% of what it can send: clients there may wait longer." in words
    assert f"Meanwhile disks hold more, at most {format_bytes(extra['bytes'])} on broker 3" in words


def test_estimate_shows_the_load_of_each_broker_over_time(saved):
    plan = loaded(saved)
    _, document = saved.json("estimate", plan, "--throttle", "90MB/s")
    timeline = document["timeline"]
    assert len(timeline["batches_seconds"]) == 1
    first, second = timeline["lanes"]
    assert (first["broker"], first["side"]) == (1, "leader")
    assert (second["broker"], second["side"]) == (3, "follower")
    assert first["besides_bytes_per_s"] == 60 * MB
    assert first["capacity_bytes_per_s"] == 100 * MB
    assert first["ends_seconds"] == pytest.approx(document["seconds"] - 0.8, abs=0.1)
    assert any(step["near_capacity"] for step in first["steps"])
    _, out, _ = saved.run("estimate", plan, "--throttle", "90MB/s")
    lanes = out[out.index("Over time") :]
    assert max(map(len, out.splitlines())) <= 80
    assert lanes.isascii()
    assert "! is 80% of capacity or more." in " ".join(lanes.split())
    sends = next(line for line in lanes.splitlines() if " sends " in line)
    assert sends.split()[0] == "1"
    assert "!!|" in sends


def test_estimate_draws_the_growth_of_disk_usage_over_time(saved):
    plan = loaded(saved)
    _, document = saved.json("estimate", plan, "--throttle", "90MB/s")
    (disk,) = document["timeline"]["disks"]
    assert disk["broker"] == 3
    most = document["peak_extra"][0]["bytes"]
    assert disk["points"][-1]["more_bytes"] == most
    _, out, _ = saved.run("estimate", plan, "--throttle", "90MB/s")
    assert f", on disks of {format_bytes(most)} more" in " ".join(out.split())
    (drawn,) = (line for line in out.splitlines() if " disk " in line)
    assert drawn.split()[:5] == ["3", "disk", *f"+{format_bytes(most)}".split(), "?"]
    lane = drawn[drawn.index("|") + 1 : drawn.rindex("|")].strip()
    assert lane[-1] == "#"
    assert "".join(sorted(lane, key=".:+#".index)) == lane  # it only grows


def test_table_of_rates_shows_the_default_rate_over_time(saved):
    plan = loaded(saved)
    _, document = saved.json("estimate", plan)
    chosen = next(
        row
        for row in document["rates"]
        if row["rate_bytes_per_s"] == document["default_bytes_per_s"]
    )
    last = max(lane["ends_seconds"] for lane in document["timeline"]["lanes"])
    assert last == pytest.approx(chosen["seconds"] - 0.8, abs=0.1)
    _, out, _ = saved.run("estimate", plan)
    assert "Over time" in out


def test_many_brokers_are_summarized_in_few_lines(saved):
    ring = {f"t-{n}": [n, (n + 1) % 5] for n in range(5)}
    saved.save_cluster({name: (held, held, 100 * MB, 0.0) for name, held in ring.items()})
    plan = saved.plan(**{f"t{n}": [n, (n + 2) % 5] for n in range(5)})
    _, out, _ = saved.run("estimate", plan, "--throttle", "10MB/s")
    lanes = out[out.index("Over time") :]
    drawn = [line for line in lanes.splitlines() if "|" in line]
    disks = [line for line in drawn if " disk " in line]
    assert (len(drawn), len(disks)) == (LANES + DISKS, DISKS)
    assert "The disks of 1 more, at most +100 MB." in lanes
    assert f"{10 - LANES} more, the last of them until" in lanes


def test_table_of_rates_reports_the_first_rate_near_capacity_of_a_broker(saved):
    plan = loaded(saved)
    _, document = saved.json("estimate", plan)
    first = next(row for row in document["rates"] if row["near_capacity"])
    _, out, _ = saved.run("estimate", plan)
    rate, fraction = first["rate_bytes_per_s"] // MB, first["near_capacity"]["fraction"]
    assert f"At {rate} MB/s broker 1 comes to {fraction:.0%} of what it can send;" in out
    begin = next(
        row
        for row in document["rates"]
        if row["rate_bytes_per_s"] == document["default_bytes_per_s"]
    )
    most = format_bytes(begin["peak_extra"][0]["bytes"])
    assert f"disks hold more, at most {most} on broker 3 after " in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_estimate_of_a_plan_that_never_completes_exits_with_no(saved):
    asked = ("estimate", saved.plan(t0=[0, 2]), "--throttle", "1MB/s")
    code, out, _ = saved.run(*asked)
    assert code == ExitCode.NO
    assert out.startswith("Never. Broker 0 has to send 1.4 MB/s")
    assert saved.json(*asked)[1]["timeline"] is None


def test_estimate_within_a_deadline_recommends_a_throttle(saved):
    code, document = saved.json("estimate", saved.plan(t0=[0, 2]), "--within", "200s")
    assert code == ExitCode.DONE
    assert document["rate_bytes_per_s"] == 1_900_000
    assert document["recommended_bytes_per_s"] == pytest.approx(1_900_000, rel=0.1)
    _, out, _ = saved.run("estimate", saved.plan(t0=[0, 2]), "--within", "200s")
    assert out.startswith("100 MB in 3 m 20 s: throttle to 2")
    assert document["range_seconds"][1] <= 200


def test_estimate_without_a_rate_prints_a_table_of_rates(saved):
    code, document = saved.json("estimate", saved.plan(t0=[0, 2]))
    assert code == ExitCode.DONE
    assert document["rates"][0]["never"]
    assert document["default_bytes_per_s"] == 5 * MB
    _, out, _ = saved.run("estimate", saved.plan(t0=[0, 2]))
    assert "\n*  5.0 MB/s  about " in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--throttle", "50"], "A rate needs a unit: 50"),
        (["--throttle", "1MB/s", "--within", "1m"], "exclude each other"),
        (["--within", "0"], "must be positive"),
        (["--within", "soon"], "Not a time"),
    ],
)
def test_invalid_estimate_options_are_reported(saved, options, words):
    code, out, err = saved.run("estimate", saved.plan(t0=[0, 2]), *options)
    assert (code, out) == (ExitCode.USAGE, "")
    assert words in err


def test_verify_succeeds_if_all_partitions_are_as_planned_and_in_sync(saved):
    code, out, _ = saved.run("verify", saved.plan(t0=[0, 1], t1=[1, 2]))
    assert (code, out) == (ExitCode.DONE, "2 partitions as planned, all in sync.\n")


def test_verify_exits_with_no_and_lists_the_differences(saved):
    saved.save_cluster(
        {
            "t-0": ([0, 1], [0], MB, 0.0),
            "t-1": ([1, 2], [1, 2], MB, 0.0),
            "t-2": ([2, 0], [2, 0], MB, 0.0),
        }
    )
    plan = saved.plan(t0=[0, 1], t1=[2, 1], t2=[2, 0], t9=[1])
    code, out, _ = saved.run("verify", plan)
    assert code == ExitCode.NO
    assert out.splitlines() == [
        "t-0 is on 0,1, and 1 not in sync.",
        "t-1 is on 1,2, not on 2,1.",
        "t-9 does not exist.",
        "3 of 4 partitions not as planned.",
    ]
    code, document = saved.json("verify", plan)
    assert (code, document["verified"]) == (ExitCode.NO, False)
    assert [p["standing"] for p in document["partitions"]] == [
        "out-of-sync",
        "different",
        "missing",
        "done",
    ]


def test_plan_for_another_cluster_is_refused_by_every_command(saved):
    out = saved.folder / "out.json"
    saved.run("plan", "inverse", saved.plan(t0=[0, 3]), "-o", str(out))
    document = json.loads(out.read_text())
    document["trimtab"]["cluster_id"] = "elsewhere"
    other = str(saved.write("other.json", document))
    for command in (
        ["plan", "check"],
        ["plan", "show"],
        ["plan", "diff"],
        ["plan", "rebase"],
        ["verify"],
        ["estimate"],
    ):
        code, _, err = saved.run(*command, other)
        assert code == ExitCode.USAGE
        assert "is for cluster elsewhere; this is saved." in err


def test_plan_commands_without_a_cluster_are_refused(saved):
    for command in (["plan", "check"], ["plan", "diff"], ["verify"], ["estimate"]):
        code, _, err = saved.run(*command, saved.plan(t0=[0, 1]), offline=False)
        assert code == ExitCode.USAGE
        assert "No cluster is given." in err


@pytest.fixture
def taught(monkeypatch):
    """Runs on this cluster took a tenth longer than was estimated."""
    learned = dict.fromkeys(Side, Learned(4, 1.1, 1.0))
    monkeypatch.setattr("core.cli.plan.estimate.calibration", lambda _: Calibration(learned))


@pytest.mark.parametrize("options", [("--throttle", "10MB/s"), ("--within", "1m"), ()])
def test_estimate_reports_the_number_of_runs_it_is_calibrated_by(saved, taught, options):
    plan = saved.plan(t1=[3, 2])
    code, out, _ = saved.run("estimate", plan, *options)
    assert code == ExitCode.DONE
    assert "learned from 4 runs here: 10 % longer" in " ".join(out.lower().split())
    _, out, _ = saved.run("estimate", plan, *options, "--no-calibration")
    assert "learned" not in out.lower()


def test_calibrated_estimate_holds_the_uncalibrated_time(saved, taught):
    plan = saved.plan(t1=[3, 2])
    _, estimate = saved.json("estimate", plan, "--throttle", "10MB/s")
    _, plain = saved.json("estimate", plan, "--throttle", "10MB/s", "--no-calibration")
    assert (estimate["calibration"]["runs"], estimate["calibration"]["factor"]) == (4, 1.1)
    assert estimate["calibration"]["uncalibrated_seconds"] == plain["seconds"] < estimate["seconds"]
    assert plain["calibration"] is None


def test_estimate_for_two_hundred_brokers_prints_only_the_rows_that_need_most(saved):
    held = {f"t-{n}": [n, (n + 1) % 200] for n in range(200)}
    state = cluster(held, size_bytes={name: (1 + n) * MB for n, name in enumerate(held)})
    load = load_of(state, MB / 100)
    document = document_to_json(ClusterDocument(state, load.in_bytes_per_s, load.out_bytes_per_s))
    saved.write("cluster.json", document)
    plan = saved.plan(**{f"t{n}": [n, (n + 2) % 200] for n in range(200)})
    words = ("estimate", plan, "--throttle", "10MB/s")
    code, out, _ = saved.run(*words)
    rows = saved.json(*words)[1]["rows"]
    assert (code, len(rows)) == (ExitCode.DONE, 400)
    printed = out.split("done after\n")[1].split("\n\n")[0].splitlines()
    assert len(printed) == 16
    assert "199" in printed[0].split()
    assert printed[-1].startswith("… and 385 more; done after ")
    assert printed[-1].endswith("at most; --json has them all.")
