"""Finds the Java that runs brokers and Spark: 17 or 21, from JAVA_HOME or the PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from core.errors import TrimtabError

SUPPORTED = (17, 21)
USUAL_PLACES = ("usr/lib/jvm/*", "opt/java/*", "Library/Java/JavaVirtualMachines/*/Contents/Home")
REMEDY = "Install Java 17 or 21 and put `java` on the PATH, or set JAVA_HOME."


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that works here."""

    path: Path
    major: int
    version: str


def find_java() -> Java:
    """Return the Java of JAVA_HOME, else of the PATH.

    Where that one is of another version, a 17 or 21 in the usual places is taken. Raises
    TrimtabError, saying what to install, when there is none, it does not run, or none of them is
    17 or 21 (Spark 4.0 supports these two; Kafka 4 needs at least 17).
    """
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if path is None or not Path(path).exists():
        where = f"JAVA_HOME is {home}, and there is no bin/java in it" if home else "no Java here"
        raise TrimtabError(f"Java is missing: {where}.", next=REMEDY)
    java = _ask(path)
    if java.major in SUPPORTED:
        return java
    for place in USUAL_PLACES:
        for other in sorted(Path("/").glob(f"{place}/bin/java")):
            try:
                candidate = _ask(str(other))
            except TrimtabError:
                continue
            if candidate.major in SUPPORTED:
                return candidate
    raise TrimtabError(f"{path} is Java {java.version}; 17 or 21 is needed.", next=REMEDY)


def _ask(path: str) -> Java:
    try:
        answer = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise TrimtabError(f"{path} does not run: {error}.", next=REMEDY) from error
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', answer.stderr + answer.stdout)
    if match is None:
        raise TrimtabError(f"{path} does not say which Java it is.", next=REMEDY)
    return Java(Path(path), int(match[2]), match[1])
