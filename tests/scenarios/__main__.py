"""Scenarios on real brokers at length: `python -m scenarios -o REPORT`; exit 1 when one fails.

What was expected is printed beside what was seen.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scenarios.throttled import MB, SCENARIOS, Played, play

from core.cluster.sandbox.sandbox import Sandbox
from core.units import format_rate


class Part(NamedTuple):
    """A scenario with replicas of this size, and the time that it has."""

    scenario: str
    size_bytes: int
    seconds: float


PARTS = (
    # Half a megabyte a second for each copy, as in the table: its rates hold.
    Part("1", 35 * MB, 70.0),
    Part("2", 35 * MB, 70.0),
    Part("3", 35 * MB, 70.0),
    # Other deadlines: within a leader's first window, and shortly after it.
    Part("3", 16 * MB, 12.0),
    Part("3", 35 * MB, 30.0),
)
REQUIRED_WITHIN = 0.05
PRODUCED_WITHIN = 0.05


def rows(played: Played, produced: float, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield what was expected and seen, and whether they agree."""
    for (broker, side), expected in played.required_expected.items():
        seen = played.required_seen.get((broker, side), 0.0)
        yield {
            "what": f"broker {broker} {side} needs",
            "expected": format_rate(expected),
            "seen": format_rate(seen),
            "agrees": abs(seen / expected - 1) <= REQUIRED_WITHIN,
        }
    if played.never is not None:
        yield {
            "what": "below ordinary replication",
            "expected": "never, with its reason",
            "seen": played.never,
            "agrees": played.never.startswith("Broker 1 "),
        }
    if produced:
        yield {
            "what": "produced meanwhile",
            "expected": format_rate(produced),
            "seen": format_rate(played.produced_bytes_per_s),
            "agrees": abs(played.produced_bytes_per_s / produced - 1) <= PRODUCED_WITHIN,
        }
    at, (low, high) = format_rate(played.rate), played.range_seconds
    yield {
        "what": f"apply at {at}, beside its estimate",
        "expected": f"{played.estimated_seconds:.1f} s ({low:.0f} to {high:.0f} s)",
        "seen": f"{played.took_seconds:.1f} s",
        "agrees": low <= played.took_seconds <= high,
    }
    yield {
        "what": f"apply at {at}, beside its deadline",
        "expected": f"{seconds:.0f} s",
        "seen": f"{played.took_seconds:.1f} s",
        "agrees": played.took_seconds <= seconds,
    }
    yield {
        "what": "trimtab verify",
        "expected": "as planned",
        "seen": "as planned" if played.verified else "not as planned",
        "agrees": played.verified,
    }


def told(part: Part, sandbox: Sandbox, home: Path) -> dict[str, Any]:
    """Play one part, print its rows and return them."""
    (scenario,) = (known for known in SCENARIOS if known.name == part.scenario)
    name = f"throttle {part.scenario}, {part.size_bytes / MB:.0f} MB in {part.seconds:.0f} s"
    print(name, flush=True)
    played = play(scenario, sandbox, home, part.size_bytes, part.seconds)
    found = list(rows(played, scenario.produced_bytes_per_s, part.seconds))
    for row in found:
        mark = "ok  " if row["agrees"] else "NOT "
        print(f"  {mark}{row['what']:44}{row['expected']:24}{row['seen']}", flush=True)
    return {"scenario": name, "rows": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--name", default="scenarios", help="Name of the sandbox.")
    arguments = parser.parse_args()
    sandbox = Sandbox.up(arguments.name, (1, 2, 3), replace=True)
    try:
        with tempfile.TemporaryDirectory(prefix="trimtab-scenarios-") as home:
            results = [told(part, sandbox, Path(home)) for part in PARTS]
    finally:
        sandbox.down()
    arguments.output.write_text(json.dumps(results, indent=2) + "\n")
    sys.exit(not all(row["agrees"] for result in results for row in result["rows"]))


if __name__ == "__main__":
    main()
