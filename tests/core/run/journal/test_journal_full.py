"""A run whose journal takes no more while its cluster does not answer either: it waits for both."""

from __future__ import annotations

from typing import Any

import pytest
from run_help import MB, Faulty, Start, cluster, plan_of, submitted, unreachable

from core.run.journal.journal import Journal, JournalError
from core.run.journal.move_state import Outcome
from core.run.journal.records import Kind


def test_a_cluster_that_does_not_answer_and_a_full_disk_are_waited_for_together(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=60 * MB)
    through = Faulty(client)
    run = start(client, plan_of(client, {("t", 0): (3, 2)}), through=through)
    run.until(submitted)
    refused: list[Kind] = []
    write = Journal.write

    def full(journal: Journal, at: Any, kind: Kind, payload: Any) -> Any:
        refused.append(kind)
        if len(refused) < 3:
            raise JournalError("The journal cannot be written: disk is full.")
        monkeypatch.setattr(Journal, "write", write)
        through.replaced = {}
        return write(journal, at, kind, payload)

    through.replaced = {"fetch_reassignments": unreachable}
    monkeypatch.setattr(Journal, "write", full)
    assert run.runner.run() is Outcome.DONE
    assert refused == [Kind.WAITING] * 3
    assert run.replicas() == {"t-0": (3, 2)}
