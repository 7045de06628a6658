"""`trimtab service`: collector, recorder and autopilot as systemd's user units, over reboots."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from core import paths
from core.cli.common.context import Context
from core.cli.common.options import Group, json_option
from core.cli.common.output import emit, say, say_none, write_text
from core.cluster.connect import missing_password
from core.daemons import systemd
from core.daemons.systemd import Installed, Unit
from core.errors import UsageError
from core.text.tables import text_table

COMMANDS = {
    "collector": ("collect",),
    "recorder": ("timeline", "--record"),
    "autopilot": ("autopilot", "run"),
}
"""What each service starts: the command that does the same in the foreground."""
_VARIABLES = ("TRIMTAB_HOME", "JAVA_HOME", *paths.XDG[:-1])
"""Variables that say where things are, which a service must find where this command does."""


@click.group(cls=Group)
def service() -> None:
    """Run the collector, the recorder or the autopilot as systemd user services.

    They survive logouts and reboots, and log to the journal: journalctl --user -u 'trimtab-*'.
    """


@service.command("install")
@click.argument("role", type=click.Choice(tuple(COMMANDS)))
@click.option(
    "--print", "only_print", is_flag=True, help="Print the unit; write and start nothing."
)
@click.pass_obj
def install(context: Context, role: str, only_print: bool) -> None:
    """Install a service for the cluster, and start it.

    Installing it again brings it up to date. The autopilot runs in the mode that `autopilot
    --mode` set last. Put variables that client properties or an object store need into
    service.env beside config.toml.
    """
    unit = build_unit(context, role)
    if only_print:
        write_text(unit.text, None)
        return
    if role == "autopilot":
        _require_switch(context)
    changed = systemd.install(unit)
    name = unit.name.removesuffix(systemd.SUFFIX)
    say(f"{name} {'is installed, and runs' if changed else 'runs already; nothing was changed'}.")
    from core.run.run_process import logout_policy

    policy = logout_policy()
    if not policy.lingers:
        say(f"It ends when you log out, and does not start at boot, before: {policy.remedy}")


@service.command("ls")
@json_option
def ls(as_json: bool) -> None:
    """List the installed services and their state in systemd."""
    units = systemd.installed_units()
    if as_json:
        emit([_document(unit) for unit in units])
    elif not units:
        say_none("No services are installed. To install one: trimtab service install.", None)
    else:
        rows = [
            (
                unit.name,
                unit.role or "-",
                unit.cluster or "-",
                unit.enabled or "-",
                unit.active or "-",
            )
            for unit in units
        ]
        write_text(text_table(("SERVICE", "ROLE", "CLUSTER", "ENABLED", "STATE"), rows), None)


@service.command("uninstall")
@click.argument("name", metavar="SERVICE", shell_complete=lambda *_: [u.name for u in _units()])
def uninstall(name: str) -> None:
    """Stop a service of `service ls`, and remove it."""
    removed = systemd.uninstall(name)
    say(f"{name} is {'stopped and removed' if removed else 'not installed; nothing was changed'}.")


def build_unit(context: Context, role: str) -> Unit:
    """Return the unit that does a role for the cluster; raises UsageError, DocumentError."""
    target, address = context.target, context.target.address
    if address is None:
        raise UsageError(
            "Which cluster's?", next="Give --cluster NAME, of config.toml, or -b HOST:PORT."
        )
    if address.is_simulated:
        raise UsageError("A simulated cluster ends with its demo.", next="Name real brokers.")
    if missing := missing_password(address):
        raise UsageError(
            f"A service cannot ask for the password of {missing.owner}.",
            next=f"Set it in {missing.file} ({missing.key}), or refer there to a file that has it "
            "(config.providers).",
        )
    # A name that only this command line gives is nobody's at the next boot.
    name = address.name
    cluster = name or address.bootstrap
    if not cluster.isprintable():
        raise UsageError(
            f"No service can have the name {cluster!a}.", next="Rename it in config.toml."
        )
    words = ["-b", address.bootstrap] if name is None else ["--cluster", name]
    if name is None and address.command_config is not None:
        words += ["--command-config", str(address.command_config.absolute())]
    if target.snapshots:
        is_folder = "://" not in target.snapshots
        place = str(Path(target.snapshots).absolute()) if is_folder else target.snapshots
        words += ["--snapshots", place]
    if target.timeout_seconds is not None:
        words += ["--timeout", f"{target.timeout_seconds:g}s"]
    environment = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
    return Unit(role, cluster, (*program(), *words, *COMMANDS[role]), environment)


def program() -> tuple[str, ...]:
    """Return the words that start trimtab as this process was started, wherever that is."""
    bundle = os.environ.get("PEX")
    if bundle and Path(bundle).is_file():
        return (str(Path(bundle).absolute()),)
    script = Path(sys.executable).with_name("trimtab")
    return (str(script),) if script.is_file() else (sys.executable, "-P", "-m", "tui")


def _require_switch(context: Context) -> None:
    from core.cli.autopilot.limits import find_switches

    if not find_switches(context):
        raise UsageError(
            "The autopilot of this cluster has not been set yet.",
            next="Set it: trimtab autopilot --mode suggest --detach.",
        )


def _units() -> list[Installed]:
    return systemd.installed_units()


def _document(unit: Installed) -> dict[str, str | None]:
    return {
        "name": unit.name,
        "role": unit.role or None,
        "cluster": unit.cluster or None,
        "enabled": unit.enabled,
        "active": unit.active,
        "path": str(unit.path),
    }
