"""`plan`, `estimate` and `verify` on a saved cluster: what they print, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli.main import run
from core.errors import ExitCode

MB = 1_000_000


class Here:
    """A folder with a saved cluster, and the command line run in it."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capture = capture
        self.cluster = folder / "cluster.json"

    def write(self, name: str, document: object) -> Path:
        path = self.folder / name
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    def save_cluster(self, partitions: dict[str, tuple], **broker) -> None:
        """Save `{"t-0": ([1, 2], [1, 2], bytes, produced bytes/s)}` over brokers 0 to 4."""
        self.write(
            "cluster.json",
            {
                "format": "trimtab.cluster/1",
                "cluster_id": "saved",
                "fetched_at": "2026-01-01T12:00:00Z",
                "controller": 0,
                "brokers": [{"id": id, "alive": True} | broker for id in range(5)],
                "topics": [{"name": "t", "id": "t-id", "min_insync": 1}],
                "partitions": [
                    {
                        "topic": name.rpartition("-")[0],
                        "partition": int(name.rpartition("-")[2]),
                        "leader": replicas[0],
                        "replicas": replicas,
                        "isr": isr,
                        "size_bytes": size,
                        "in_bytes_per_s": produced,
                        "out_bytes_per_s": produced,
                    }
                    for name, (replicas, isr, size, produced) in partitions.items()
                ],
            },
        )

    def plan(self, name: str = "plan.json", **targets: list[int]) -> str:
        rows = [
            {"topic": "t", "partition": int(key.removeprefix("t")), "replicas": replicas}
            for key, replicas in targets.items()
        ]
        return str(self.write(name, {"version": 1, "partitions": rows}))

    def run(self, *arguments: str, offline: bool = True) -> tuple[int, str, str]:
        chosen = ["--from", str(self.cluster)] if offline else []
        code = run(lambda context: None, [*chosen, *arguments])
        printed = self._capture.readouterr()
        return code, printed.out, printed.err

    def json(self, *arguments: str) -> tuple[int, dict]:
        code, out, _ = self.run(*arguments, "--json")
        return code, json.loads(out)


@pytest.fixture
def here(tmp_path, capsys, monkeypatch) -> Here:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "home"))
    place = Here(tmp_path, capsys)
    place.save_cluster(
        {
            "t-0": ([0, 1], [0, 1], 100 * MB, 700_000.0),
            "t-1": ([1, 2], [1, 2], 50 * MB, 0.0),
            "t-2": ([2, 0], [2, 0], 10 * MB, 0.0),
        }
    )
    return place


def test_check_says_that_nothing_speaks_against(here):
    here.save_cluster({"t-0": ([0, 1], [0, 1], MB, 0.0)})
    code, out, _ = here.run("plan", "check", here.plan(t0=[0, 2]))
    assert (code, out) == (ExitCode.DONE, "1 move, nothing speaks against it.\n")


def test_check_lists_the_worst_first_and_says_no(here):
    code, out, _ = here.run("plan", "check", here.plan(t0=[0, 1, 2], t1=[1]))
    assert code == ExitCode.NO
    assert out.startswith("unsafe  rf-change\n")
    assert "refused, unless --allow rf-change" in out
    assert max(map(len, out.splitlines())) <= 80


def test_what_is_allowed_is_no_refusal(here):
    plan = here.plan(t0=[0, 1, 2])
    assert here.run("plan", "check", plan, "--allow", "rf-change")[0] == ExitCode.DONE
    code, document = here.json("plan", "check", plan, "--allow", "rf-change")
    assert (code, document["ok"]) == (ExitCode.DONE, True)
    assert document["findings"][0] == {
        "id": "rf-change",
        "severity": "unsafe",
        "sentence": "t-0: from 2 replicas to 3.",
        "allowed": True,
        "partitions": [{"topic": "t", "partition": 0}],
    }


def test_check_at_a_rate_says_never(here):
    code, document = here.json("plan", "check", here.plan(t0=[0, 2]), "--throttle", "1MB/s")
    assert code == ExitCode.NO
    assert "never" in [finding["id"] for finding in document["findings"]]


def test_show_puts_the_largest_move_first(here):
    code, out, _ = here.run("plan", "show", here.plan(t0=[1, 0], t1=[1, 3], t2=[2, 4]))
    assert code == ExitCode.DONE
    assert out.splitlines() == [
        "partition  now  planned  copies",
        "t-1        1,2  1,3       50 MB",
        "t-2        2,0  2,4       10 MB",
        "t-0        0,1  1,0           -",
        "3 partitions: 2 to copy (60 MB), 1 with another preferred leader.",
    ]


def test_show_as_a_document(here):
    _, document = here.json("plan", "show", here.plan(t0=[1, 0], t1=[1, 3]))
    assert (document["moves"], document["leader_moves"], document["bytes"]) == (1, 1, 50 * MB)
    assert document["partitions"][1]["adding"] == [3]


def test_diff_shows_what_is_not_as_planned(here):
    code, out, _ = here.run("plan", "diff", here.plan(t0=[0, 1], t1=[1, 3]))
    assert code == ExitCode.DONE
    assert out.splitlines() == [
        "partition  now  planned",
        "t-1        1,2  1,3      different",
        "1 partition differs.",
    ]


def test_diff_of_two_plans(here):
    one, two = here.plan("a.json", t0=[1, 0], t1=[1, 3]), here.plan("b.json", t0=[1, 0], t2=[2, 4])
    assert here.run("plan", "diff", one, two, offline=False)[1].splitlines() == [
        "partition  a.json  b.json",
        "t-1        1,3     -",
        "t-2        -       2,4",
        "2 partitions differ.",
    ]
    assert here.run("plan", "diff", one, one, offline=False)[1] == "No difference.\n"


def test_inverse_of_inverse_is_the_plan_file_again(here):
    there = here.plan(t0=[0, 3], t1=[2, 1])
    ours = here.folder / "ours.json"
    back, again = here.folder / "back.json", here.folder / "again.json"
    here.run("plan", "inverse", there, "-o", str(back))
    here.run("plan", "inverse", str(back), "-o", str(ours), offline=False)
    here.run("plan", "inverse", str(ours), "-o", str(again), offline=False)
    assert back.read_text() == again.read_text()
    rows = json.loads(ours.read_text())["partitions"]
    assert [row["replicas"] for row in rows] == [[0, 3], [2, 1]]


def test_inverse_of_a_plain_file_needs_the_cluster(here):
    code, out, err = here.run("plan", "inverse", here.plan(t0=[0, 3]), offline=False)
    assert (code, out) == (ExitCode.USAGE, "")
    assert "Name the cluster" in err


def test_estimate_at_a_rate(here):
    code, document = here.json("estimate", here.plan(t1=[1, 3]), "--throttle", "10MB/s")
    assert code == ExitCode.DONE
    low, high = document["range_seconds"]
    assert low < document["seconds"] < high
    assert document["total_bytes"] == 50 * MB
    assert document["limit"] == {"broker": 1, "side": "leader"}
    code, out, _ = here.run("estimate", here.plan(t1=[1, 3]), "--throttle", "10MB/s")
    assert out.startswith("50 MB at 10 MB/s: about ")
    assert max(map(len, out.splitlines())) <= 80


def test_estimate_of_never_is_a_no(here):
    code, out, _ = here.run("estimate", here.plan(t0=[0, 2]), "--throttle", "1MB/s")
    assert code == ExitCode.NO
    assert out.startswith("Never. Broker 0 has to send 1.4 MB/s")


def test_estimate_within_a_time(here):
    code, document = here.json("estimate", here.plan(t0=[0, 2]), "--within", "200s")
    assert code == ExitCode.DONE
    assert document["rate_bytes_per_s"] == 1_900_000
    assert document["recommended_bytes_per_s"] == pytest.approx(1_900_000, rel=0.1)
    _, out, _ = here.run("estimate", here.plan(t0=[0, 2]), "--within", "200s")
    assert out.startswith("100 MB in 3 m 20 s: throttle to 2")
    assert document["range_seconds"][1] <= 200
    assert "The closed form says 1.9MB/s." in out


def test_estimate_without_a_rate_is_a_table(here):
    code, document = here.json("estimate", here.plan(t0=[0, 2]))
    assert code == ExitCode.DONE
    assert document["rates"][0]["never"]
    assert document["default_bytes_per_s"] == 5 * MB
    _, out, _ = here.run("estimate", here.plan(t0=[0, 2]))
    assert "\n*  5.0 MB/s  about " in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--throttle", "50"], "50 what?"),
        (["--throttle", "1MB/s", "--within", "1m"], "exclude each other"),
        (["--within", "0"], "no time at all"),
        (["--within", "soon"], "Not a time"),
    ],
)
def test_estimates_asked_badly(here, options, words):
    code, out, err = here.run("estimate", here.plan(t0=[0, 2]), *options)
    assert (code, out) == (ExitCode.USAGE, "")
    assert words in err


def test_verify_says_yes(here):
    code, out, _ = here.run("verify", here.plan(t0=[0, 1], t1=[1, 2]))
    assert (code, out) == (ExitCode.DONE, "2 partitions as planned, all in sync.\n")


def test_verify_says_no_and_what_differs(here):
    here.save_cluster(
        {
            "t-0": ([0, 1], [0], MB, 0.0),
            "t-1": ([1, 2], [1, 2], MB, 0.0),
            "t-2": ([2, 0], [2, 0], MB, 0.0),
        }
    )
    plan = here.plan(t0=[0, 1], t1=[2, 1], t2=[2, 0], t9=[1])
    code, out, _ = here.run("verify", plan)
    assert code == ExitCode.NO
    assert out.splitlines() == [
        "t-0 is on 0,1, and 1 not in sync.",
        "t-1 is on 1,2, not on 2,1.",
        "t-9 does not exist.",
        "3 of 4 partitions not as planned.",
    ]
    code, document = here.json("verify", plan)
    assert (code, document["verified"]) == (ExitCode.NO, False)
    assert [p["standing"] for p in document["partitions"]] == [
        "out-of-sync",
        "different",
        "missing",
        "done",
    ]


def test_a_plan_for_another_cluster_is_refused_everywhere(here):
    out = here.folder / "out.json"
    here.run("plan", "inverse", here.plan(t0=[0, 3]), "-o", str(out))
    document = json.loads(out.read_text())
    document["trimtab"]["cluster_id"] = "elsewhere"
    other = str(here.write("other.json", document))
    for command in (
        ["plan", "check"],
        ["plan", "show"],
        ["plan", "diff"],
        ["verify"],
        ["estimate"],
    ):
        code, _, err = here.run(*command, other)
        assert code == ExitCode.USAGE
        assert "is for cluster elsewhere; this is saved." in err


def test_no_cluster_named(here):
    for command in (["plan", "check"], ["plan", "diff"], ["verify"], ["estimate"]):
        code, _, err = here.run(*command, here.plan(t0=[0, 1]), offline=False)
        assert code == ExitCode.USAGE
        assert "Which cluster?" in err


def test_output_goes_to_a_file_whole(here):
    target = here.folder / "check.json"
    code, out, _ = here.run("plan", "check", here.plan(t0=[0, 2]), "--json", "-o", str(target))
    assert (code, out) == (ExitCode.DONE, "")
    assert json.loads(target.read_text())["ok"] is True


def test_a_plan_on_stdin(here, monkeypatch):
    import io

    text = Path(here.plan(t0=[0, 1])).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert here.run("verify", "-")[0] == ExitCode.DONE
