"""Which run a name means where several clusters have one of that name."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from run_help import move

from core.cli.main import run as command_line
from core.cluster.connect import Address
from core.errors import ExitCode
from core.plan.plan import Plan
from core.run.creation import RunOptions, create_journal
from core.run.record.journal import journal_path

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
RUN = "0302-090000"


class Runs:
    """Journals on this machine, and the command line that looks for them."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def add(self, cluster_id: str, bootstrap: str) -> str:
        plan = Plan(cluster_id, (move("t", 0, (1, 2), (3, 2)),))
        address = Address(bootstrap)
        with create_journal(address, cluster_id, plan, RunOptions(1000), None, at=AT) as journal:
            return journal.path.stem

    def show(self, run: str, *cluster: str) -> tuple[int, str]:
        self._capture.readouterr()
        code = command_line(lambda context: None, [*cluster, "runs", "show", run])
        captured = self._capture.readouterr()
        return code, captured.out + captured.err


@pytest.fixture
def runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Runs:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    return Runs(capfd)


def test_a_whole_name_wins_over_one_that_begins_like_it_on_another_cluster(runs: Runs) -> None:
    assert runs.add("one", "sim:one") == RUN
    assert [runs.add("two", "sim:two") for _ in range(2)] == [RUN, f"{RUN}-2"]
    journal_path("two", RUN).unlink()
    code, said = runs.show(RUN)
    assert (code, "t-0" in said) == (ExitCode.DONE, True), said


def test_runs_of_the_same_name_are_told_apart_by_their_clusters(runs: Runs) -> None:
    runs.add("one", "sim:one")
    runs.add("two", "sim:two")
    code, said = runs.show(RUN)
    assert code == ExitCode.USAGE
    assert f"{RUN} on sim:one, {RUN} on sim:two" in said
    assert f"Name its cluster, too: `trimtab -b HOST:PORT runs … {RUN}`." in said


def test_a_cluster_that_is_down_is_known_by_the_address_that_its_run_had(runs: Runs) -> None:
    runs.add("one", "sim:one")
    runs.add("two", "sim:two")
    code, said = runs.show(RUN, "-b", "sim:two")
    assert (code, "t-0" in said) == (ExitCode.DONE, True), said
    code, said = runs.show(RUN, "-b", "sim:three")
    assert (code, f"{RUN} on sim:one, {RUN} on sim:two" in said) == (ExitCode.USAGE, True), said
