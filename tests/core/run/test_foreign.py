"""Others' moves are shown with their progress, known to be others', and never changed."""

from __future__ import annotations

import json

import pytest
from cli_help import SLOW, Here, validate
from run_help import MB, cluster
from waiting import eventually

from core.cli import foreign
from core.cluster.observe import observe
from core.cluster.state import TopicPartition
from core.errors import ExitCode
from core.run.others.foreign import ForeignWatch, foreign_moves

TP = TopicPartition("t", 0)


def test_what_is_known_of_others_moves() -> None:
    client = cluster({"t": [(1, 2), (1, 2)]}, size_bytes=1000 * MB)
    client.alter_reassignments({TP: (3, 2)})
    (move,) = foreign_moves(observe(client), ())
    assert (move.tp, set(move.before), move.after) == (TP, {1, 2}, (3, 2))
    assert move.total_bytes == 1000 * MB
    assert not move.endless
    assert not foreign_moves(observe(client), {TP}), "what is ours is not theirs"


def test_a_move_overridden_so_that_it_never_ends_is_known() -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=1000 * MB)
    client.alter_reassignments({TP: (3, 2)})
    client.alter_reassignments({TP: (2, 1)})
    (move,) = foreign_moves(observe(client), ())
    assert move.endless
    assert "only a cancel ends it" in foreign._table([move])


def test_their_rate_is_told_from_successive_pictures() -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=1000 * MB)
    client.alter_reassignments({TP: (3, 2)})
    watch = ForeignWatch()
    for _ in range(3):
        client.clock.sleep(0.5)
        watch.take(observe(client), ())
    (move,) = watch.look(observe(client), ())
    assert move.bytes_per_s
    assert move.left_seconds


def foreign_move(here: Here) -> tuple[TopicPartition, tuple[int, ...]]:
    """Move the largest partition as somebody else would; return it and how it was."""
    state = observe(here.client)
    row = state.row(int(state.partition_size_bytes.argmax()))
    free = next(b.id for b in state.brokers if b.id not in row.replicas)
    assert here.client.alter_reassignments({row.tp: (*row.replicas[:-1], free)})
    return row.tp, row.replicas


def test_they_are_listed_shown_and_followed_and_nothing_is_changed(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "No move of somebody else's" in here("runs", "show", "foreign")[2]
    tp, before = foreign_move(here)
    assert "runs show foreign" in here("runs", "ls")[2]
    code, out, err = here("runs", "show", "foreign")
    assert code == ExitCode.DONE
    assert str(tp) in out
    assert "not known" in err
    document = json.loads(here("runs", "show", "foreign", "--json")[1])
    validate("runs-foreign", document)
    assert document["moves"][0]["before_unordered"] == sorted(before)
    looks: list[int] = []

    def sleep(seconds: float) -> None:
        looks.append(1)
        if len(looks) == 2:
            here.client.cancel([tp])
            here.client.alter_reassignments({tp: before})
            eventually(lambda: not here.client.reassignments())

    monkeypatch.setattr(foreign.time, "sleep", sleep)
    code, out, _ = here("runs", "attach", "--foreign", "--json")
    assert code == ExitCode.DONE
    for line in out.splitlines():
        validate("runs-foreign", json.loads(line))
    assert not json.loads(out.splitlines()[-1])["moves"]


def test_what_a_run_of_this_machine_moves_is_not_foreign(here: Here) -> None:
    run = json.loads(here("apply", here.plan(skip=100), *SLOW)[1])["run"]
    eventually(lambda: bool(here.client.reassignments()))
    assert "No move of somebody else's" in here("runs", "show", "foreign")[2]
    assert here("runs", "cancel", run, "--yes")[0] == ExitCode.DONE
