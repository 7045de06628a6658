"""A run and what follows it, through a SOCKS5 proxy that alone knows the cluster's name."""

from __future__ import annotations

import json
import os
from pathlib import Path

from on_kafka import client_with, trimtab, verify
from servers import socks_proxy

from core.cluster.sandbox.sandbox import Sandbox
from core.load.samples_topic import TOPIC as SAMPLES
from tests.sandbox_data import delete_topics


def test_a_run_reaches_all_brokers_by_the_proxy(sandbox: Sandbox, tmp_path: Path) -> None:
    bootstrap = f"kafka.invalid:{sandbox.node(1).port}"
    plan = tmp_path / "plan.json"
    moved = {"topic": "far", "partition": 0, "replicas": [3, 4]}
    plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    config = tmp_path / "config" / "config.toml"
    config.parent.mkdir()
    environment = os.environ | {"TRIMTAB_HOME": str(tmp_path)}
    targets: list[str] = []
    with client_with(sandbox, {"far": [(1, 2)]}, 100_000), socks_proxy(targets) as proxy:
        config.write_text(
            f'[clusters.far]\nbootstrap = "{bootstrap}"\nproxy = "socks5://{proxy}"\n'
        )
        words = ("--write", "apply", plan, "--yes", "--throttle", "5MB/s")
        applied = trimtab(bootstrap, *words, env=environment)
        assert applied.returncode == 0, applied.stderr
        assert "is completed" in verify(sandbox, plan)
        for words in (
            ("throttles", "ls", "--json"),
            ("probe", "--for", "3s", "--yes"),
            ("collect", "--to", "kafka", "--interval", "2s", "--once"),
        ):
            done = trimtab(bootstrap, "--write", *words, env=environment)
            assert done.returncode == 0, done.stderr
        delete_topics(sandbox.settings, [SAMPLES])
    advertised = {node.address for node in sandbox.nodes if node.id in (1, 2, 3, 4)}
    assert set(targets) >= {bootstrap, *advertised}
