"""A run on real brokers whose process is killed: a few of the points that `make chaos` plays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from chaos.brokers import Brokers, Strike
from chaos.played import Played
from chaos.real import Chaos

from core.cluster.sandbox.sandbox import Sandbox


@pytest.fixture
def played(tmp_path: Path) -> Played:
    return Played(tmp_path / "chaos.json")


@pytest.fixture
def chaos(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, played: Played
) -> Iterator[Chaos]:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    brokers = Brokers(sandbox, tmp_path)
    brokers.lay_out()
    yield Chaos(brokers, played, Random(1))
    brokers.clean()


def test_a_run_that_is_killed_again_and_again_ends_as_kafkas_tools_want_it(
    chaos: Chaos, played: Played
) -> None:
    strikes = [Strike("before", "submitting"), Strike("after", "pairs_removing")]
    chaos.killed(strikes)
    chaos.cancelled([Strike("before", "cancelling")])
    assert [played.count(str(s)) for s in strikes] == [1, 1]
    assert played.count("before cancelling") == 1
    assert played.wrong() == []
