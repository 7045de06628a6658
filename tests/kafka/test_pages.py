"""The tutorial and the how-to pages, played on real brokers as somebody at a terminal would."""

from __future__ import annotations

from pathlib import Path

import pytest
from on_kafka import client_with, require_room
from page_shell import play, shell

from core.cluster.sandbox.sandbox import Sandbox


def test_tutorial_works_as_written(empty_home: Path, tmp_path: Path) -> None:
    with shell(tmp_path, TRIMTAB_HOME=str(empty_home)) as bash:
        try:
            printed = play(bash, "tutorial/sandbox.md")
        finally:
            bash.run("trimtab sandbox down")
    assert "as planned, all in sync" in printed["trimtab verify plan.json"]
    assert printed["trimtab throttles ls"] == "No throttle is set.\n"
    assert "all intact" in printed["trimtab audit verify"]
    assert "done: " in printed["trimtab apply plan.json --throttle 10MB/s --elect"]
    assert "done: " in printed["trimtab runs rollback ID"]
    assert (tmp_path / "report.md").is_file()
    assert not (empty_home / "data" / "sandbox" / "default").exists()


HOW_TO = {
    "drain-broker": ([[1, 2], [3, 2], [2, 3]], lambda rows: all(3 not in row for row in rows)),
    "add-broker": ([[1, 2], [3, 2], [2, 1]] * 3, lambda rows: any(4 in row for row in rows)),
    "replace-broker": ([[3, 1], [1, 3]], lambda rows: rows == [(4, 1), (1, 4)]),
    "replication-factor": ([[1, 2], [2, 3]], lambda rows: all(len(row) == 3 for row in rows)),
}
"""The replicas of `orders` before each page (racks a, b, a, b), and what must hold afterwards."""


@pytest.mark.parametrize("page", HOW_TO)
def test_how_to_page_works_as_written_and_leaves_the_expected_replicas(
    page: str, sandbox: Sandbox, empty_home: Path, tmp_path: Path
) -> None:
    layout, holds = HOW_TO[page]
    require_room(sandbox)
    variables = {"TRIMTAB_HOME": str(empty_home), "TRIMTAB_BOOTSTRAP": sandbox.bootstrap}
    with (
        client_with(sandbox, {"orders": layout}, 100_000) as client,
        shell(tmp_path, **variables) as bash,
    ):
        play(bash, f"how-to/{page}.md", topic="orders")
        state = client.describe_cluster()
        rows = [state.replicas(row) for row in state.partitions_of("orders")]
    assert holds(rows), rows
