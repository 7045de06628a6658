"""The root command: what every command line has in common, and how it is interrupted."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cli_help import every_command
from in_process import Trimtab

from core import paths
from core.cli import main as cli
from core.cli.common.context import Context
from core.errors import ExitCode, RefusedError


def never(context: Context) -> None:
    raise AssertionError("the dashboard must not open")


@pytest.fixture(autouse=True)
def home(trimtab: Trimtab, tmp_path: Path) -> Path:
    return tmp_path


def test_missing_cluster_is_a_usage_error(trimtab: Trimtab) -> None:
    code, _, err = trimtab()
    assert (code, "No cluster is given." in err) == (ExitCode.USAGE, True)


def test_relative_home_is_resolved_against_the_starting_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIMTAB_HOME", "mine")
    assert cli.run(never, ["runs", "ls"]) == ExitCode.DONE
    monkeypatch.chdir("/")  # as a run's process
    assert paths.data_dir() == tmp_path / "mine" / "data"


def test_without_a_command_the_dashboard_opens() -> None:
    opened: list[Context] = []
    assert cli.run(opened.append, ["-b", "localhost:1", "--write", "--ascii"]) == ExitCode.DONE
    (context,) = opened
    assert context.target.address is not None
    assert context.target.address.bootstrap == "localhost:1"
    assert context.write
    assert context.ascii_only


def test_every_command_and_every_option_has_its_help() -> None:
    for words, command in [("", cli.root), *every_command(cli.root)]:
        assert command.help, words
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{words} {option.opts[-1]}"
                assert option.help[0].isupper(), f"{words} {option.opts[-1]}"
                assert option.help.endswith((".", ")")), f"{words} {option.opts[-1]}"


@pytest.mark.parametrize("words", [["--frobnicate"], ["frobnicate"], ["plan", "frobnicate"]])
def test_unknown_commands_and_options_are_a_usage_error(trimtab: Trimtab, words: list[str]) -> None:
    code, _, err = trimtab(*words)
    assert (code, "frobnicate" in err) == (ExitCode.USAGE, True)


def options() -> Iterator[tuple[str, ...]]:
    """Yield every option that takes a value, after the command that it goes with."""
    for words, command in (("", cli.root), *every_command(cli.root)):
        for option in command.params:
            if isinstance(option, click.Option) and not option.is_flag:
                yield (*words.split(), max(option.opts, key=len))


def test_every_command_refuses_an_empty_option_value(
    trimtab: Trimtab,
) -> None:
    every = list(options())
    assert ("plan", "suggest", "--drain") in every
    for *words, option in every:
        code, out, err = trimtab(*words, option, "")
        assert code == ExitCode.USAGE, (words, option)
        is_named = f"trimtab: {option} is empty.\n" in err or f"Invalid value for '{option}" in err
        assert is_named or f" / '{option}'" in err, (words, option, err)
        assert not out


def test_error_is_printed_as_its_sentences_and_sets_the_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(context: Context) -> None:
        raise RefusedError("Not so.", detail="Because.", next="Do this.", checks=("disk",))

    assert cli.run(refuse, ["-b", "localhost:1"]) == ExitCode.REFUSED
    assert capsys.readouterr().err == "trimtab: Not so.\nBecause.\nDo this.\n"


def test_bug_traceback_is_logged_and_not_printed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(context: Context) -> None:
        raise KeyError("surprise")

    assert cli.run(broken, ["-b", "localhost:1"]) == ExitCode.FAILED
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    log = home / "log" / "bugs.log"
    assert str(log) in shown
    assert "KeyError (of 10 characters)" in log.read_text()
    assert "in broken\n" in log.read_text()


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from tui.__main__ import main\n"
        "sys.argv = ['trimtab', '--help']\n"
        "try:\n main()\nexcept SystemExit: pass\n"
        "heavy = {'textual', 'pyspark', 'pyarrow', 'numpy', 'confluent_kafka'}\n"
        "heavy |= {'tomllib', 'logging'}  # of each call's tenth of a second\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    assert "Balance Kafka clusters" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["doctor", "-b", "b:9092"], "-b belongs before the command: trimtab -b … doctor"),
        (
            ["plan", "check", "p", "--from", "c"],
            "--from belongs before the command: trimtab --from …",
        ),
        (["show", "--no-load"], "--no-load belongs before the command: trimtab --no-load show"),
        (["show", "--frobnicate"], "No such option '--frobnicate'"),
    ],
)
def test_global_option_after_a_command_is_refused_with_its_correct_place(
    trimtab: Trimtab, words: list[str], message: str
) -> None:
    code, _, err = trimtab(*words)
    assert (code, message in err) == (ExitCode.USAGE, True), err


def fails_with(error: OSError) -> int:
    def broken(context: Context) -> None:
        raise error

    return cli.run(broken, ["-b", "localhost:1"])


@pytest.mark.parametrize(
    ("number", "below_home", "advice"),
    [
        (errno.EACCES, True, "name another folder in TRIMTAB_HOME"),
        (errno.EROFS, True, "name another folder in TRIMTAB_HOME"),
        (errno.EACCES, False, "Make /elsewhere usable for this user."),
        (errno.ENOSPC, True, "Make room there, or name another folder in TRIMTAB_HOME"),
        (errno.ENOSPC, False, "Make room there"),
        (errno.EDQUOT, True, "Make room there"),
        (errno.EIO, True, "name another folder in TRIMTAB_HOME"),
    ],
)
def test_file_system_errors_are_reported_in_a_sentence_and_not_as_a_bug(
    home: Path, capsys: pytest.CaptureFixture[str], number: int, below_home: bool, advice: str
) -> None:
    place = str(home / "data" / "x") if below_home else "/elsewhere"
    assert fails_with(OSError(number, os.strerror(number), place)) == ExitCode.FAILED
    err = capsys.readouterr().err
    assert err.startswith(f"trimtab: Cannot use {place}: {os.strerror(number)}.\n")
    assert advice in err
    assert "bug" not in err


@pytest.mark.parametrize("what", ["dangling link", "file"])
def test_home_that_cannot_be_created_fails_with_a_clear_message(
    trimtab: Trimtab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    place = tmp_path / "place"
    if what == "file":
        place.write_text("")
    else:
        place.symlink_to(tmp_path / "nowhere" / "there")
    monkeypatch.setenv("TRIMTAB_HOME", str(place))
    code, _, err = trimtab("demo", "--brokers", "3", "--partitions", "100")
    assert code == ExitCode.FAILED
    assert err.startswith(f"trimtab: Cannot use {place}")
    assert "another folder in TRIMTAB_HOME" in err
    code, out, _ = trimtab("doctor")
    assert (code, f"{place} is not a folder" in out) == (ExitCode.NO, True)


def test_full_disk_error_without_a_file_name_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert fails_with(OSError(errno.ENOSPC, "No space left on device")) == ExitCode.FAILED
    assert capsys.readouterr().err.startswith("trimtab: Cannot go on: No space left on device.\n")


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EEXIST, errno.EBADF, errno.EINVAL])
@pytest.mark.parametrize("place", [None, "/elsewhere", "data"])
def test_os_errors_that_no_user_causes_are_reported_as_a_bug(
    home: Path, capsys: pytest.CaptureFixture[str], number: int, place: str | None
) -> None:
    where = None if place is None else str(home / place)
    assert fails_with(OSError(number, os.strerror(number), where)) == ExitCode.FAILED
    assert "this is a bug in trimtab" in capsys.readouterr().err
    assert os.strerror(number) in (home / "log" / "bugs.log").read_text()


@pytest.mark.parametrize(
    ("command", "near"),
    [("topic", " Did you mean topics"), ("verfy", " Did you mean verify?"), ("xyz", "")],
)
def test_unknown_command_is_refused_with_the_nearest_command_name(
    trimtab: Trimtab, command: str, near: str
) -> None:
    code, _, err = trimtab(command)
    assert (code, f"No such command '{command}'.{near}" in err) == (ExitCode.USAGE, True)


INTERRUPT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from tui.__main__ import main
sys.argv = ["trimtab", "--from", {saved!r}, "show"]
{before}
main()
"""


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = tmp_path / "cluster.json"
    partitions = [{"topic": "t", "partition": 0, "leader": 1, "replicas": [1]}]
    path.write_text(json.dumps({"brokers": [{"id": 1}], "partitions": partitions}))
    return str(path)


def interrupted(saved: str, module: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run `show`, interrupted when `module` is imported for the first time."""
    return subprocess.run(
        [sys.executable, "-P", "-c", INTERRUPT.format(module=module, saved=saved, before=before)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    "module",
    [
        "core.cli.main",
        "click",
        "numpy",
        "core.load.view.heat",
    ],
)
def test_ctrl_c_during_startup_exits_with_130_without_output(saved: str, module: str) -> None:
    done = interrupted(saved, module)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "trimtab: stopped.")


def test_ctrl_c_at_process_exit_ends_with_130_after_the_answer(saved: str) -> None:
    at_exit = (
        "import atexit, signal\natexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
    )
    done = interrupted(saved, "none", at_exit)
    assert (done.returncode, done.stderr.strip()) == (130, "trimtab: stopped.")
    assert "skew" in done.stdout


def test_ignored_sigint_does_not_stop_the_command(saved: str) -> None:
    """As `nohup` and shells do for what runs in the background."""
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    done = interrupted(saved, "click", ignored)
    assert (done.returncode, done.stderr) == (0, "")


def test_version_is_printed_with_python_and_library_versions(trimtab: Trimtab) -> None:
    code, out, _ = trimtab("--version")
    first, *others = out.splitlines()
    assert code == ExitCode.DONE
    assert first.startswith("trimtab ")
    assert [line.split()[0] for line in others] == ["Python", *cli.LIBRARIES]


def test_short_help_option_works_for_every_command(trimtab: Trimtab) -> None:
    for words in ((), ("runs",), ("runs", "ls")):
        assert trimtab(*words, "-h") == trimtab(*words, "--help")
