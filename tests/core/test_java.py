"""Which Java is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import java
from core.errors import TrimtabError


def install(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("chosen", "other_versions", "found"),
    [
        ("17.0.15", [], "17.0.15"),
        ("25.0.1", ["21.0.2"], "21.0.2"),
        ("1.8.0_402", ["25", "17.0.1"], "17.0.1"),
        ("25.0.1", ["11.0.2"], None),
    ],
)
def test_supported_java_is_found_if_the_chosen_one_is_unsupported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chosen: str,
    other_versions: list[str],
    found: str | None,
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "chosen", chosen)))
    for version in other_versions:
        install(tmp_path / "jvm" / version, version)
    monkeypatch.setattr(java, "USUAL_PLACES", (f"{tmp_path}/jvm/*".lstrip("/"),))
    if found is None:
        with pytest.raises(TrimtabError, match=f"is Java {chosen}; 17 or 21 is needed"):
            java.find_java()
    else:
        assert java.find_java().version == found


def test_java_home_without_java_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TrimtabError, match="there is no bin/java in it"):
        java.find_java()
