"""`plan rebase` on a saved cluster: what it prints and writes, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from clusters import tp
from offline import MB, Here

from core.errors import ExitCode
from core.plan.formats.plan_file import format_plan_file, read_plan
from core.plan.plan import Move, Plan


def planned(saved: Here, **moves: tuple[tuple[int, ...], tuple[int, ...]]) -> str:
    """Write a plan file of ours, which says what it was made from: `t0=(before, after)`."""
    made = [Move(tp(f"t-{name[1:]}"), *way, "t-id") for name, way in moves.items()]
    return str(saved.write("old.json", format_plan_file(Plan.of(made, cluster_id="saved"))))


def test_rebase_onto_an_unchanged_cluster_keeps_the_whole_plan(saved: Here, tmp_path: Path) -> None:
    plan, new = planned(saved, t0=((0, 1), (0, 3))), tmp_path / "new.json"
    code, out, err = saved.run("plan", "rebase", plan, "-o", str(new))
    assert (code, out) == (ExitCode.DONE, "1 move: all of it holds as it is.\n")
    assert new.read_text() == Path(plan).read_text()
    assert f"trimtab apply {new}" in err


def test_rebased_plan_that_changes_leaders_is_to_be_applied_with_an_election(
    saved: Here, tmp_path: Path
) -> None:
    plan, new = planned(saved, t0=((0, 1), (1, 0))), tmp_path / "new.json"
    _, _, err = saved.run("plan", "rebase", plan, "-o", str(new))
    assert f"trimtab apply {new} --elect" in err


def test_rebase_names_the_lost_moves_and_exits_with_no(saved: Here, tmp_path: Path) -> None:
    plan = planned(
        saved,
        t0=((1, 0), (3, 0)),  # re-ordered since
        t1=((1, 4), (1, 2)),  # done since
        t2=((2, 1), (2, 3)),  # has other replicas
        t9=((0, 1), (0, 2)),  # deleted
    )
    code, out, _ = saved.run("plan", "rebase", plan, "-o", str(tmp_path / "new.json"))
    assert code == ExitCode.NO
    assert out.splitlines() == [
        "partition  from  to",
        "t-2        2,1        lost: it has 2,0 by now, not 2,1",
        "t-9        0,1        lost: it is not there any more",
        "t-0        0,1   0,3  kept on a new base",
        "t-1        1,4        done, or on its way",
        "4 moves: 1 kept, 1 done, 2 lost.",
    ]
    (kept,) = read_plan(tmp_path / "new.json")
    assert (str(kept.tp), kept.before, kept.after) == ("t-0", (0, 1), (0, 3))


def test_rebase_of_a_completed_plan_writes_an_empty_plan_and_succeeds(
    saved: Here, tmp_path: Path
) -> None:
    plan, new = planned(saved, t1=((1, 4), (1, 2))), tmp_path / "new.json"
    new.write_text("an older answer")
    code, _, err = saved.run("plan", "rebase", plan, "-o", str(new))
    assert (code, err) == (ExitCode.DONE, "Nothing of it is left to apply.\n")
    assert json.loads(new.read_text())["partitions"] == []


def test_kafka_tool_plan_is_rebased_as_if_created_from_the_current_assignment(saved: Here) -> None:
    code, document = saved.json("plan", "rebase", saved.plan(t0=[0, 3], t1=[1, 2], t9=[4, 3]))
    assert code == ExitCode.NO
    assert [row["partition"] for row in document["lost"]] == [9]
    assert document["kept"] == 1
    assert document["plan"]["trimtab"]["base"][0]["replicas"] == [0, 1]


def test_check_of_a_stale_plan_advises_rebase_and_cannot_be_allowed(saved: Here) -> None:
    saved.save_cluster({"t-0": ([0, 1], [0, 1], MB, 0.0)})
    plan = planned(saved, t0=((0, 2), (0, 3)))
    code, out, _ = saved.run("plan", "check", plan)
    assert code == ExitCode.NO
    assert "rebase it" in " ".join(out.split())
    assert "--allow" not in out
    code, _, err = saved.run("plan", "check", plan, "--allow", "stale")
    assert (code, "cannot be allowed" in err) == (ExitCode.USAGE, True)


@pytest.mark.parametrize("words", ["plan show", "estimate", "plan impact"])
def test_commands_that_read_a_stale_plan_report_that_it_is_stale(saved: Here, words: str) -> None:
    saved.save_cluster({"t-0": ([0, 1], [0, 1], MB, 0.0)})
    code, _, err = saved.run(*words.split(), planned(saved, t0=((0, 2), (0, 3))), "--json")
    assert (code, err.splitlines()) == (
        ExitCode.DONE,
        [
            "stale: t-0 has other replicas than when the plan was made; rebase it.",
            "Put it on the cluster as it is: trimtab plan rebase PLAN -o NEW.",
        ],
    )
    _, _, err = saved.run(*words.split(), planned(saved, t0=((0, 1), (0, 3))), "--json")
    assert "stale" not in err
