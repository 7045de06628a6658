"""Files that earlier versions wrote, and commands to read them."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from core.cli.main import run

FILES = Path(__file__).parent / "files"


class Answer(NamedTuple):
    """What one command said."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        return json.loads(self.stdout)


Command = Callable[..., Answer]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    """Run one command line in this process."""

    def trimtab(*words: str | Path) -> Answer:
        capfd.readouterr()
        exit_code = run(lambda context: None, [str(word) for word in words])
        return Answer(exit_code, *capfd.readouterr())

    return trimtab


def unpack(name: str, into: Path) -> None:
    with tarfile.open(FILES / name) as archive:
        archive.extractall(into, filter="data")


@pytest.fixture
def home() -> Path:
    """Return the home of a user of version 0.1.0."""
    folder = Path(os.environ["TRIMTAB_HOME"])
    unpack("home.tar.xz", folder)
    return folder


def journals() -> dict[str, tuple[str, str, bytes]]:
    """Return (cluster id, run id, content) of the journals that are kept, by name."""
    with tarfile.open(FILES / "journals.tar.xz") as archive:
        journals_by_name = {}
        for member in archive.getmembers():
            name, cluster_id, file = member.name.split("/")
            content = archive.extractfile(member)
            assert content is not None
            journals_by_name[name] = (cluster_id, file.removesuffix(".run"), content.read())
        return journals_by_name
