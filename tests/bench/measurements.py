"""Writes the tables of docs/reference/measurements.md from what the benches left in reports/*.json.

The words above a section's first table are the page's own, and stay as they are.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

Section = Callable[[Any], list[str]]


def table(*rows: Iterable[object]) -> list[str]:
    """Return rows as a table, the head first."""
    head, *others = (f"| {' | '.join(map(str, row))} |" for row in rows)
    return [head, "|" + "---|" * (head.count("|") - 1), *others]


def listed(records: Iterable[Any], *columns: tuple[str, Callable[[Any], object]]) -> list[str]:
    """Return a row for each of what was found; a column is its head and how a cell is told."""
    rows = ([tell(record) for _, tell in columns] for record in records)
    return table([head for head, _ in columns], *rows)


def first_paint(report: dict[str, Any]) -> list[str]:
    return table(
        ("", "median of five, s"),
        ("`trimtab -b …`", f"{report['first_paint_median_seconds']:.2f}"),
        ("`TopicCommand --describe`", f"{report['topic_command_median_seconds']:.2f}"),
        ("ratio", f"{report['ratio']:.2f}"),
    )


def terminal_bytes(report: dict[str, Any]) -> list[str]:
    names = {
        "idle_10_s": "idle for 10 s",
        "one_cell": "one cell changed",
        "one_row_scrolled": "one row scrolled",
    }
    budgets = report["budgets"]
    rows = ((name, f"{report[key]:,}", f"{budgets[key]:,}") for key, name in names.items())
    return table(("", "bytes", "budget"), *rows)


def estimate(rows: list[dict[str, Any]]) -> list[str]:
    errors = [abs(row["error"]) for row in rows]
    return [
        *listed(
            rows,
            ("plan", lambda row: row["shape"]),
            ("limit", lambda row: f"{row['rate_bytes_per_s'] / 1e6:g}"),
            ("produced", _produced),
            ("MB", lambda row: f"{row['bytes'] / 1e6:.0f}"),
            ("estimated, s", lambda row: f"{row['estimated_seconds']:.1f}"),
            ("range", lambda row: "–".join(f"{end:.0f}" for end in row["range_seconds"])),
            ("took, s", lambda row: f"{row['took_seconds']:.1f}"),
            ("error", lambda row: f"{row['error']:+.1%}"),
        ),
        "",
        f"Median error {median(errors):.1%}, worst {max(errors):.1%}; "
        f"{sum(row['in_range'] for row in rows)} of {len(rows)} within their range; "
        f"{sum(not row['quiet'] for row in rows)} beside other work on the machine.",
    ]


def _produced(row: dict[str, Any]) -> str:
    asked, came = row["asked_to_produce_bytes_per_s"] / 1e6, row["produced_bytes_per_s"] / 1e6
    return f"{asked:g}, {came:.2f}" if asked else "–"


def time_left(report: dict[str, Any]) -> list[str]:
    targets, plans = report["targets"], report["plans"]
    return [
        *listed(
            plans,
            ("moves", lambda row: row["moves"]),
            ("batches", lambda row: row["batches"]),
            ("MB", lambda row: f"{row['bytes'] / 1e6:.0f}"),
            ("estimated, s", lambda row: f"{row['estimated_seconds']:.0f}"),
            ("took, s", lambda row: f"{row['took_seconds']:.0f}"),
            ("off, % of the run, at each tenth", _off),
        ),
        "",
        f"Median {report['median']:.1%} (target {targets['median']:.0%}), worst "
        f"{report['worst']:.1%} (target {targets['worst']:.0%}); of what was really left "
        f"{report['median_of_left']:.1%} and {report['worst_of_left']:.1%}. A single move was said",
        f"to take longer than the whole {sum(row['single_above_whole'] for row in plans)} times",
        f"in {sum(row['looks'] for row in plans):,} looks; {sum(not row['quiet'] for row in plans)}"
        " plans beside other work on the",
        "machine.",
    ]


def _off(row: dict[str, Any]) -> str:
    took = row["took_seconds"]
    return " ".join(f"{100 * (t['said'] - t['really']) / took:+.0f}" for t in row["tenths"])


def run_against_tool(report: dict[str, Any]) -> list[str]:
    ours, tool = report["medians"]["trimtab"], report["medians"]["tool"]
    rows = (
        ("whole_seconds", "command to end, s", "≤ 1.05 × the tool's"),
        ("moving_seconds", "first move listed to last one gone, s", ""),
        ("first_bytes_over_rate", "bytes in the first 3 s, in seconds of the rate", "≤ 4"),
    )
    return table(
        ("", "`trimtab apply`", "`ReassignPartitionsCommand`", "target"),
        *((what, f"{ours[key]:.2f}", f"{tool[key]:.2f}", target) for key, what, target in rows),
    )


def produce_latency(report: dict[str, Any]) -> list[str]:
    who = ("trimtab", "nothing", "throttled-tool", "tool")
    names = {
        "moving_seconds": "moves in flight, s",
        "idle_p99_ms": "p99 before and after, ms",
        "moving_p99_ms": "p99 while moves are in flight, ms",
        "ratio": "ratio",
        "away_p99_ms": "p99 then, 2 s after the end of each move left out, ms",
    }
    medians = report["medians"]
    ours, tool = medians["trimtab"]["ratio"], medians["tool"]["ratio"]
    verdict = "≤ 1.5 for trimtab: " + ("met" if ours <= 1.5 and ours < tool else "**missed**")
    least = f"least rate of `auto`, {report['least_bytes_per_s'] / 1e6:g} MB/s"
    heads = (
        *("", "`trimtab apply --throttle auto`", "no moves"),
        *(f"`ReassignPartitionsCommand`, at the {least}", "the same, no throttle", "target"),
    )
    rows = (
        (what, *(_number(medians[way][key]) for way in who), verdict if key == "ratio" else "")
        for key, what in names.items()
    )
    turns = f"{len(report['turns'])} turns counted, {len(report['rejected'])} rejected."
    return [*table(heads, *rows), "", turns]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def many_moves(report: dict[str, Any]) -> list[str]:
    step = report["step_ms"]
    steps = ", ".join(str(step[part]) for part in ("first_tenth", "middle_tenth", "last_tenth"))
    return table(
        ("", "", "budget"),
        ("memory of the process, MB", f"{report['memory_bytes'] / 1e6:.0f}", 150),
        ("journal, MB", f"{report['journal_bytes'] / 1e6:.1f}", 20),
        ("a step, ms: first, middle, last tenth", steps, "flat"),
    )


def tools(rows: list[dict[str, Any]]) -> list[str]:
    def seconds(name: str) -> Callable[[dict[str, Any]], str]:
        return lambda row: f"{row[name]:.2f}"

    return listed(
        rows,
        ("", lambda row: f"`{row['what']}`, `{row['tool']}`"),
        ("s", seconds("wall_seconds")),
        ("tool, s", seconds("tool_wall_seconds")),
        ("ratio", seconds("wall_ratio")),
        ("target", lambda row: row["target_ratio"]),
        ("processor, s", seconds("cpu_seconds")),
        ("tool, s", seconds("tool_cpu_seconds")),
        ("ratio", seconds("cpu_ratio")),
    )


def pipeline(report: dict[str, Any]) -> list[str]:
    rows = (
        (part, row["what"], row["value"], row["target"], "yes" if row["met"] else "**no**")
        for part, row in report.items()
    )
    lines = table(("", "", "measured", "target", "met"), *rows)
    return [*lines, *(_against_the_truth(report["P9"]) if "P9" in report else ())]


def _against_the_truth(report: dict[str, Any]) -> list[str]:
    hot = report["hot_partition_mb_per_s"]

    def errors(row: dict[str, float]) -> str:
        return ", ".join(f"{row[name]:.1%}" for name in ("median", "p99", "worst"))

    rows = (
        (f"{name}: {row['what']}", errors(row["trimtab"]), errors(row["even split"]))
        for name, row in report["topics"].items()
    )
    heads = ("trimtab: median, p99, worst error", "even split: median, p99, worst error")
    return [
        "",
        "### Rates beside the truth",
        "",
        "P9 in full: rates of 5-minute windows beside what a simulated cluster's producers",
        "sent, while a broker restarts. Beside trimtab's, Cruise Control's way at its best: each",
        "broker's exact counter of a topic, split evenly over the partitions that it leads.",
        "",
        *table(("topic", *heads), *rows),
        "",
        f"The hot partition takes {hot['true']:.1f} MB/s; trimtab says {hot['trimtab']:.1f},",
        f"an even split {hot['even split']:.1f}.",
    ]


def plans(rows: list[dict[str, Any]]) -> list[str]:
    return listed(
        rows,
        ("cluster", lambda row: row["shape"]),
        ("s", lambda row: f"{median(row['seconds']):.1f}"),
        ("target, s", lambda row: f"{row['most_seconds']:g}"),
        ("memory, MB (≤ 6,000)", lambda row: f"{row['memory_bytes'] / 1e6:,.0f}"),
        ("GB", lambda row: f"{row['bytes'] / 1e9:,.0f}"),
        ("over the bound", lambda row: f"{row['ratio']:.3f}"),
        ("furthest off", lambda row: f"{max(row['off'].values()):.1%}"),
        ("`--generate`: GB", lambda row: f"{row['generate']['bytes'] / 1e9:,.0f}"),
        ("furthest off", lambda row: f"{max(row['generate']['off'].values()):.1%}"),
    )


def documents(rows: list[dict[str, Any]]) -> list[str]:
    return listed(
        rows,
        ("partitions", lambda row: f"{row['partitions']:,}"),
        ("form", lambda row: row["form"]),
        ("MB", lambda row: f"{row['bytes'] / 1e6:,.0f}"),
        ("s", lambda row: f"{median(row['seconds']):.1f}"),
        ("target, s", lambda row: row["most_seconds"] or "–"),
        ("memory, MB", lambda row: f"{row['memory_bytes'] / 1e6:,.0f}"),
    )


def autopilot(report: dict[str, Any]) -> list[str]:
    ours, theirs, months = report["autopilot"], report["daily"], report["months"]
    rows: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
        ("runs", "runs", str),
        ("partitions moved", "partitions", "{:,}".format),
        ("bytes copied, TB", "bytes", lambda n: f"{n / 1e12:.2f}"),
        ("hours outside the band", "outside_hours", "{:.1f}".format),
        ("moved back within a day", "back_within_a_day", str),
    )

    def ratios(key: str) -> list[float]:
        return [month["autopilot"][key] / month["daily"][key] for month in months]

    single_bytes, single_hours = ratios("bytes"), ratios("outside_hours")
    return [
        *table(
            ("", "autopilot", "daily, with hindsight"),
            *((what, form(ours[key]), form(theirs[key])) for what, key, form in rows),
        ),
        "",
        f"Bytes {report['bytes_ratio']:.2f} ×, time outside the band "
        f"{report['outside_ratio']:.2f} ×. Of single months, the largest: bytes "
        f"{max(single_bytes):.2f} ×, time outside {max(single_hours):.2f} ×",
        f"({sum(ratio > 1.3 for ratio in single_hours)} of {len(single_hours)} above 1.3).",
    ]


def timeline(report: dict[str, Any]) -> list[str]:
    month, seen = report["month"], report["seen_seconds"]
    jump = month["jump_ms"]
    return table(
        ("", "", "target"),
        ("the file, MB", f"{month['bytes'] / 1e6:.0f}", 200),
        (
            "a jump to any moment, ms: median, worst",
            f"{jump['median']:.0f}, {jump['worst']:.0f}",
            200,
        ),
        *(
            (f"a change is on the {where} after, s: median, p95", _latencies(seen[where]), 2)
            for where in ("timeline", "map")
        ),
    )


def _latencies(seconds: dict[str, float]) -> str:
    return f"{seconds['median']:.1f}, {seconds['p95']:.1f}"


def rebalances(report: dict[str, Any]) -> list[str]:
    return table(
        ("group protocol", "on the Groups screen", "on the timeline", "target"),
        *(
            (name, _latencies(of["screen"]), _latencies(of["timeline"]), 2)
            for name, of in report.items()
        ),
    )


def statelog_merge(report: dict[str, Any]) -> list[str]:
    turns, tenth = report["turns"], report["tenth"]
    return table(
        ("", "", "target"),
        ("s", f"{median(turn['seconds'] for turn in turns):.1f}", 10),
        ("s of processor", f"{median(turn['processor_seconds'] for turn in turns):.1f}", ""),
        ("memory, MB", f"{max(turn['memory_bytes'] for turn in turns) / 1e6:.0f}", 150),
        ("memory with a tenth of the lines, MB", f"{tenth['memory_bytes'] / 1e6:.0f}", ""),
        ("s with `--json`", f"{report['json']['seconds']:.1f}", ""),
        ("s for one topic", f"{report['one_topic']['seconds']:.1f}", ""),
    )


def replicas_verify(report: dict[str, Any]) -> list[str]:
    turns, last, target = report["turns"], report["found"], f"{report['target_seconds']:.0f}"
    named = sum(map(len, last["differences"]))
    return table(
        ("", "", "target"),
        ("s", f"{median(turn['seconds'] for turn in turns):.1f}", target),
        ("s of processor", f"{median(turn['processor_seconds'] for turn in turns):.1f}", ""),
        ("read, MB", f"{turns[0]['read_bytes'] / 1e6:.0f}", ""),
        (
            "a byte turned in one replica's log: differences named, s",
            f"{named}, {last['seconds']:.1f}",
            f"1, {target}",
        ),
    )


def chaos(report: dict[str, Any]) -> list[str]:
    names = ("what", "target", "seen", "verdict")
    rows = ([row[name] for name in names] for row in report["rows"])
    return [*table((*names[:3], ""), *rows), "", f"{report['minutes']:.0f} minutes."]


SECTIONS: dict[str, tuple[str, Section]] = {
    "First paint": ("first-paint", first_paint),
    "Bytes to the terminal": ("terminal-bytes", terminal_bytes),
    "Estimate beside the clock": ("estimate", estimate),
    "Time left beside the clock": ("time-left", time_left),
    "A throttled run beside Kafka's tool": ("run-beside-tool", run_against_tool),
    "What producers wait while replicas move": ("produce-latency", produce_latency),
    "Ten thousand moves in one run": ("many-moves", many_moves),
    "Kafka's tools, without a JVM": ("tools", tools),
    "The load pipeline": ("pipeline", pipeline),
    "Whole plans": ("plans", plans),
    "Saved clusters": ("documents", documents),
    "Autopilot": ("autopilot", autopilot),
    "Timeline": ("timeline", timeline),
    "Group rebalances": ("rebalances", rebalances),
    "State-change logs merged": ("statelog-merge", statelog_merge),
    "Replicas verified": ("replicas-verify", replicas_verify),
    "Chaos": ("chaos", chaos),
}
"""By their titles: the report that a section is made from, and its tables."""


def page(reports: Path, before: str) -> str:
    """Return the page; what was not measured anew stands as it stood `before`."""
    head, *others = f"\n{before}".split("\n## ")
    stood = {
        text.partition("\n")[0]: text.partition("\n")[2].strip().split("\n") for text in others
    }
    parts = [head.strip()]
    for title, (name, section) in SECTIONS.items():
        lines, report = stood.get(title, []), reports / f"{name}.json"
        if report.exists():
            words = next((n for n, line in enumerate(lines) if line.startswith("|")), len(lines))
            lines = [*lines[:words], *section(json.loads(report.read_text()))]
        if lines:
            parts.append("\n".join((f"## {title}", "", *lines)))
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.output.write_text(page(chosen.reports, chosen.output.read_text()))


if __name__ == "__main__":
    main()
