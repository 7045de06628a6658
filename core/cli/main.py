"""The root command `trimtab`: global options, lazy commands, and the one place errors end.

Commands are imported when asked for, so that `--help` stays quick and imports neither Textual nor
pyarrow nor pyspark.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from core import bug_log, paths
from core.cli.common.context import Context, Target
from core.cli.common.options import Group
from core.cli.common.output import discard_output, print_lines, say
from core.errors import ExitCode, TrimtabError

COMMANDS: dict[str, tuple[str, str]] = {
    "apply": ("runs.apply", "Carry out a plan."),
    "audit": ("cluster.audit", "Show and verify the record of changes."),
    "autopilot": ("autopilot.autopilot", "Keep the cluster balanced automatically."),
    "bug-report": ("installation.bug_report", "Write an archive for the report of a bug."),
    "clusters": ("cluster.clusters", "List the clusters of config.toml."),
    "collect": ("load.collect", "Poll the cluster and write load samples."),
    "completion": ("completion", "Print the completion script of a shell."),
    "demo": ("sandbox.demo", "Open the dashboard on a simulated cluster."),
    "doctor": ("cluster.doctor", "Check this machine and the cluster for problems."),
    "elect": ("cluster.elect", "Elect preferred leaders."),
    "estimate": ("plan.estimate", "Estimate a plan's duration or throttle."),
    "groups": ("cluster.groups", "Describe groups: members, offsets, lag."),
    "pipeline": ("load.pipeline", "Turn load samples into snapshots, on Spark."),
    "plan": ("plan.check_diff", "Suggest, check, compare and convert plans."),
    "replicas": ("cluster.replicas", "Check that replicas hold the same records."),
    "probe": ("cluster.probe", "Measure client latency and errors by broker."),
    "runs": ("runs.runs", "List, follow and control runs."),
    "sandbox": ("sandbox.sandbox", "Run real Kafka brokers on this machine."),
    "service": ("installation.service", "Keep collector, recorder or autopilot running."),
    "show": ("cluster.show", "Print the heat map or the cluster document."),
    "snapshot": ("load.snapshot", "List, show and verify load snapshots."),
    "statelog": ("timeline.statelog", "Merge the brokers' state-change logs."),
    "throttles": ("cluster.throttles", "List and clear replication throttles."),
    "timeline": ("timeline.timeline", "Show what happened in the cluster."),
    "topics": ("topics.topics", "List, describe, create, alter and delete topics."),
    "verify": ("plan.verify", "Check that the cluster matches a plan."),
}
"""The module of each command below `core.cli`, where it has its own name (`_` for `-`), and its
help."""

OpenDashboard = Callable[[Context], None]


class Invocation(NamedTuple):
    """How the root command came about; `is_process` when it is all that its process does."""

    open_dashboard: OpenDashboard
    is_process: bool


class _OutputClosedError(Exception):
    """Who read our output (head, less) has seen enough."""


class LazyGroup(Group):
    """A group whose commands are imported when they are invoked."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _translate_broken_pipe():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _translate_broken_pipe():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"core.cli.{COMMANDS[cmd_name][0]}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from core.patterns import nearly

            ctx.fail(f"No such command {name!r}. {nearly(name, COMMANDS)}".rstrip())
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in sorted(COMMANDS.items())])


@contextlib.contextmanager
def _translate_broken_pipe() -> Iterator[None]:
    """Take a broken pipe out of click's hands: it would make it a failure."""
    try:
        yield
    except BrokenPipeError as error:
        raise _OutputClosedError from error


def _print_versions(ctx: click.Context, _: click.Parameter, requested: bool) -> None:
    """Print this program's version, and on further lines those of what it stands on."""
    if not requested or ctx.resilient_parsing:
        return
    print_lines("\n".join(version_lines()))
    ctx.exit()


def version_lines() -> list[str]:
    """Return this program's version, Python's, and those of LIBRARIES, a line each."""
    from importlib.metadata import PackageNotFoundError, version

    def installed_version(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "not installed"

    python = ".".join(map(str, sys.version_info[:3]))
    lines = [f"trimtab {installed_version('trimtab')}", f"Python {python}"]
    return lines + [f"{name} {installed_version(name)}" for name in LIBRARIES]


def _complete_cluster(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of config.toml that begin so; none where it cannot be read."""
    from core.settings import load_settings

    try:
        return sorted(name for name in load_settings().clusters if name.startswith(incomplete))
    except TrimtabError:
        return []


LIBRARIES = ("kafka-python", "confluent-kafka", "textual", "pyarrow", "pyspark")


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("-b", "--bootstrap", metavar="HOST:PORT,…", help="Brokers to connect to first.")
@click.option(
    "--cluster",
    "cluster_name",
    metavar="NAME",
    shell_complete=_complete_cluster,
    help="Name of a cluster in config.toml.",
)
@click.option(
    "--command-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with Kafka client properties.",
)
@click.option(
    "--from",
    "from_file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Work offline on a saved cluster document, or - for stdin.",
)
@click.option(
    "--snapshots",
    metavar="PATH",
    help="Folder or object store that load snapshots are published to (default: trimtab's own).",
)
@click.option(
    "--timeout",
    metavar="TIME",
    help="Time to wait for an answer of the cluster (default: 10s).",
)
@click.option(
    "--write", is_flag=True, help="Allow the dashboard to change the cluster (default: read-only)."
)
@click.option(
    "--no-load", is_flag=True, help="Do not start a collector, Spark or a timeline recorder."
)
@click.option(
    "--theme", metavar="NAME", help="Theme of the dashboard (default: that of config.toml)."
)
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters only.")
@click.option(
    "--no-mouse",
    is_flag=True,
    help="Do not use the mouse; the terminal keeps it for selecting text.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Show the version, and those of the libraries beneath, and exit.",
)
@click.pass_context
def root(
    ctx: click.Context,
    bootstrap: str | None,
    cluster_name: str | None,
    command_config: Path | None,
    from_file: Path | None,
    snapshots: str | None,
    timeout: str | None,
    write: bool,
    no_load: bool,
    theme: str | None,
    ascii_only: bool,
    no_mouse: bool,
) -> None:
    """Balance Kafka clusters: see the load, plan moves, carry them out.

    Without a command it opens the dashboard.
    """
    invoked: Invocation = ctx.obj
    ctx.obj = Context(
        target=Target.choose(
            bootstrap=bootstrap,
            cluster_name=cluster_name,
            command_config=command_config,
            from_file=from_file,
            snapshots=snapshots,
            timeout=timeout,
        ),
        write=write,
        no_load=no_load,
        theme=theme,
        ascii_only=ascii_only,
        mouse=not no_mouse,
        open_dashboard=invoked.open_dashboard,
        is_process=invoked.is_process,
    )
    if ctx.invoked_subcommand is None:
        ctx.obj.require_target()
        invoked.open_dashboard(ctx.obj)


def run(open_dashboard: OpenDashboard, argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code; no traceback reaches the user."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that is not UTF-8 shows `?` for what it cannot show.
            stream.reconfigure(errors="replace")

    def command_shape() -> dict[str, str]:
        from core.cli.common.command_shape import redact_command_line

        return redact_command_line(root, sys.argv[1:] if argv is None else argv)

    bug_log.note("command", command_shape)
    try:
        paths.settle()
        result = root.main(
            args=argv,
            prog_name="trimtab",
            obj=Invocation(open_dashboard, is_process=argv is None),
            standalone_mode=False,
        )
    except click.exceptions.Exit as done:
        return done.exit_code
    except (click.Abort, KeyboardInterrupt):
        print_error("stopped.")
        return 130
    except click.NoSuchOption as error:
        _print_click_error(error)
        for option in root.params:
            if error.option_name in option.opts and error.ctx is not None:
                value = "" if getattr(option, "is_flag", False) else " …"
                command = error.ctx.command_path.removeprefix("trimtab ")
                corrected = f"trimtab {error.option_name}{value} {command}"
                print_error(f"{error.option_name} belongs before the command: {corrected}")
        return ExitCode.USAGE
    except click.ClickException as error:
        _print_click_error(error)
        return ExitCode.USAGE
    except TrimtabError as error:
        print_error(str(error))
        return error.exit_code
    except _OutputClosedError:
        discard_output()
        return ExitCode.DONE
    except OSError as error:
        ours_to_mend = error.errno not in (*PERMISSION_ERRORS, *SPACE_ERRORS)
        if ours_to_mend and not _is_own_folder_missing(error):
            return _report_bug()
        print_error(_file_error_message(error))
        return ExitCode.FAILED
    except Exception:  # noqa: BLE001 - the last line of defence: log it and say where
        return _report_bug()
    return result if isinstance(result, int) else ExitCode.DONE


PERMISSION_ERRORS = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR),
    *(errno.ELOOP, errno.ENAMETOOLONG, errno.EIO, errno.ESTALE),
)
SPACE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""What a file system or a limit says no to: the user's to mend. All others, also a file that is
not there, are ours: what a user names is looked for where it is read."""


def _print_click_error(error: click.ClickException) -> None:
    shown = io.StringIO()
    error.show(shown)  # it quotes what was given
    # Where stderr cannot be written, the exit code must do.
    with contextlib.suppress(OSError):
        say(shown.getvalue().rstrip())


def print_error(message: str) -> None:
    """Say what went wrong on stderr; where even that cannot be written, the exit code must do."""
    with contextlib.suppress(OSError):
        say(f"trimtab: {message}")


def _file_error_message(error: OSError) -> str:
    if error.filename is None:
        return f"Cannot go on: {error.strerror}.\nMake room or choose another place, and try again."
    mend = "Make room there" if error.errno in SPACE_ERRORS else "Fix its permissions"
    if _find_own_folder(error):
        advice = f"{mend}, or name another folder in TRIMTAB_HOME."
    elif error.errno in SPACE_ERRORS:
        advice = f"{mend}, and try again."
    else:
        advice = f"Make {error.filename} usable for this user."
    return f"Cannot use {error.filename}: {error.strerror}.\n{advice}"


def _find_own_folder(error: OSError) -> Path | None:
    if not isinstance(error.filename, str | bytes):
        return None
    place = Path(os.fsdecode(error.filename))
    for folder in (paths.data_dir(), paths.config_dir(), paths.cache_dir(), paths.log_dir()):
        if place in (folder, *folder.parents) or folder in place.parents:
            return folder
    return None


def _is_own_folder_missing(error: OSError) -> bool:
    """Return whether one of our own folders is not there and cannot be made."""
    folder = _find_own_folder(error)
    if folder is None:
        return False
    try:
        paths.make_folder(folder)
    except OSError:
        return True
    return False


def _report_bug() -> int:
    print_error(f"this is a bug in trimtab; the command was ended. {bug_log.log_bug()}")
    return ExitCode.FAILED
