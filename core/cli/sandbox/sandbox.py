"""`trimtab sandbox`: real brokers on this machine, from up to down."""

from __future__ import annotations

import shlex
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress

import click

from core.autopilot.removal import forget_autopilot
from core.cli.common.options import Group, json_option
from core.cli.common.output import emit, print_lines, say
from core.cli.sandbox.demo import sandbox_demo
from core.cli.sandbox.drills import DRILLS, name_option, show_sandbox
from core.cluster.sandbox.kafka_jars import KAFKA_VERSION
from core.cluster.sandbox.logins import Way
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload_spec import skewed_workload
from core.daemons.process import Process
from core.errors import UsageError
from core.units import parse_ids, parse_rate


@click.group(cls=Group)
def sandbox() -> None:
    """Run real Kafka brokers on this machine."""


for command in (sandbox_demo, *DRILLS):
    sandbox.add_command(command)


@sandbox.command()
@name_option
@click.option(
    "--brokers",
    default="4",
    show_default=True,
    metavar="N|IDS",
    help="Number of brokers, or their IDs like 1,2,5.",
)
@click.option(
    "--racks",
    type=click.IntRange(0, 26),
    default=0,
    help="Number of racks to spread the brokers over; 0 for none.",
    show_default=True,
)
@click.option(
    "--controllers",
    type=click.Choice(["1", "3"]),
    default="1",
    show_default=True,
    help="Number of dedicated controller nodes.",
)
@click.option(
    "--kafka",
    "version",
    metavar="VERSION",
    help="Kafka version (default: the newest supported one).",
)
@click.option(
    "--secure",
    is_flag=True,
    help="Set up TLS, logins and ACLs; write client properties for users with different rights.",
)
@json_option
def up(
    name: str,
    brokers: str,
    racks: int,
    controllers: str,
    version: str | None,
    secure: bool,
    as_json: bool,
) -> None:
    """Start a cluster and wait until all nodes answer."""
    started = Sandbox.up(
        name,
        parse_brokers(brokers),
        racks,
        controllers=int(controllers),
        secured=secure,
        kafka=version or KAFKA_VERSION,
        say=say,
    )
    show_sandbox(started, as_json)


@sandbox.command()
@name_option
@json_option
def down(name: str, as_json: bool) -> None:
    """Stop a sandbox with all of its processes and delete its data."""
    with suppress(UsageError):  # what cannot be read is removed all the same
        forget_autopilot(Sandbox.open(name).cluster_id)
    there = Sandbox.remove(name)
    if as_json:
        emit({"name": name, "removed": there})
    else:
        print_lines(f"Sandbox {name} is removed." if there else f"There is no sandbox {name}.")


@sandbox.command()
@name_option
@json_option
def status(name: str, as_json: bool) -> None:
    """Show the nodes of a sandbox."""
    show_sandbox(Sandbox.open(name), as_json)


@sandbox.command()
@name_option
def env(name: str) -> None:
    """Print shell commands that make every other command use this sandbox.

    A secured one is used as its operator.

    \b
    eval "$(trimtab sandbox env)"
    """
    cluster = Sandbox.open(name)
    words = {"TRIMTAB_BOOTSTRAP": cluster.bootstrap}
    if cluster.logins:
        login = cluster.login("operator", Way.SCRAM)
        words["TRIMTAB_COMMAND_CONFIG"] = str(login.properties)
    print_lines("\n".join(f"export {name}={shlex.quote(text)}" for name, text in words.items()))


@sandbox.command()
@name_option
@click.option("--rate", default="2MB/s", show_default=True, help="Total rate of all producers.")
@click.option(
    "--detach", is_flag=True, help="Leave the load running in the background until `sandbox down`."
)
@json_option
def load(name: str, rate: str, detach: bool, as_json: bool) -> None:
    """Produce and consume a skewed load, until Ctrl-C."""
    from core.cluster.sandbox.workload import run_workload

    cluster = Sandbox.open(name)
    bytes_per_s = parse_rate(rate)
    if bytes_per_s < 0:
        raise UsageError("A workload needs a rate.", next="Give --rate 2MB/s.")
    process = cluster.start_workload(bytes_per_s) if detach else Process.this()
    if as_json:
        emit({"name": name, "pid": process.pid, "bytes_per_s": bytes_per_s})
    if detach:
        if not as_json:
            print_lines(f"Workload runs (pid {process.pid}); it ends with the sandbox.")
        return
    stop = threading.Event()
    workload = skewed_workload(cluster.broker_ids, bytes_per_s=bytes_per_s)
    say(f"Producing {rate} to sandbox {name}; Ctrl-C ends it.")
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(
            run_workload, cluster.settings, workload, stop, cluster.overrides_path
        )
        try:
            wait([working])
        except KeyboardInterrupt:
            stop.set()
    working.result()


def parse_brokers(text: str) -> tuple[int, ...]:
    """Return broker ids for a count (`4` is 1 to 4) or a list (`2,5`, `7,`)."""
    try:
        ids = parse_ids(text.rstrip(", "))
    except UsageError as error:
        raise UsageError(
            f"Not brokers: {text!r}.", next="Give a count (4) or ids (1,2,5)."
        ) from error
    if "," in text:
        return ids
    if not 1 <= ids[0] <= 20:
        raise UsageError("A sandbox has 1 to 20 brokers.", next="Write a single ID as 7,")
    return tuple(range(1, ids[0] + 1))
