"""The short form of every scenario on the session's brokers; `make scenarios` plays them whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.cli.scenarios.catalogue import SCENARIOS
from core.cli.scenarios.stage import Stage
from core.cluster.sandbox.sandbox import Sandbox


@pytest.fixture
def stage(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "home"))
    found = Stage(sandbox, tmp_path, short=True)
    yield found
    found.drop()


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_was_expected_is_seen(name: str, stage: Stage) -> None:
    steps = list(SCENARIOS[name].play(stage))

    assert steps
    assert [step for step in steps if not step.agrees] == []
