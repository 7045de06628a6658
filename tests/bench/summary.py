"""Writes docs/measurements.md from what the benches left in reports/*.json."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import sections

HEAD = """\
# Measurements

Made by `make measurements` from the newest result of each bench, on a machine with two
cores; not all are of one sitting, ratios are of one run each.
Trust the ratios more than the seconds.
"""


@dataclass(frozen=True, slots=True)
class Part:
    """A section: what it is made from, its title, and how it is told."""

    report: str
    title: str
    told: Callable[[Any], list[str]]


PARTS = (
    Part("first-paint", "First paint", sections.first_paint),
    Part("terminal-bytes", "Bytes to the terminal", sections.terminal_bytes),
    Part("estimate", "Estimate beside the clock", sections.estimate),
    Part("time-left", "Time left beside the clock", sections.time_left),
    Part("run-beside-tool", "A throttled run beside Kafka's tool", sections.run_beside_tool),
    Part("produce-latency", "What producers wait while replicas move", sections.produce_latency),
    Part("many-moves", "Ten thousand moves in one run", sections.many_moves),
    Part("tools", "Kafka's tools, without a JVM", sections.tools),
    Part("pipeline", "The load pipeline", sections.pipeline),
    Part("plans", "Whole plans", sections.plans),
    Part("documents", "Saved clusters", sections.documents),
    Part("autopilot", "Autopilot", sections.autopilot),
    Part("timeline", "Timeline", sections.timeline),
    Part("rebalances", "Group rebalances", sections.rebalances),
    Part("statelog-merge", "State-change logs merged", sections.statelog_merge),
    Part("replicas-verify", "Replicas verified", sections.replicas_verify),
    Part("chaos", "Chaos", sections.chaos),
)


def page(reports: Path, before: str) -> str:
    """Return the page; what was not measured anew stands as it stood `before`."""
    stood = _sections(before)
    told = (_section(part, reports, stood) for part in PARTS)
    return "\n".join((HEAD, *(one for one in told if one)))


def _section(part: Part, reports: Path, stood: Mapping[str, str]) -> str:
    report = reports / f"{part.report}.json"
    if not report.exists():
        return stood.get(part.title, "")
    lines = part.told(json.loads(report.read_text()))
    return "\n".join((f"## {part.title}", "", *lines, ""))


def _sections(page: str) -> dict[str, str]:
    """Return the sections of a page by their titles."""
    found = (f"## {one.strip()}\n" for one in f"\n{page}".split("\n## ")[1:])
    return {one.partition("\n")[0].removeprefix("## "): one for one in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    output: Path = arguments.output
    before = output.read_text() if output.exists() else ""
    output.write_text(page(arguments.reports, before))


if __name__ == "__main__":
    main()
