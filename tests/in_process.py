"""The command line on a simulated cluster in this process: no process, no socket, no waiting."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from json_schemas import check_answer

from core.cli.main import run
from core.cluster.connect import Address, Connection
from core.cluster.simulation.cluster import SimulatedCluster
from core.run import audit

Trimtab = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trimtab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Trimtab:
    """Type a command, in a home of its own; returns exit code, stdout and stderr."""
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    for name in (
        "TRIMTAB_BOOTSTRAP",
        "TRIMTAB_CLUSTER",
        "TRIMTAB_COMMAND_CONFIG",
        "TRIMTAB_SNAPSHOTS",
    ):
        monkeypatch.delenv(name, raising=False)

    def run_line(*words: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        line = [str(word) for word in words]
        code = run(lambda context: None, line)
        out, err = capsys.readouterr()
        check_answer(line, out)
        return code, out, err

    return run_line


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Hand:
    """Types commands; `through` is what they get for a client, the cluster itself by default."""

    def __init__(
        self, capture: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._capture, self._patch = capture, monkeypatch
        self.through: Any = None
        self.cluster: Any = None

    def on(self, cluster: SimulatedCluster, through: Any = None) -> Hand:
        self.cluster, self.through = cluster, through or cluster
        return self

    def types(self, name: str) -> None:
        """Sit at a terminal, and type this whenever a name is asked for."""
        self._patch.setattr("sys.stdin", _Terminal())
        self._patch.setattr("click.prompt", lambda *_, **__: name)

    def connect(self, address: Address) -> Connection:
        return Connection(self.through, self.cluster.clock, address)

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr."""
        self._capture.readouterr()
        code = run(lambda context: None, ["-b", "somewhere:9092", *words])
        out, err = self._capture.readouterr()
        check_answer(words, out)
        return code, out, err

    def json(self, *words: str) -> Any:
        code, out, err = self(*words, "--json")
        assert code == 0, err
        return json.loads(out)


def audited() -> list[str]:
    """Return what the audit holds, oldest first."""
    return [line.entry["what"] for line in audit.read() if line.entry is not None]


@pytest.fixture
def hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Hand:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    hand = Hand(capsys, monkeypatch)
    monkeypatch.setattr("core.cli.common.context.connect", hand.connect)
    return hand
