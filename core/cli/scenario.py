"""`trimtab sandbox scenario`: a situation on brokers of its own, expected beside seen."""

from __future__ import annotations

import shutil
import tempfile
import textwrap
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from core.cli.leaving import ended_in_order
from core.cli.options import json_option
from core.cli.output import StatusLine, emit, say, write_text
from core.cli.table import table
from core.errors import ExitCode, UsageError
from core.units import counted, format_duration

if TYPE_CHECKING:
    from core.cli.scenarios.scenario import Scenario, Step

NARROW, WIDE = 72, 160


@click.command()
@click.argument("name", required=False)
@click.option("--short", is_flag=True, help="The short form, as `make test` plays it.")
@click.option("--keep", is_flag=True, help="Leave the brokers up afterwards.")
@json_option
def scenario(name: str | None, short: bool, keep: bool, as_json: bool) -> int:
    """Play a situation on real brokers and show what was expected beside what was seen.

    Without NAME: the scenarios there are. Its brokers are started for it and stopped afterwards;
    trimtab is asked as a user would, and Kafka's own tools judge. Exit 6 unless all agrees.
    """
    from core.cli.scenarios.catalogue import SCENARIOS

    if name is None:
        _list(SCENARIOS, as_json)
        return ExitCode.DONE
    if name not in SCENARIOS:
        raise UsageError(
            f"There is no scenario {name!r}.", next=f"There is: {', '.join(SCENARIOS)}."
        )
    return _play(SCENARIOS[name], short=short, keep=keep, as_json=as_json)


def _list(scenarios: dict[str, Scenario], as_json: bool) -> None:
    if as_json:
        emit([{"name": found.name, "about": found.about} for found in scenarios.values()])
        return
    rows = [(found.name, found.about) for found in scenarios.values()]
    write_text(table(("scenario", "shows"), rows), None)


def _play(found: Scenario, *, short: bool, keep: bool, as_json: bool) -> int:
    """Play a scenario on a sandbox of its own; returns the exit code.

    What was seen until a command failed is shown before that failure.
    """
    from core.auto.forget import forget_autopilot
    from core.cli.scenarios.stage import Stage
    from core.cluster.sandbox.sandbox import Sandbox
    from core.run.forget import forget_runs

    with ended_in_order("the scenario"), ExitStack() as stack:
        name, overrides = f"scenario-{found.name}", found.overrides
        sandbox = Sandbox.up(name, found.brokers, found.racks, overrides=overrides, say=say)
        if not keep:
            stack.callback(forget_runs, sandbox.cluster_id)
            stack.callback(forget_autopilot, sandbox.cluster_id)
            stack.callback(sandbox.down)
        say(f"To watch it, elsewhere: trimtab -b {sandbox.bootstrap}")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trimtab-scenario-")))
        progress = _Progress()
        stage = Stage(sandbox, folder, short=short, tell=progress.tell)
        steps: list[Step] = []
        whole = False
        try:
            for step in found.play(stage):
                steps.append(step)
                progress.count(step)
            whole = True
        finally:
            progress.end()
            seconds = progress.seconds
            if as_json:
                bootstrap = sandbox.bootstrap if keep else None
                emit(_document(found, steps, seconds, bootstrap, whole=whole))
            else:
                write_text(_text(steps, seconds, whole=whole), None)
        if keep:
            say(
                f"Its brokers are up: `trimtab -b {sandbox.bootstrap} --write` opens the dashboard "
                f"on them,\n`trimtab sandbox down --name {sandbox.name}` ends them."
            )
    return ExitCode.DONE if all(step.agrees for step in steps) else ExitCode.NO


class _Progress:
    """One line on stderr that says what goes on: rewritten on a terminal, else one a change."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._steps = self._against = 0
        self._line = StatusLine()
        self._last = ""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def count(self, step: Step) -> None:
        self._steps += 1
        if not step.agrees:
            self._against += 1

    def tell(self, text: str) -> None:
        so_far = counted(self._steps, "step")
        so_far += f", {self._against} NOT as expected" * bool(self._against)
        if self._line.shown:
            self._line.say(f"{format_duration(self.seconds)}, {so_far}: {text}")
        # How far a run is would be a line a second.
        elif text.partition(": ")[0] != self._last:
            say(text)
        self._last = text.partition(": ")[0]

    def end(self) -> None:
        self._line.end()


def _document(
    found: Scenario, steps: list[Step], seconds: float, bootstrap: str | None, *, whole: bool
) -> dict[str, Any]:
    return {
        "scenario": found.name,
        "agrees": whole and all(step.agrees for step in steps),
        "seconds": round(seconds, 1),
        "bootstrap": bootstrap,
        "steps": [asdict(step) for step in steps],
    }


def _text(steps: list[Step], seconds: float, *, whole: bool) -> str:
    """Return the steps as a table as wide as the terminal, and how many agree."""
    width = min(max(shutil.get_terminal_size((100, 24)).columns, NARROW), WIDE)
    column = (width - len("NOT") - 6) // 3
    rows: list[tuple[str, ...]] = []
    for step in steps:
        cells = [
            textwrap.wrap(text, column) or [""] for text in (step.what, step.expected, step.seen)
        ]
        for n in range(max(map(len, cells))):
            mark = ("ok" if step.agrees else "NOT") if n == 0 else ""
            rows.append((mark, *(cell[n] if n < len(cell) else "" for cell in cells)))
    agree = sum(step.agrees for step in steps)
    early = "" if whole else "It did not get to its end: "
    end = f"{early}{agree} of {len(steps)} agree, after {format_duration(seconds)}.\n"
    return table(("", "what", "expected", "seen"), rows) + end
