"""Every kill point and many storms on the simulator: `python -m chaos.simulated -o REPORT`.

What has been played is kept beside the report and not played again, as long as the code is the
same; with --minutes it ends in time and goes on from there when it is called again.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from chaos.dying import Where
from chaos.kill_points import (
    Case,
    Verdict,
    asked_for,
    cancelled_and_killed,
    deaths_again,
    every_cancel,
    every_death,
    judged,
    restless,
)
from chaos.played import Played
from chaos.storm import Storm

from core import paths
from core.run.record.history import Outcome

CANCELLED = (Outcome.CANCELLED, Outcome.DONE)
UNHARMED = (*CANCELLED, Outcome.FAILED, Outcome.INCOMPLETE)
"""Where a config call timed out a run may give up what it has not begun, all as found."""

Item = tuple[str, str, Callable[[], dict[str, Any]]]
"""A group, a name in it, and what plays it and returns `outcome` and `wrong`."""


def kill_points(quiet: Verdict) -> Iterator[Item]:
    """Yield every case that is played on the sixty moves."""
    for where in Where:
        ends = UNHARMED if where in (Where.TIMED_OUT, Where.LATE) else (Outcome.DONE,)
        for case in every_death(quiet, where):
            yield _case(where.value, case, ends)
    around = judged(Case(around=True))
    for where in (Where.BEFORE, Where.AFTER, Where.EFFECT):
        for case in every_death(around, where):
            yield _case(f"{where.value}, with retention and elections", case, (Outcome.DONE,))
    for case in deaths_again(quiet, seed=1, count=200):
        yield _case("killed again while it recovers", case, (Outcome.DONE,))
    for case in every_cancel(quiet):
        yield _case("cancelled at any step", case, CANCELLED)
    for case in cancelled_and_killed(quiet, seed=1, count=200):
        yield _case("cancelled and killed", case, CANCELLED)
    for seed in range(10):
        yield _case("paused and resumed 50 times", restless(quiet, seed), (Outcome.DONE,))
    for case in asked_for(quiet, seed=1, count=200, dying=False):
        yield _case("asked for all sorts of things", case, tuple(Outcome))
    for case in asked_for(quiet, seed=2, count=200, dying=True):
        yield _case("asked for all sorts of things and killed", case, tuple(Outcome))


def _case(group: str, case: Case, ends: tuple[Outcome, ...]) -> Item:
    def play() -> dict[str, Any]:
        verdict = judged(case, ends)
        return {
            "outcome": verdict.outcome and verdict.outcome.value,
            "wrong": list(verdict.wrong),
        }

    return group, str(case), play


def storms(seeds: range) -> Iterator[Item]:
    for seed in seeds:
        yield "storms at 1,000 partitions", f"seed {seed}", lambda seed=seed: _storm(seed)


def _storm(seed: int) -> dict[str, Any]:
    report = Storm(seed).play()
    return {
        "outcome": report.outcome and report.outcome.value,
        "why": report.why,
        "wrong": list(report.wrong),
        "lives": report.lives,
        "moves": report.moves,
    } | ({"happened": list(report.happened)} if report.wrong else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--storms", type=int, default=200, help="Seeds 1 to so many.")
    parser.add_argument("--only", help="Only groups whose name contains this.")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    deadline = time.monotonic() + 60 * arguments.minutes
    played = Played(arguments.output)
    with tempfile.TemporaryDirectory(prefix="trimtab-chaos-") as home:
        os.environ["TRIMTAB_HOME"] = home
        quiet = judged(Case())
        items = itertools.chain(kill_points(quiet), storms(range(1, arguments.storms + 1)))
        left = [
            item
            for item in items
            if (not arguments.only or arguments.only in item[0]) and not played.knows(*item[:2])
        ]
        for done, (group, name, play) in enumerate(left):
            if time.monotonic() > deadline:
                print(f"{len(left) - done} are left; call it again to go on.", file=sys.stderr)
                break
            result = play()
            shutil.rmtree(paths.data_dir())
            played.add(group, name, result)
            for wrong in result["wrong"][:3]:
                print(f"{group}: {name}: {wrong}", file=sys.stderr)
    sys.exit(played.report())


if __name__ == "__main__":
    main()
