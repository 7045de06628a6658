"""Kafka's jars for sandboxes: which version, where they lie, in which order they are loaded."""

from __future__ import annotations

import os
import re
from pathlib import Path

from core import ivy, paths
from core.errors import UsageError
from core.ivy import Artifact, Jars, Report
from core.java import Java

KAFKA_VERSION = "4.3.1"
OLDEST = (3, 9)
_LOGGING = Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.1")
# Kafka's tools name Connect for its plugin scanner; brokers and the tools used here never load it.
_CONNECT = Artifact("org.apache.kafka", "connect-runtime")
# Kafka 3 brings its own way to log, and which of two is taken is nobody's choice.
_OTHER_LOGGING = Artifact("org.slf4j", "slf4j-reload4j")


def fetch_jars(version: str, java: Java, say: Report) -> Path:
    """Return the folder with this version's jars, downloaded if need be; raises TrimtabError."""
    folder = paths.jars_dir(version)
    if not folder.is_dir():
        say(f"Bringing Kafka {version} (about 45 MB, once)…")
        ours = tuple(
            Artifact("org.apache.kafka", name, version) for name in ("kafka_2.13", "kafka-tools")
        )
        without = (_CONNECT, _OTHER_LOGGING)
        ivy.fetch(Jars(f"Kafka {version}", (*ours, _LOGGING), without), folder, java, say)
        say(f"Kafka {version} is here.")
    return folder


def check_version(version: str) -> None:
    """Raise UsageError for a version that cannot be, or is from before the oldest supported."""
    match = re.fullmatch(r"(\d+)\.(\d+)\.\d+", version)
    if match is None:
        raise UsageError(f"Not a Kafka version: {version!r}.", next=f"Give {KAFKA_VERSION}.")
    if (int(match[1]), int(match[2])) < OLDEST:
        raise UsageError(f"Kafka {version} is too old for a sandbox.", next="Give 3.9.0 or later.")


def classpath(jars: Path) -> str:
    """Return all jars in a fixed order: a class-data archive is good for one order only."""
    return os.pathsep.join(str(jar) for jar in sorted(jars.glob("*.jar")))
