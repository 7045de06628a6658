"""Brings jars from Maven Central to the cache, once, with the Ivy that PySpark carries.

Ivy gets settings and a cache of its own: the default ones also read the local Maven repository,
where a half-present artifact makes it fail. It is a Java of its own, so what `JAVA_TOOL_OPTIONS`
says of a proxy (`-Dhttps.proxyHost=…`) or a trust store holds for whatever is brought.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from core import files, paths
from core.errors import TrimtabError
from core.java import Java

_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
_MODULE = """<ivy-module version="2.0">
  <info organisation="trimtab" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
{excludes}
  </dependencies>
</ivy-module>
"""

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Artifact:
    """What Maven calls a group, an artifact and a version; what is left out is any."""

    group: str
    name: str = "*"
    version: str = "*"


@dataclass(frozen=True, slots=True)
class Jars:
    """Some artifacts with all that they need, but for `without`; `what` they are, in words."""

    what: str
    artifacts: Sequence[Artifact]
    without: Sequence[Artifact] = ()


def fetch(jars: Jars, folder: Path, java: Java, say: Report) -> None:
    """Have these jars in `folder`, downloaded if it is not there; raises TrimtabError."""
    if folder.is_dir():
        return
    with files.locked(paths.cache_dir() / "ivy.lock"):
        if not folder.is_dir():
            _download(jars, folder, java, say)


def _download(jars: Jars, folder: Path, java: Java, say: Report) -> None:
    ivy = _find_ivy_jar(jars.what)
    paths.make_folder(folder.parent)
    dependencies = "\n".join(
        f'    <dependency org="{artifact.group}" name="{artifact.name}" rev="{artifact.version}" '
        'conf="default->default"/>'
        for artifact in jars.artifacts
    )
    excludes = "\n".join(f'    <exclude org="{a.group}" module="{a.name}"/>' for a in jars.without)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="bring-") as work:
        here = Path(work)
        settings, module, place = here / "ivysettings.xml", here / "ivy.xml", here / "jars"
        settings.write_text(_SETTINGS.format(cache=paths.cache_dir() / "ivy"))
        module.write_text(_MODULE.format(dependencies=dependencies, excludes=excludes))
        pattern = f"{place}/[artifact]-[revision](-[classifier]).[ext]"
        ended, lines = _run_ivy(
            [java.path, "-jar", ivy, "-settings", settings, "-ivy", module, "-retrieve", pattern],
            say,
        )
        missing = [a.name for a in jars.artifacts if not any(place.glob(f"{a.name}-*.jar"))]
        if ended != 0 or missing:
            raise TrimtabError(
                f"{jars.what} could not be brought from Maven Central.",
                detail="\n".join(_error_lines(lines)),
                next=f"Check the network and the version, or put the jars into {folder} yourself.",
            )
        place.rename(folder)


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


def _find_ivy_jar(what: str) -> Path:
    # PySpark is looked for, never imported: nothing but the pipeline may load it.
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    jars = [jar for folder in folders or () for jar in Path(folder).glob("jars/ivy-*.jar")]
    if not jars:
        raise TrimtabError(
            f"{what} cannot be brought without PySpark: its Ivy brings jars.",
            next="Install trimtab with its extra `pipeline`.",
        )
    return jars[0]
