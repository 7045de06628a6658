"""The short form of every scenario on the session's brokers; `make scenarios` plays them whole."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from on_kafka import trimtab_here

from core import paths
from core.cluster.sandbox.sandbox import Sandbox
from core.daemons.supervisor import stop_daemons
from core.watch.timeline.daemon import ROLE
from tests.acceptance.catalogue import SCENARIOS
from tests.acceptance.stage import Stage


class InProcess(Stage):
    """The stage whose commands play in this process: starting one takes longer than most do.

    Those that follow a run are still commands of their own.
    """

    def trimtab(
        self, *words: str | Path, offline: bool = False
    ) -> subprocess.CompletedProcess[str]:
        where = () if offline else ("-b", self.sandbox.bootstrap)
        return trimtab_here(*where, *words)


@pytest.fixture
def stage(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "home"))
    scenario_stage = InProcess(sandbox, tmp_path, short=True)
    yield scenario_stage
    scenario_stage.drop()
    stop_daemons(paths.load_root(), sandbox.cluster_id, [ROLE], seconds=10)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_step_of_a_scenario_agrees_with_its_expectation(name: str, stage: Stage) -> None:
    steps = list(SCENARIOS[name].play(stage))

    assert steps
    assert [step for step in steps if not step.agrees] == []
