"""What `-o FILE` does: a whole file, or what was there before."""

from __future__ import annotations

import io
import json
import os
import threading
from pathlib import Path

import pytest
from clusters import tp
from in_process import Hand, audited
from run_help import cluster, plan_of

from core.cli.common.output import write_text
from core.cluster.configs import LEADER_RATE, ConfigChange, ConfigOp, Resource
from core.errors import UsageError
from core.plan.formats.plan_file import format_plan_file


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    output.write_text("old")
    write_text("new", output)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    assert output.read_text() == "new"


@pytest.mark.parametrize("name", ["missing/plan.json", "file/plan.json", "folder"])
def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="Cannot write"):
        write_text("new", tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text("new", pipe)
    reader.join(10)
    assert read == ["new"]
    assert pipe.is_fifo()


class _Gone(io.StringIO):
    """A pipe whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("topics create new --partitions 2 --rf 2", "create topics"),
        ("topics alter orders --partitions 2", "add partitions"),
        ("topics alter orders --set retention.ms=600000", "configs"),
        ("elect", "elect"),
        ("throttles clear broker:1", "clear"),
    ],
)
def test_a_reader_that_has_gone_stops_no_change(
    hand: Hand, monkeypatch: pytest.MonkeyPatch, words: str, what: str, stream: str
) -> None:
    living = cluster({"orders": [(1, 2)]}, leaders={tp("orders-0"): 2})
    rate = ConfigChange(Resource.broker(1), LEADER_RATE, ConfigOp.SET, "1000000")
    living.alter_configs([rate])
    monkeypatch.setattr("core.cli.common.output.discard_output", lambda stream=1: None)
    monkeypatch.setattr(f"sys.{stream}", _Gone())
    code, _, _ = hand.on(living)(*words.split(), "--yes")
    assert (code, audited()[:1]) == (0, [what])


@pytest.mark.parametrize(
    "words",
    [
        *("topics ls", "topics describe", "groups", "throttles ls", "runs ls"),
        "snapshot ls --cluster-id c-1",
    ],
)
def test_where_there_is_nothing_no_older_answer_stays(
    hand: Hand, tmp_path: Path, words: str
) -> None:
    answer = tmp_path / "answer.txt"
    answer.write_text("an older answer")
    hand.on(cluster({}))
    _, _, said = hand(*words.split())
    assert hand(*words.split(), "-o", str(answer)) == (0, "", "")
    assert answer.read_text() == said
    assert said.startswith(("No", "There is no"))


def test_where_apply_starts_nothing_it_says_so_as_json(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.cli.runs.launch.connect", hand.connect)
    living = cluster({"orders": [(1, 2)]})
    plan = tmp_path / "plan.json"
    plan.write_text(format_plan_file(plan_of(living, {("orders", 0): (1, 3)})))
    living = cluster({"orders": [(1, 3)]})
    code, out, err = hand.on(living)("apply", str(plan), "--detach", "--json")
    assert code == 0, err
    assert (code, json.loads(out)) == (0, {"run": None})
    assert "Nothing to do" in err
