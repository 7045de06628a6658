"""Brings Kafka's jars to the cache, once, with the Ivy that PySpark carries.

Ivy gets settings and a cache of its own: the default ones also read the local Maven repository,
where a half-present artifact makes it fail.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from core import files, paths
from core.errors import TrimtabError, UsageError
from core.java import Java

KAFKA_VERSION = "4.3.1"
_LOGGING = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.1")

_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""

# Kafka's tools name Connect for its plugin scanner; brokers and the tools used here never load it.
_MODULE = """<ivy-module version="2.0">
  <info organisation="trimtab" module="sandbox"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
    <exclude org="org.apache.kafka" module="connect-runtime"/>
  </dependencies>
</ivy-module>
"""

Report = Callable[[str], None]


def fetch_jars(version: str, java: Java, say: Report) -> Path:
    """Return the folder with this version's jars, downloaded if need be; raises TrimtabError."""
    folder = paths.jars_dir(version)
    if folder.is_dir():
        return folder
    with files.locked(paths.cache_dir() / "kafka.lock"):
        if not folder.is_dir():
            _download(version, java, folder, say)
    return folder


def check_version(version: str) -> None:
    """Raise UsageError for a version that cannot be, or is from before KRaft stood alone."""
    match = re.fullmatch(r"(\d+)\.\d+\.\d+", version)
    if match is None or int(match[1]) < 4:
        raise UsageError(f"Not a Kafka version: {version!r}.", next="Say 4.0.0 or later.")


def classpath(jars: Path) -> str:
    """Return all jars in a fixed order: a class-data archive is good for one order only."""
    return os.pathsep.join(str(jar) for jar in sorted(jars.glob("*.jar")))


def _download(version: str, java: Java, folder: Path, say: Report) -> None:
    ivy = _ivy()
    paths.make_folder(folder.parent)
    say(f"Bringing Kafka {version} (about 45 MB, once)…")
    artifacts = (
        ("org.apache.kafka", "kafka_2.13", version),
        ("org.apache.kafka", "kafka-tools", version),
        _LOGGING,
    )
    dependencies = "\n".join(
        f'    <dependency org="{org}" name="{name}" rev="{rev}" conf="default->default"/>'
        for org, name, rev in artifacts
    )
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="bring-") as work:
        here = Path(work)
        settings, module, jars = here / "ivysettings.xml", here / "ivy.xml", here / "jars"
        settings.write_text(_SETTINGS.format(cache=paths.cache_dir() / "ivy"))
        module.write_text(_MODULE.format(dependencies=dependencies))
        pattern = f"{jars}/[artifact]-[revision](-[classifier]).[ext]"
        ended, lines = _run_ivy(
            [java.path, "-jar", ivy, "-settings", settings, "-ivy", module, "-retrieve", pattern],
            say,
        )
        if ended != 0 or not any(jars.glob("kafka_2.13-*.jar")):
            raise TrimtabError(
                f"Kafka {version} could not be brought from Maven Central.",
                detail="\n".join(_error_lines(lines)),
                next="Check the network and the version, then try again.",
            )
        jars.rename(folder)
    say(f"Kafka {version} is here.")


def _run_ivy(command: list[str | Path], say: Report) -> tuple[int, list[str]]:
    lines: list[str] = []
    brought = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        text=True, errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            if "[SUCCESSFUL" in line:
                brought += 1
                if brought % 10 == 0:
                    say(f"  {brought} jars…")
    return process.returncode, lines


def _error_lines(lines: list[str]) -> list[str]:
    """Return the lines in which Ivy says what failed; it says a great deal besides."""
    telling = [
        line.strip() for line in lines if re.search(r"(?i)not found|failed|error|unknown", line)
    ]
    return list(dict.fromkeys(telling))[:3] or lines[-3:]


def _ivy() -> Path:
    # PySpark is looked for, never imported: nothing but the pipeline may load it.
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    found = [jar for folder in folders or () for jar in Path(folder).glob("jars/ivy-*.jar")]
    if not found:
        raise TrimtabError(
            "The sandbox needs PySpark: its Ivy brings Kafka's jars.",
            next="Install trimtab[pipeline].",
        )
    return found[0]
