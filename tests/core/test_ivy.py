"""Jars from Maven Central: brought once, and what is said when they cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import ivy, paths
from core.errors import TrimtabError
from core.ivy import Artifact, Jars
from core.java import Java

THING = Jars("The thing 1.0", (Artifact("org.thing", "thing_2.13", "1.0"),), (Artifact("org.x"),))

IVY = """#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in -retrieve) pattern=$2;; -ivy) cp "$2" "$TRIMTAB_HOME/module.xml";; esac
  shift
done
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    return Java(tmp_path / "java", 17, "17.0.1")


def script(java: Java, ends: str) -> None:
    """Have a Java that does this where Ivy is started."""
    java.path.write_text(IVY + ends)
    java.path.chmod(0o755)


def folder() -> Path:
    return paths.cache_dir() / "thing"


def test_jars_are_fetched_once(java: Java) -> None:
    script(java, 'mkdir -p "${pattern%/*}"; touch "${pattern%/*}/thing_2.13-1.0.jar"\n')
    ivy.fetch(THING, folder(), java, lambda _: None)
    module = (java.path.parent / "module.xml").read_text()
    assert 'org="org.thing" name="thing_2.13" rev="1.0"' in module
    assert '<exclude org="org.x" module="*"/>' in module
    script(java, "exit 1\n")
    ivy.fetch(THING, folder(), java, lambda _: None)
    assert [jar.name for jar in folder().iterdir()] == ["thing_2.13-1.0.jar"]


@pytest.mark.parametrize(
    "ends",
    [
        "echo 'Server access error: repo1.maven.org'; exit 1\n",
        # Ivy ends well where one artifact of several has no jar.
        "echo 'module not found: thing_2.13'\n",
    ],
)
def test_failed_download_names_the_folder_where_the_jars_would_have_to_be(
    java: Java, ends: str
) -> None:
    script(java, ends)
    with pytest.raises(TrimtabError, match="^The thing 1.0 could not be brought") as caught:
        ivy.fetch(THING, folder(), java, lambda _: None)
    assert str(folder()) in caught.value.next
    assert caught.value.detail
    assert not folder().exists()
