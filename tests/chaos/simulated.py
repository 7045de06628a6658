"""Every kill point and many storms on the simulator: `python -m chaos.simulated -o REPORT`.

First comes what is played whole: a death at each record, a cancel at each look, pauses, storms.
All else follows in an order that is shuffled by a seed, as far as time allows.

What has been played is kept beside the report and not played again, as long as the code is the
same; with --minutes it ends in time and goes on from there when it is called again.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from chaos.dying import Where
from chaos.kill_points import (
    AuditVerdict,
    Case,
    cancelled_and_killed,
    every_cancel,
    every_death,
    judged,
    repeated_deaths,
    restless,
    runs_with_requests,
)
from chaos.result_log import ResultLog, stops_in_order
from chaos.storm import Storm

from core import paths
from core.run.journal.move_state import Outcome

CANCELLED = (Outcome.CANCELLED, Outcome.DONE)
UNHARMED = (*CANCELLED, Outcome.FAILED, Outcome.INCOMPLETE)
"""Where a config call timed out a run may give up what it has not begun, all as found."""

Item = tuple[str, str, Callable[[], dict[str, Any]]]
"""A group, a name in it, and what plays it and returns `outcome` and `wrong`."""


DEATHS = "a run of 60 moves killed at each record (simulator)"
CANCELS = "a run of 60 moves cancelled at each look (simulator)"
PAUSES = "a run of 60 moves paused and resumed 50 times (simulator)"
STORMS = "storms at 1,000 partitions (simulator)"
WHOLE = (DEATHS, CANCELS, PAUSES, STORMS)
RESTLESS = range(1, 6)
STORM_SEEDS = 200
LEAST = 15
"""The priority of what is a sample, beside brokers that share the machine."""


def required(quiet: AuditVerdict) -> Iterator[Item]:
    """Yield what is always played whole."""
    for where in (Where.BEFORE, Where.AFTER):
        for case in every_death(quiet, where):
            yield _case(DEATHS, case, (Outcome.DONE,))
    for seed in RESTLESS:
        yield _case(PAUSES, restless(quiet, seed), (Outcome.DONE,), f"seed {seed}")
    for case in every_cancel(quiet):
        yield _case(CANCELS, case, CANCELLED)
    for seed in range(1, STORM_SEEDS + 1):
        yield STORMS, f"seed {seed}", partial(_storm, seed)


def besides(quiet: AuditVerdict) -> list[Item]:
    """Return all else that is played on the sixty moves, shuffled: a part of it is a sample."""
    items = []
    for where in Where:
        if where in (Where.BEFORE, Where.AFTER):
            continue
        ends = UNHARMED if where in (Where.TIMED_OUT, Where.LATE) else (Outcome.DONE,)
        items += [_case(where.value, case, ends) for case in every_death(quiet, where)]
    around = judged(Case(around=True))
    for where in (Where.BEFORE, Where.AFTER, Where.EFFECT):
        for case in every_death(around, where):
            items.append(
                _case(f"{where.value}, with retention and elections", case, (Outcome.DONE,))
            )
    for case in repeated_deaths(quiet, seed=1, count=200):
        items.append(_case("killed again while it recovers", case, (Outcome.DONE,)))
    for case in cancelled_and_killed(quiet, seed=1, count=200):
        items.append(_case("cancelled and killed", case, CANCELLED))
    for case in runs_with_requests(quiet, seed=1, count=200, dying=False):
        items.append(_case("asked for all sorts of things", case, tuple(Outcome)))
    for case in runs_with_requests(quiet, seed=2, count=200, dying=True):
        items.append(_case("asked for all sorts of things and killed", case, tuple(Outcome)))
    Random(1).shuffle(items)
    return items


def _case(group: str, case: Case, ends: tuple[Outcome, ...], name: str = "") -> Item:
    def play() -> dict[str, Any]:
        verdict = judged(case, ends)
        return {
            "outcome": verdict.outcome and verdict.outcome.value,
            "wrong": list(verdict.wrong),
        }

    return group, name or str(case), play


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
    parser.add_argument("--only", default="", help="Only groups whose name contains this.")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    deadline = time.monotonic() + 60 * arguments.minutes
    played = ResultLog(arguments.output)
    stops_in_order()
    memory = Path("/dev/shm")  # what is written there is as safe from kill -9, and soon done
    folder = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="trimtab-chaos-", dir=folder) as home:
        os.environ["TRIMTAB_HOME"] = home
        quiet = judged(Case())
        items = [*required(quiet), *besides(quiet)]
        of = Counter(group for group, _, _ in items)
        played.expect(of)
        left = [item for item in items if arguments.only in item[0] and not played.knows(*item[:2])]
        for done, (group, name, play) in enumerate(left):
            if time.monotonic() > deadline:
                print(f"{len(left) - done} are left; call it again to go on.", file=sys.stderr)
                break
            if group not in WHOLE:
                os.setpriority(os.PRIO_PROCESS, 0, LEAST)  # what is required goes first elsewhere
            result = play()
            shutil.rmtree(paths.data_dir())
            played.add(group, name, result)
            for wrong in result["wrong"][:3]:
                print(f"{group}: {name}: {wrong}", file=sys.stderr)
    sys.exit(played.report())


if __name__ == "__main__":
    main()
