"""`trimtab demo` and `trimtab sandbox demo`: the product on a cluster made for it.

With a terminal the dashboard opens, writable; without one the same story is told headless, by the
public commands. Whatever was started is stopped at the end, whichever way it ends.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from core.cli.common.context import Context, Target
from core.cli.common.foreground import exit_cleanly_on_signals
from core.cli.common.options import Command
from core.cli.common.output import print_lines, say, write_text
from core.cluster.connect import Address
from core.errors import ExitCode, TrimtabError

BROKERS = (1, 2, 3, 4)
RACKS = 2
BYTES_PER_S = 3e6
SANDBOX = "demo"
FIRST_SNAPSHOT_SECONDS = 180.0
GRACE_SECONDS = 6.0
"""For Spark's batch at work: what it would publish is thrown away with the demo."""
HEADLESS_SPEED = 30.0
"""The simulated clock's speed without a terminal: a move of 40 GB takes seconds."""


@click.command(cls=Command)
@click.option(
    "--seed",
    type=int,
    default=7,
    show_default=True,
    help="Seed of the random generator; the same seed makes the same cluster.",
)
@click.option(
    "--brokers",
    type=click.IntRange(3, 60),
    default=12,
    show_default=True,
    help="Number of brokers.",
)
@click.option(
    "--partitions",
    type=click.IntRange(100, 100_000),
    default=4180,
    show_default=True,
    help="Number of partitions.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 600),
    help="Clock speed-up (default: 1 on a terminal, 30 otherwise).",
)
@click.pass_obj
def demo(context: Context, seed: int, brokers: int, partitions: int, speed: float | None) -> int:
    """Open the dashboard on a simulated cluster: no Java, no network."""
    from core.autopilot.removal import forget_autopilot
    from core.load.simulator import start_simulator
    from core.run.run_process import forget_runs

    with exit_cleanly_on_signals("the demo") as cleanup:
        pace = speed or (1.0 if _is_terminal() else HEADLESS_SPEED)
        simulator = start_simulator(seed, brokers, partitions, pace)
        cleanup.callback(simulator.stop)
        cleanup.callback(forget_runs, simulator.cluster_id)
        cleanup.callback(forget_autopilot, simulator.cluster_id)
        cleanup.callback(simulator.process.terminate)  # it ends while its runs are forgotten
        return _show_demo(_demo_context(context, simulator.address, load=False), throttle="200MB/s")


@click.command("demo", cls=Command)
@click.pass_context
def sandbox_demo(ctx: click.Context) -> int:
    """Start brokers, a skewed load, collector and Spark, and open the dashboard."""
    from core.autopilot.removal import forget_autopilot
    from core.cluster.sandbox.sandbox import Sandbox
    from core.java import find_java
    from core.run.run_process import forget_runs

    context = ctx.ensure_object(Context)
    try:
        find_java()
    except TrimtabError as error:
        say(f"{error.title} {error.next} Opening the simulated cluster instead.")
        return int(ctx.invoke(demo))
    with exit_cleanly_on_signals("the demo") as cleanup:
        sandbox = Sandbox.up(SANDBOX, BROKERS, RACKS, replace=True, say=say)
        # Each of these happens whatever becomes of the one before: stderr may be closed by now.
        cleanup.callback(forget_runs, sandbox.cluster_id)
        cleanup.callback(sandbox.down)
        cleanup.callback(say, "Stopping the brokers…")
        sandbox.start_workload(BYTES_PER_S)
        timeout = context.target.timeout_seconds
        address = Address(sandbox.bootstrap, timeout_seconds=timeout)
        cleanup.enter_context(_load(address, sandbox.cluster_id))
        cleanup.callback(forget_autopilot, sandbox.cluster_id)
        cleanup.callback(say, "Stopping what measures the load…")
        return _show_demo(_demo_context(context, address, load=True), throttle="10MB/s")


def _demo_context(context: Context, address: Address, *, load: bool) -> Context:
    return replace(
        context, target=Target(address, name=SANDBOX), write=True, no_load=not load, is_demo=True
    )


def _show_demo(context: Context, *, throttle: str) -> int:
    if _is_terminal():
        context.open_dashboard(context)
        return ExitCode.DONE
    return headless(context, throttle)


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def _load(address: Address, cluster_id: str) -> Iterator[None]:
    """Run collector, pipeline and recorder while the demo lasts; its cluster is not met again."""
    from core import paths
    from core.load.daemon import start_load
    from core.load.snapshot.manifest import forget_cluster
    from core.watch.timeline.daemon import start_recording

    reader, recording = start_load(address, cluster_id), start_recording(address, cluster_id)
    try:
        yield
    finally:
        if recording is not None:
            recording.stop()
        if reader is not None:
            reader.stop(GRACE_SECONDS)
        forget_cluster(paths.load_root(), cluster_id)
        for path in paths.timeline_file(cluster_id).parent.glob(f"{paths.safe_name(cluster_id)}.*"):
            path.unlink()


# -- without a terminal ----------------------------------------------------------------------------


def headless(context: Context, throttle: str) -> int:
    """Show, plan, estimate, apply and verify through the public commands; first failure ends it."""
    from core.cli.main import run

    say("Waiting for the first snapshot…")
    _await_snapshot(context)
    with tempfile.TemporaryDirectory(prefix="trimtab-demo-") as folder:
        plan = Path(folder) / "plan.json"
        steps = (
            ["show"],
            ["estimate", str(plan), "--throttle", throttle],
            ["apply", str(plan), "--throttle", throttle, "--yes"],
            ["verify", str(plan)],
        )
        for step in steps:
            if step[0] == "estimate":
                say(_write_plan(context, plan))
            # Printed as one would type it.
            assert context.target.address is not None
            line = ["-b", context.target.address.bootstrap, "--cluster", SANDBOX, *step]
            print_lines(f"\n$ trimtab {shlex.join(line)}")
            code = run(context.open_dashboard, line)
            if code != ExitCode.DONE:
                return code
    return ExitCode.DONE


def _await_snapshot(context: Context) -> None:
    """Return once a snapshot is published; raises TrimtabError when none comes."""
    from core import paths
    from core.load.snapshot.manifest import read_manifest

    cluster_id = context.fetch_cluster_id()
    started = time.monotonic()
    while (manifest := read_manifest(paths.load_root(), cluster_id)) is None:
        if time.monotonic() - started > FIRST_SNAPSHOT_SECONDS:
            raise TrimtabError(
                f"No snapshot of load within {FIRST_SNAPSHOT_SECONDS:.0f} s.",
                next="See `trimtab pipeline status`.",
            )
        time.sleep(0.5)
    say(
        f"First snapshot, from {manifest.source.value}, "
        f"after {time.monotonic() - started:.0f} s: {manifest.counts.accepted:,} samples."
    )


def _write_plan(context: Context, path: Path) -> str:
    """Write the plan of the one move that helps the hottest broker most; returns it in words."""
    from core.load.view.heat import Metric
    from core.load.view.totals import broker_totals
    from core.plan.formats.plan_file import format_plan_file
    from core.plan.plan import Plan
    from core.plan.single_move import suggest_move

    state, load = context.picture()
    totals = broker_totals(state, load).values[Metric.IN]
    hottest = int(state.broker_ids[int(totals.argmax())])
    move = suggest_move(state, load, Plan(state.cluster_id), metric=Metric.IN, broker=hottest)
    if move is None:
        raise TrimtabError("There is nothing to balance on this cluster.")
    write_text(format_plan_file(move.plan), path)
    return f"\nBroker {hottest} takes the most; move {move.tp} from it to {move.destination}."
