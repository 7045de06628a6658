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
from typing import Any

from scenarios.throttled import MB, SCENARIOS, Played, Scenario, play

from core.cluster.sandbox.sandbox import Sandbox
from core.units import format_rate

SIZE_BYTES = 35 * MB
SECONDS = 70.0
"""Half a megabyte a second for each copy, as in the table: its rates hold."""
REQUIRED_WITHIN = 0.05
LATE = 0.08


def rows(played: Played) -> Iterator[dict[str, Any]]:
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
    at, (low, high) = format_rate(played.rate), played.range_seconds
    yield {
        "what": f"apply at {at}, beside its estimate",
        "expected": f"{played.estimated_seconds:.1f} s ({low:.0f} to {high:.0f} s)",
        "seen": f"{played.took_seconds:.1f} s",
        "agrees": low * (1 - LATE) <= played.took_seconds <= high * (1 + LATE),
    }
    yield {
        "what": f"apply at {at}, beside its deadline",
        "expected": f"{SECONDS:.0f} s, or {LATE:.0%} late",
        "seen": f"{played.took_seconds:.1f} s",
        "agrees": played.took_seconds <= SECONDS * (1 + LATE),
    }
    yield {
        "what": "trimtab verify",
        "expected": "as planned",
        "seen": "as planned" if played.verified else "not as planned",
        "agrees": played.verified,
    }


def told(scenario: Scenario, sandbox: Sandbox, home: Path) -> dict[str, Any]:
    """Play one scenario, print its rows and return them."""
    print(f"throttle scenario {scenario.name}", flush=True)
    found = list(rows(play(scenario, sandbox, home, SIZE_BYTES, SECONDS)))
    for row in found:
        mark = "ok  " if row["agrees"] else "NOT "
        print(f"  {mark}{row['what']:44}{row['expected']:24}{row['seen']}", flush=True)
    return {"scenario": f"throttle {scenario.name}", "rows": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--name", default="scenarios", help="Name of the sandbox.")
    arguments = parser.parse_args()
    sandbox = Sandbox.up(arguments.name, (1, 2, 3), replace=True)
    try:
        with tempfile.TemporaryDirectory(prefix="trimtab-scenarios-") as home:
            results = [told(scenario, sandbox, Path(home)) for scenario in SCENARIOS]
    finally:
        sandbox.down()
    arguments.output.write_text(json.dumps(results, indent=2) + "\n")
    sys.exit(not all(row["agrees"] for result in results for row in result["rows"]))


if __name__ == "__main__":
    main()
