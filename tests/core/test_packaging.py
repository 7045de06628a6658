"""What is installed: the product, its data, and nothing of the tests."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest

from core.pipeline.session import EXTRA

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built).namelist()


def test_the_wheel_holds_the_product_and_nothing_of_the_tests(wheel: list[str]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    ours = {top for top in tops if not top.endswith((".dist-info", ".data"))}
    assert ours == {"core", "tui", "themes"}


def test_wheel_installs_the_manual_page_where_man_finds_it(wheel: list[str]) -> None:
    (data,) = (name for name in wheel if name.split("/")[0].endswith(".data"))
    assert data.partition("/")[2] == "data/share/man/man1/trimtab.1"


def test_wheel_includes_the_themes_as_data(wheel: list[str]) -> None:
    assert {"themes/dark.toml", "themes/light.toml"} <= set(wheel)


def test_every_dependency_and_build_requirement_is_pinned() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, builds = document["project"], document["build-system"]["requires"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(name for extra in extras for name in extra)]
    # An editable install asks the build backend for one more.
    wanted += [*builds, "editables", *(n for n in requires("hatchling") or () if ";" not in n)]
    pinned = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    names = {re.split("[<>=[]", name)[0].lower() for name in wanted}
    assert names <= pinned


def test_packages_that_the_pipeline_needs_are_those_of_its_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installed = {
        re.split("[<>=[]", name)[0] for name in project["optional-dependencies"]["pipeline"]
    }
    assert installed == set(EXTRA)
