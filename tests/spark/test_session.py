"""How a session ends."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from core.pipeline import session


@pytest.mark.parametrize("in_time", [True, False])
def test_class_archive_is_kept_only_if_java_exits_in_time(
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


@pytest.mark.parametrize(
    ("came_as", "sent"),
    [
        ("site-packages", ["core/__init__.py", "core/deep/one.py"]),
        ("trimtab-0.2.0.whl", ["core/__init__.py", "tui/__init__.py"]),
        ("trimtab.zip", None),  # Spark gives workers that, and they look into it
    ],
)
def test_workers_get_the_code_whether_installed_as_directory_wheel_or_zip(
    came_as: str, sent: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / came_as
    if came_as == "site-packages":
        (source / "core" / "deep").mkdir(parents=True)
        for name in ("core/__init__.py", "core/deep/one.py", "other.py"):
            (source / name).touch()
    else:
        with zipfile.ZipFile(source, "w") as file:
            for name in ("core/__init__.py", "tui/__init__.py"):
                file.writestr(name, "")
    monkeypatch.setattr("core.__file__", str(source / "core" / "__init__.py"))
    spark = Mock()
    folder = session._ship_code(spark)
    if sent is None:
        assert folder is None
        spark.sparkContext.addPyFile.assert_not_called()
        return
    assert folder is not None
    (archive,) = spark.sparkContext.addPyFile.call_args.args
    assert archive.endswith(".zip")
    assert sorted(zipfile.ZipFile(archive).namelist()) == sent
    folder.cleanup()
