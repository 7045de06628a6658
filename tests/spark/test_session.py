"""How a session ends."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from core.pipeline import session


@pytest.mark.parametrize("in_time", [True, False])
def test_only_an_archive_that_java_has_ended_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_time: bool
) -> None:
    # The JVM of the other tests goes on.
    monkeypatch.setattr(session, "_forget_gateway", lambda: None)
    archive, aside = tmp_path / "spark.jsa", tmp_path / ".1-spark.jsa"
    aside.write_bytes(b"half of it, perhaps")
    process = Mock()
    process.wait.side_effect = [None] if in_time else [subprocess.TimeoutExpired("java", 60), None]
    spark = Mock(sparkContext=SimpleNamespace(_gateway=Mock(proc=process)))
    session.Session(spark, archive, aside).stop()
    assert process.kill.called is not in_time
    assert archive.exists() is in_time
    assert not aside.exists()
