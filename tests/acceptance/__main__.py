"""Plays acceptance scenarios on real brokers of their own: what was expected beside what was seen.

`python -P -m tests.acceptance [NAME …]`, from the root of the repository: without a name, all of
them. Exit 1 unless everything agrees. `--keep` leaves the brokers up, `--short` plays the form
that `make test` plays.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from core.autopilot.removal import forget_autopilot
from core.cli.common.foreground import exit_cleanly_on_signals
from core.cli.common.output import StatusLine, print_lines, say
from core.cluster.sandbox.sandbox import Sandbox
from core.errors import TrimtabError
from core.run.run_process import forget_runs
from core.units import counted, format_duration
from tests.acceptance.catalogue import SCENARIOS
from tests.acceptance.scenario import Scenario, Step
from tests.acceptance.stage import Stage


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -P -m tests.acceptance", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--keep", action="store_true", help="leave the brokers up afterwards")
    parser.add_argument("--short", action="store_true", help="leave out what takes long")
    options = parser.parse_args(argv)
    if unknown := [name for name in options.names if name not in SCENARIOS]:
        parser.error(f"no scenario {unknown[0]!r}; there are {', '.join(SCENARIOS)}")
    failed = []
    for name in options.names or SCENARIOS:
        say(f"\n{name}: {SCENARIOS[name].about}")
        try:
            agrees = play(SCENARIOS[name], short=options.short, keep=options.keep)
        except TrimtabError as error:
            say(str(error))
            agrees = False
        if not agrees:
            failed.append(name)
    if failed:
        say(f"Not as expected: {', '.join(failed)}")
    return 1 if failed else 0


def play(scenario: Scenario, *, short: bool, keep: bool) -> bool:
    """Play one scenario on a sandbox of its own; return whether everything agrees.

    What was seen until a command failed is shown before that failure.
    """
    with exit_cleanly_on_signals("the scenario") as stack:
        sandbox = Sandbox.up(
            f"scenario-{scenario.name}",
            scenario.brokers,
            scenario.racks,
            overrides=scenario.overrides,
            say=say,
        )
        if not keep:
            stack.callback(forget_runs, sandbox.cluster_id)
            stack.callback(forget_autopilot, sandbox.cluster_id)
            stack.callback(sandbox.down)
        say(f"To watch it, elsewhere: trimtab -b {sandbox.bootstrap}")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="trimtab-scenario-"))
        progress = Progress()
        stage = Stage(sandbox, Path(folder), short=short, report=progress.show)
        steps: list[Step] = []
        is_whole = False
        try:
            for step in scenario.play(stage):
                steps.append(step)
                progress.steps = steps
            is_whole = True
        finally:
            progress.line.end()
            print_steps(steps, progress.seconds, is_whole=is_whole)
        if keep:
            say(
                f"Its brokers are up: `trimtab -b {sandbox.bootstrap} --write` opens the dashboard "
                f"on them,\n`trimtab sandbox down --name {sandbox.name}` ends them."
            )
    return all(step.agrees for step in steps)


class Progress:
    """One line on stderr that says what goes on: rewritten on a terminal, else one a change."""

    def __init__(self) -> None:
        self.line = StatusLine()
        self.steps: list[Step] = []
        self._started = time.monotonic()
        self._last = ""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def show(self, text: str) -> None:
        wrong = sum(not step.agrees for step in self.steps)
        so_far = counted(len(self.steps), "step") + f", {wrong} NOT as expected" * bool(wrong)
        if self.line.shown:
            self.line.say(f"{format_duration(self.seconds)}, {so_far}: {text}")
        # How far a run is would be a line a second.
        elif text.partition(": ")[0] != self._last:
            say(text)
        self._last = text.partition(": ")[0]


def print_steps(steps: list[Step], seconds: float, *, is_whole: bool) -> None:
    """Print the steps as a table as wide as the terminal, and how many agree."""
    table = Table("", "what", "expected", "seen", box=None)
    for step in steps:
        mark = "ok" if step.agrees else "NOT"
        table.add_row(mark, *map(Text, (step.what, step.expected, step.actual)))
    Console(highlight=False).print(table)
    agree = sum(step.agrees for step in steps)
    early = "" if is_whole else "It did not get to its end: "
    print_lines(f"{early}{agree} of {len(steps)} agree, after {format_duration(seconds)}.")


if __name__ == "__main__":
    sys.exit(main())
