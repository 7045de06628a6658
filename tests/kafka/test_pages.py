"""The tutorial and the how-to pages, played on real brokers as somebody at a terminal would."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest
from doc_pages import ROOT, blocks
from installed import TRIMTAB
from on_kafka import client_with, require_room

from core import paths
from core.cluster.sandbox.sandbox import Sandbox

DOCS = ROOT / "docs"
LONGEST_SECONDS = 600.0
"""How long a command may take on a busy machine: some follow a run to its end."""
NAME_ASKED = r"Type (\S+) to [\w ]+: "


class Shell:
    """A bash in a terminal; it types the name of the cluster wherever a command asks for it."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        kept = {name: value for name, value in os.environ.items() if name[:7] != "TRIMTAB"}
        kept["TRIMTAB_TIMEOUT"] = "60s"  # a busy machine is slow
        path = f"{Path(TRIMTAB).parent}:{kept['PATH']}"
        self._bash = pexpect.spawn(
            "bash",
            ["--norc", "--noprofile"],
            cwd=str(folder),
            env={**kept, "PATH": path, "PS1": "", "TERM": "xterm-256color", **variables},  # type: ignore[arg-type]
            dimensions=(40, 120),
            timeout=LONGEST_SECONDS,
            encoding="utf-8",
            echo=False,
        )
        self._bash.sendline("PS1=; PS2=; bind 'set enable-bracketed-paste off' 2>/dev/null")
        self.run("true")

    def run(self, line: str) -> tuple[int, str]:
        """Return the exit code of one line, and what it has printed."""
        self._bash.sendline(f'{line}; echo "exit=$?."')
        printed = ""
        while self._bash.expect([NAME_ASKED, r"exit=(\d+)\.\r\n"]) == 0:
            printed += self._bash.before
            self._bash.sendline(self._bash.match[1])
        return int(self._bash.match[1]), (printed + self._bash.before).replace("\r\n", "\n")

    def close(self) -> None:
        self._bash.close(force=True)


@contextmanager
def shell(folder: Path, **variables: str) -> Iterator[Shell]:
    made = Shell(folder, variables)
    try:
        yield made
    finally:
        made.close()


def lines(page: str) -> list[str]:
    """Return the commands of a page, in order."""
    text = "\n".join(blocks(DOCS / page, "sh")).replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip()]


def play(shell: Shell, page: str, topic: str | None = None) -> dict[str, str]:
    """Run a page's commands in order, each of which must succeed; returns what they printed.

    Plans are of this topic alone where one is given. Exit code 6 will do of a plan, as what brokers
    carry differs each time, and of `doctor`, as machines do.
    """
    printed = {}
    for line in lines(page):
        text = line
        if topic is not None and "--topics" not in line:
            text = line.replace("plan suggest", f"plan suggest --topics {topic}")
        if re.search(r"\bID\b", line):
            newest = re.search(r'"run": "([^"]+)"', shell.run("trimtab runs ls --json")[1])
            assert newest, "no run"
            text = re.sub(r"\bID\b", newest[1], line)
        code, printed[line] = shell.run(text)
        assert code == 0 or (code == 6 and re.search("plan suggest|doctor", text)), (
            f"{text}\n{printed[line]}"
        )
    return printed


@pytest.fixture
def home(sandbox: Sandbox, tmp_path: Path) -> Path:
    """A home in which nothing is kept yet, but for Kafka's jars, which the session has."""
    made = tmp_path / "home"
    (made / "cache").mkdir(parents=True)
    (made / "cache" / "kafka").symlink_to(paths.jars_dir(sandbox.kafka).parent)
    return made


def test_the_tutorial(home: Path, tmp_path: Path) -> None:
    with shell(tmp_path, TRIMTAB_HOME=str(home)) as bash:
        try:
            printed = play(bash, "tutorial/sandbox.md")
        finally:
            bash.run("trimtab sandbox down")
    assert "as planned, all in sync" in printed["trimtab verify plan.json"]
    assert printed["trimtab throttles ls"] == "No throttle is set.\n"
    assert "all intact" in printed["trimtab audit verify"]
    assert "done: " in printed["trimtab apply plan.json --throttle 10MB/s --elect"]
    assert "done: " in printed["trimtab runs rollback ID"]
    assert (tmp_path / "report.md").is_file()
    assert not (home / "data" / "sandbox" / "default").exists()


HOW_TO = {
    "drain-broker": ([[1, 2], [3, 2], [2, 3]], lambda rows: all(3 not in row for row in rows)),
    "add-broker": ([[1, 2], [3, 2], [2, 1]] * 3, lambda rows: any(4 in row for row in rows)),
    "replace-broker": ([[3, 1], [1, 3]], lambda rows: rows == [(4, 1), (1, 4)]),
    "replication-factor": ([[1, 2], [2, 3]], lambda rows: all(len(row) == 3 for row in rows)),
}
"""The replicas of `orders` before each page (racks a, b, a, b), and what must hold afterwards."""


@pytest.mark.parametrize("page", HOW_TO)
def test_how_to(page: str, sandbox: Sandbox, home: Path, tmp_path: Path) -> None:
    layout, holds = HOW_TO[page]
    require_room(sandbox)
    variables = {"TRIMTAB_HOME": str(home), "TRIMTAB_BOOTSTRAP": sandbox.bootstrap}
    with (
        client_with(sandbox, {"orders": layout}, 100_000) as client,
        shell(tmp_path, **variables) as bash,
    ):
        play(bash, f"how-to/{page}.md", topic="orders")
        state = client.describe_cluster()
        rows = [state.replicas(row) for row in state.partitions_of("orders")]
    assert holds(rows), rows
