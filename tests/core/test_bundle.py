"""What bundles are made with: the glibc that they need, and what they say where they cannot run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from release.bundle import SHEBANG, checks, needed_glibc, with_checks

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {
    "uname": "case $1 in -s) echo Linux;; *) echo x86_64;; esac",
    "getconf": "echo glibc 2.36",
    "python3.12": "echo never called",
}


@pytest.mark.parametrize(
    ("wheels", "needed"),
    [
        (["click-8.5.1-py3-none-any.whl"], None),
        (["a-1-cp311-cp311-manylinux_2_28_x86_64.whl", "b-1-py3-none-any.whl"], 28),
        (["a-1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"], 17),
        (["a-1-cp311-abi3-manylinux_2_34_x86_64.whl", "b-1-cp311-cp311-manylinux1_x86_64.whl"], 34),
        (["a-1-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl"], 27),
    ],
)
def test_a_bundle_needs_the_newest_glibc_of_its_wheels(
    wheels: list[str], needed: int | None
) -> None:
    assert needed_glibc(wheels) == needed


@pytest.mark.parametrize(
    ("programs", "sentence"),
    [
        ({}, None),
        ({"getconf": "echo glibc 2.17"}, r"needs glibc 2\.28 or newer.* has 2\.17"),
        ({"getconf": "echo glibc 2.9.1"}, r"needs glibc 2\.28 or newer.* has 2\.9\.1"),
        ({"getconf": "exit 1"}, r"needs glibc 2\.28 or newer.* has none"),
        ({"uname": "echo aarch64"}, "is for Linux x86_64"),
        ({"python3.12": ""}, r"needs Python 3\.12"),
        ({"python3.12": "", "python3": "exit 1"}, r"needs Python 3\.12"),
        ({"python3.12": "", "python3": "exit 0"}, None),
    ],
)
def test_bundle_that_cannot_run_reports_the_reason_in_one_sentence(
    tmp_path: Path, programs: dict[str, str], sentence: str | None
) -> None:
    for name, body in (PROGRAMS | programs).items():
        if body:
            (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
            (tmp_path / name).chmod(0o755)
    bundle = tmp_path / "bundle"
    bundle.write_bytes(with_checks(SHEBANG + b"echo started", checks((3, 12), "Linux x86_64", 28)))
    done = subprocess.run(
        ["/bin/sh", bundle],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if sentence is None:
        assert (done.returncode, done.stdout, done.stderr) == (0, "started\n", "")
    else:
        assert (done.returncode, done.stdout) == (1, "")
        assert re.fullmatch(rf"trimtab: this bundle .*{sentence}.*\.\n", done.stderr)


def test_checks_are_refused_for_a_file_that_is_no_sh_script() -> None:
    with pytest.raises(ValueError, match="script of sh"):
        with_checks(b"PK", b"")


def test_containerfile_copies_only_paths_that_containerignore_lets_through() -> None:
    """Each path is let through by .containerignore, and is in the repository or built."""
    text = (ROOT / "Containerfile").read_text()
    ignored = (ROOT / ".containerignore").read_text().split()
    assert ignored[0] == "*"
    copied = [word for line in re.findall(r"^COPY (.*) \S+$", text, re.M) for word in line.split()]
    assert copied
    for path in copied:
        assert f"!{path}" in ignored, path
        assert (ROOT / path).exists() or path == "dist/trimtab-*.whl", path
