"""Builds the bundles: a file each with trimtab and all that it needs, for one Python and glibc.

A bundle is a PEX that unpacks itself into a virtual environment when it is first called: what it
starts in the background finds the same libraries by `sys.executable`. Before PEX's own first lines
stands `check.sh`, which refuses in one sentence where the bundle cannot run.
"""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHEBANG = b"#!/bin/sh\n"
EXTRAS = {"": "", "spark": "[pipeline]"}
"""Bundles by the word in their names: the extras of the wheel that are in them."""
PIP = "26.2.1"
"""The pip that resolves; PEX's own is of 2020, and leaves out extras that constraints name."""
_MANYLINUX = re.compile(r"manylinux(?:_2_(\d+)|(2014|2010|1))_")
_OLDER = {"2014": 17, "2010": 12, "1": 5}
"""Minor versions of glibc that older tags stand for (PEP 600)."""


def needed_glibc(wheels: Iterable[str]) -> int | None:
    """Return the minor version of glibc 2 that all of these wheels run on; None for no wheel's.

    One of several tags is enough for a wheel.
    """
    versions = []
    for wheel in wheels:
        tags = _MANYLINUX.findall(wheel)
        if tags:
            versions.append(min(int(new) if new else _OLDER[old] for new, old in tags))
    return max(versions, default=None)


def checks(version: tuple[int, int], system: str, glibc: int | None) -> bytes:
    """Return the lines of sh that refuse where another Python, system or glibc is."""
    text = (ROOT / "release" / "check.sh").read_text(encoding="utf-8")
    values = {
        "MAJOR": str(version[0]),
        "MINOR": str(version[1]),
        "SYSTEM": system,
        "GLIBC": "" if glibc is None else str(glibc),
    }
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text.encode()


def with_checks(bundle: bytes, lines: bytes) -> bytes:
    """Return a PEX that begins as a script of sh with these lines at its beginning."""
    if not bundle.startswith(SHEBANG):
        raise ValueError("it does not begin as a script of sh")
    return SHEBANG + lines + bundle.removeprefix(SHEBANG)


def build(wheel: Path, word: str) -> Path:
    """Build one bundle beside its wheel, with the versions of constraints.txt; return its path."""
    version = sys.version_info[:2]
    system = f"{platform.system()} {platform.machine()}"
    name = "-".join(
        part
        for part in (
            "-".join(wheel.name.split("-")[:2]),
            word,
            f"py{version[0]}{version[1]}",
            system.lower().replace(" ", "-"),
        )
        if part
    )
    path = wheel.with_name(f"{name}.pex")
    subprocess.run(
        [
            *(sys.executable, "-P", "-m", "pex", f"{wheel}{EXTRAS[word]}"),
            *("--constraints", ROOT / "constraints.txt", "--use-pip-config"),
            *("--pip-version", PIP, "--console-script", "trimtab", "--venv", "--sh-boot"),
            *("--interpreter-constraint", f"CPython=={version[0]}.{version[1]}.*"),
            *("--output-file", path),
        ],
        check=True,
    )
    wheels = {
        name.split("/")[1] for name in zipfile.ZipFile(path).namelist() if name.count("/") > 1
    }
    lines = checks(version, system, needed_glibc(wheels))
    # Seen whole or not at all, also where an older one is being run.
    aside = path.with_suffix(".part")
    aside.write_bytes(with_checks(path.read_bytes(), lines))
    aside.chmod(path.stat().st_mode)
    return aside.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the wheel is, and bundles go")
    (wheel,) = parser.parse_args().folder.absolute().glob("trimtab-*.whl")
    for word in EXTRAS:
        path = build(wheel, word)
        print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
