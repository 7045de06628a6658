"""A shell in which the commands of a page are run, as somebody at a terminal would type them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
from doc_pages import ROOT, blocks
from installed import TRIMTAB

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

    def newest_run(self) -> str:
        """Return the ID of the run that was started last."""
        runs: list[dict[str, Any]] = json.loads(self.run("trimtab runs ls --json")[1])
        return str(runs[0]["run"])

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
            text = re.sub(r"\bID\b", shell.newest_run(), line)
        code, printed[line] = shell.run(text)
        assert code == 0 or (code == 6 and re.search("plan suggest|doctor", text)), (
            f"{text}\n{printed[line]}"
        )
    return printed
