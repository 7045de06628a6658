"""`trimtab completion`: the script, and what it asks trimtab as one types."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from in_process import Trimtab

from core import paths
from core.cli.completion import SHELLS, VARIABLE
from core.cluster.known_names import check_name
from core.errors import ExitCode


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_script_is_printed_for_each_shell(trimtab: Trimtab, shell: str) -> None:
    code, out, _ = trimtab("completion", shell)
    assert code == ExitCode.DONE
    assert f"{VARIABLE}={shell}_complete" in out


def test_bash_accepts_its_completion_script(trimtab: Trimtab) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    _, out, _ = trimtab("completion", "bash")
    done = subprocess.run(
        [bash, "-c", f"{out}\ncomplete -p trimtab"], capture_output=True, text=True, check=True
    )
    assert "_trimtab_completion" in done.stdout


def completed(*words: str) -> list[str]:
    """Return what may stand for the last word, of a process as a shell starts it."""
    asked = {VARIABLE: "bash_complete", "COMP_WORDS": " ".join(("trimtab", *words))}
    process = subprocess.run(
        [sys.executable, "-P", "-m", "tui"],
        env={**os.environ, **asked, "COMP_CWORD": str(len(words))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stderr == ""
    return [line.partition(",")[2] for line in process.stdout.split()]


@pytest.mark.usefixtures("trimtab")
def test_commands_options_and_names_of_clusters_are_completed() -> None:
    paths.config_dir().mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text('[clusters.prod-eu]\nbootstrap = "b1:9092"\n')
    assert completed("thr") == ["throttles"]
    assert completed("plan", "sugg") == ["suggest"]
    assert completed("show", "--me") == ["--metric"]
    assert completed("--cluster", "pr") == ["prod-eu"]
    check_name("prod-eu", "an-id")
    check_name("staging", "another-id")
    assert completed("clusters", "forget", "pr") == ["prod-eu"]
    assert completed("snapshot", "ls", "--cluster-id", "st") == ["staging"]
    paths.config_file().write_text("[clusters")
    assert completed("--cluster", "pr") == []
