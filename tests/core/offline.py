"""The command line on a saved cluster, in a folder of its own; nothing is asked over a network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from json_schemas import check_answer

from core.cli.main import run

MB = 1_000_000


class Here:
    """A folder with a saved cluster, and the command line run in it."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capture = capture
        self.cluster = folder / "cluster.json"

    def write(self, name: str, document: object) -> Path:
        path = self.folder / name
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    def save_cluster(self, partitions: dict[str, tuple], **broker) -> None:
        """Save `{"t-0": ([1, 2], [1, 2], bytes, produced bytes/s)}` over brokers 0 to 4."""
        self.write(
            "cluster.json",
            {
                "format": "trimtab.cluster/1",
                "cluster_id": "saved",
                "fetched_at": "2026-01-01T12:00:00Z",
                "controller": 0,
                "brokers": [{"id": id, "alive": True} | broker for id in range(5)],
                "topics": [{"name": "t", "id": "t-id", "min_insync": 1}],
                "partitions": [
                    {
                        "topic": name.rpartition("-")[0],
                        "partition": int(name.rpartition("-")[2]),
                        "leader": replicas[0],
                        "replicas": replicas,
                        "isr": isr,
                        "size_bytes": size,
                        "in_bytes_per_s": produced,
                        "out_bytes_per_s": produced,
                    }
                    for name, (replicas, isr, size, produced) in partitions.items()
                ],
            },
        )

    def plan(self, name: str = "plan.json", **targets: list[int]) -> str:
        rows = [
            {"topic": "t", "partition": int(key.removeprefix("t")), "replicas": replicas}
            for key, replicas in targets.items()
        ]
        return str(self.write(name, {"version": 1, "partitions": rows}))

    def run(self, *arguments: str, offline: bool = True) -> tuple[int, str, str]:
        chosen = ["--from", str(self.cluster)] if offline else []
        code = run(lambda context: None, [*chosen, *arguments])
        out, err = self._capture.readouterr()
        check_answer(arguments, out)
        return code, out, err

    def json(self, *arguments: str) -> tuple[int, dict]:
        code, out, _ = self.run(*arguments, "--json")
        return code, json.loads(out)


@pytest.fixture
def saved(tmp_path, capsys, monkeypatch) -> Here:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "home"))
    place = Here(tmp_path, capsys)
    place.save_cluster(
        {
            "t-0": ([0, 1], [0, 1], 100 * MB, 700_000.0),
            "t-1": ([1, 2], [1, 2], 50 * MB, 0.0),
            "t-2": ([2, 0], [2, 0], 10 * MB, 0.0),
        }
    )
    return place
