"""What each bench found, as a section of docs/measurements.md."""

from __future__ import annotations

from statistics import median
from typing import Any


def first_paint(found: dict[str, Any]) -> list[str]:
    return [
        "Process start to the heat map on a terminal, four real brokers, beside Kafka's",
        "`TopicCommand --describe` in the same run (`make bench-first-paint`).",
        "",
        "| | median of five, s |",
        "|---|---|",
        f"| `trimtab -b …` | {found['first_paint_median_seconds']:.2f} |",
        f"| `TopicCommand --describe` | {found['topic_command_median_seconds']:.2f} |",
        f"| ratio | {found['ratio']:.2f} |",
    ]


def terminal_bytes(found: dict[str, Any]) -> list[str]:
    budgets = found["budgets"]
    names = {
        "idle_10_s": "idle for 10 s",
        "one_cell": "one cell changed",
        "one_row_scrolled": "one row scrolled",
    }
    return [
        "At 120×40 (`make bench-terminal`).",
        "",
        "| | bytes | budget |",
        "|---|---|---|",
        *(f"| {names[key]} | {found[key]:,} | {budgets[key]:,} |" for key in names),
    ]


def estimate(found: list[dict[str, Any]]) -> list[str]:
    errors = [abs(row["error"]) for row in found]
    noisy = sum(not row["quiet"] for row in found)
    return [
        "`trimtab estimate` beside the wall time of the whole `trimtab apply`, on four real",
        "brokers (`make bench-estimate`); leaders to destinations. The limit of each broker and",
        "side, and what is produced to what moves (asked, and what it came to), are in MB/s.",
        "",
        "| plan | limit | produced | MB | estimated, s | range | took, s | error |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {row['shape']} | {row['rate_bytes_per_s'] / 1e6:g} | {_produced(row)} "
            f"| {row['bytes'] / 1e6:.0f} | {row['estimated_seconds']:.1f} "
            f"| {row['range_seconds'][0]:.0f}–{row['range_seconds'][1]:.0f} "
            f"| {row['took_seconds']:.1f} | {row['error']:+.1%} |"
            for row in found
        ),
        "",
        f"Median error {median(errors):.1%}, worst {max(errors):.1%}; "
        f"{sum(row['in_range'] for row in found)} of {len(found)} within their range; "
        f"{noisy} beside other work on the machine.",
    ]


def _produced(row: dict[str, Any]) -> str:
    asked = row["asked_to_produce_bytes_per_s"] / 1e6
    seen = row["produced_bytes_per_s"] / 1e6
    return f"{asked:g}, {seen:.2f}" if asked else "–"


def time_left(found: dict[str, Any]) -> list[str]:
    targets, plans = found["targets"], found["plans"]
    noisy = sum(not row["quiet"] for row in plans)
    return [
        f"{len(plans)} plans of `plan suggest`, on four real brokers to which a skewed load is",
        "produced meanwhile, carried out in batches (`make bench-time-left`). At each tenth of a",
        "run's time: by how much what it says is left was too long (+) or too short, in percent of",
        "the run's whole time.",
        "",
        "| moves | batches | MB | estimated, s | took, s | off, % of the run, at each tenth |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row['moves']} | {row['batches']} | {row['bytes'] / 1e6:.0f} "
            f"| {row['estimated_seconds']:.0f} | {row['took_seconds']:.0f} | {_off(row)} |"
            for row in plans
        ),
        "",
        f"Median {found['median']:.1%} (target {targets['median']:.0%}), worst "
        f"{found['worst']:.1%} (target {targets['worst']:.0%}); of what was really left "
        f"{found['median_of_left']:.1%} and {found['worst_of_left']:.1%}. A single move was said",
        f"to take longer than the whole {sum(row['single_above_whole'] for row in plans)} times",
        f"in {sum(row['looks'] for row in plans):,} looks; {noisy} plans beside other work on the",
        "machine.",
    ]


def _off(row: dict[str, Any]) -> str:
    took = row["took_seconds"]
    return " ".join(f"{100 * (t['said'] - t['really']) / took:+.0f}" for t in row["tenths"])


def run_beside_tool(found: dict[str, Any]) -> list[str]:
    names = {
        "whole_seconds": "command to end, s",
        "moving_seconds": "first move listed to last one gone, s",
        "first_bytes_over_rate": "bytes in the first 3 s, in seconds of the rate",
    }
    targets = {"whole_seconds": "≤ 1.05 × the tool's", "first_bytes_over_rate": "≤ 4"}
    medians = found["medians"]
    return [
        f"{found['bytes'] / 1e6:.0f} MB at {found['rate_bytes_per_s'] / 1e6:.0f} MB/s, one leader",
        "to one destination, by turns on the same brokers (`make bench-run`); medians.",
        "",
        "| | `trimtab apply` | `ReassignPartitionsCommand` | target |",
        "|---|---|---|---|",
        *(
            f"| {names[key]} | {medians['trimtab'][key]:.2f} | {medians['tool'][key]:.2f} "
            f"| {targets.get(key, '')} |"
            for key in names
        ),
    ]


def tools(found: list[dict[str, Any]]) -> list[str]:
    return [
        "From the shell, process start to end, on four real brokers with 240 partitions, by turns",
        f"with Kafka's own tool (`make bench-tools`); medians of {found[0]['rounds']}. Processor",
        "time is user and system together. The tool starts with a class archive of its JVM, which",
        "Kafka's own scripts do not have.",
        "",
        "| | s | tool, s | ratio | target | processor, s | tool, s | ratio |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| `{row['what']}`, `{row['tool']}` | {row['wall_seconds']:.2f} "
            f"| {row['tool_wall_seconds']:.2f} | {row['wall_ratio']:.2f} "
            f"| {row['target_ratio']} | {row['cpu_seconds']:.2f} "
            f"| {row['tool_cpu_seconds']:.2f} | {row['cpu_ratio']:.2f} |"
            for row in found
        ),
    ]


def many_moves(found: dict[str, Any]) -> list[str]:
    step = found["step_ms"]
    return [
        "On the simulator (`make bench-moves`); a step without the time that the cluster took.",
        "",
        "| | | budget |",
        "|---|---|---|",
        f"| memory of the process, MB | {found['memory_bytes'] / 1e6:.0f} | 150 |",
        f"| journal, MB | {found['journal_bytes'] / 1e6:.1f} | 20 |",
        f"| a step, ms: first, middle, last tenth | {step['first_tenth']}, "
        f"{step['middle_tenth']}, {step['last_tenth']} | flat |",
    ]


def pipeline(found: dict[str, Any]) -> list[str]:
    return [
        "Ratios are of the same run, by turns (`make bench-pipeline`).",
        "",
        "| | | measured | target | met |",
        "|---|---|---|---|---|",
        *(
            f"| {part} | {row['what']} | {row['value']} | {row['target']} "
            f"| {'yes' if row['met'] else '**no**'} |"
            for part, row in found.items()
        ),
        *(beside_the_truth(found["P9"]) if "P9" in found else ()),
    ]


def beside_the_truth(found: dict[str, Any]) -> list[str]:
    hot = found["hot_partition_mb_per_s"]
    return [
        "",
        "### Rates beside the truth",
        "",
        "P9 in full: rates of 5-minute windows beside what a simulated cluster's producers",
        "sent, while a broker restarts. Beside trimtab's, Cruise Control's way at its best: each",
        "broker's exact counter of a topic, split evenly over the partitions that it leads.",
        "",
        "| topic | trimtab: median, p95, worst error | even split: median, p95, worst error |",
        "|---|---|---|",
        *(
            f"| {name}: {row['what']} | {_errors(row['trimtab'])} | {_errors(row['even split'])} |"
            for name, row in found["topics"].items()
        ),
        "",
        f"The hot partition takes {hot['true']:.1f} MB/s; trimtab says {hot['trimtab']:.1f},",
        f"an even split {hot['even split']:.1f}.",
    ]


def _errors(row: dict[str, float]) -> str:
    return ", ".join(f"{row[name]:.1%}" for name in ("median", "p95", "worst"))


_WAITED = ("trimtab", "nothing", "throttled-tool", "tool")


def produce_latency(found: dict[str, Any]) -> list[str]:
    names = {
        "moving_seconds": "moves in flight, s",
        "idle_p99_ms": "p99 before and after, ms",
        "moving_p99_ms": "p99 while moves are in flight, ms",
        "ratio": "ratio",
        "away_p99_ms": "p99 then, 2 s after the end of each move left out, ms",
    }
    medians, rejected = found["medians"], len(found["rejected"])
    return [
        f"{found['bytes'] / 1e6:.0f} MB between four brokers, {found['messages_per_s']} messages a",
        "second with `acks=all`, by turns (`make bench-latency`); medians of",
        f"{len(found['turns'])} turns, {rejected} more rejected because something else disturbed",
        "the idle windows around them. Where nothing moves, the ratio is the machine's own.",
        "",
        "| | `trimtab apply --throttle auto` | no moves | `ReassignPartitionsCommand`, at the "
        f"least rate of `auto`, {found['least_bytes_per_s'] / 1e6:g} MB/s | the same, no throttle "
        "| target |",
        "|---|---|---|---|---|---|",
        *(
            f"| {told} | "
            + " | ".join(_number(medians[who][key]) for who in _WAITED)
            + f" | {_verdict(medians) if key == 'ratio' else ''} |"
            for key, told in names.items()
        ),
    ]


def _verdict(medians: dict[str, Any]) -> str:
    ours, tool = (medians[who]["ratio"] for who in ("trimtab", "tool"))
    return "≤ 1.5 for trimtab: " + ("met" if ours <= 1.5 and ours < tool else "**missed**")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def plans(found: list[dict[str, Any]]) -> list[str]:
    return [
        "`trimtab --from FILE plan suggest` on clusters out of balance, each in a process of its",
        "own (`make bench-plan`); medians of the times, the peak of its memory. The bound",
        "is what any plan must copy: for 12 brokers a linear program over all measures, else the",
        "largest that a single measure asks for. Furthest off is the worst broker and measure,",
        "from its fair share. Beside it, what Kafka's `--generate` proposes for the same cluster",
        "([its rule, played](planning.md#beside-kafkas-own)).",
        "",
        "| cluster | s | target, s | memory, MB (≤ 6,000) | GB | over the bound | furthest off "
        "| `--generate`: GB | furthest off |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {row['shape']} | {median(row['seconds']):.1f} | {row['most_seconds']:g} "
            f"| {row['memory_bytes'] / 1e6:,.0f} "
            f"| {row['bytes'] / 1e9:,.0f} | {row['ratio']:.3f} | {max(row['off'].values()):.1%} "
            f"| {row['generate']['bytes'] / 1e9:,.0f} "
            f"| {max(row['generate']['off'].values()):.1%} |"
            for row in found
        ),
    ]


def documents(found: list[dict[str, Any]]) -> list[str]:
    return [
        "A cluster document of `show --json -o FILE` read by a process of its own, timed as a",
        "whole (`make bench-documents`); partitions have three replicas.",
        "",
        "| partitions | form | MB | s | target, s | memory, MB |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row['partitions']:,} | {row['form']} | {row['bytes'] / 1e6:,.0f} "
            f"| {median(row['seconds']):.1f} | {row['most_seconds'] or '–'} "
            f"| {row['memory_bytes'] / 1e6:,.0f} |"
            for row in found
        ),
    ]


def timeline(found: dict[str, Any]) -> list[str]:
    month, seen = found["month"], found["seen_seconds"]
    return [
        f"{month['changes']:,} changes in {month['days']} days to {month['partitions']:,}",
        f"simulated partitions, and {seen['map']['changes']} of "
        f"{len(seen['map']['kinds'])} kinds on real brokers (`make bench-timeline`).",
        "",
        "| | | target |",
        "|---|---|---|",
        f"| the file, MB | {month['bytes'] / 1e6:.0f} | 200 |",
        f"| a jump to any moment, ms: median, worst | {month['jump_ms']['median']:.0f}, "
        f"{month['jump_ms']['worst']:.0f} | 200 |",
        *(
            f"| a change is on the {where} after, s: median, p95 | {seen[where]['median']:.1f}, "
            f"{seen[where]['p95']:.1f} | 2 |"
            for where in ("timeline", "map")
        ),
    ]


def rebalances(found: dict[str, Any]) -> list[str]:
    changes = sum(protocol["screen"]["changes"] for protocol in found.values())
    return [
        f"{changes} times a consumer joined or left a group, on real brokers "
        "(`make bench-rebalances`);",
        "from when the last client has its new partitions, in seconds: median, p95.",
        "",
        "| group protocol | on the Groups screen | on the timeline | target |",
        "|---|---|---|---|",
        *(
            f"| {name} | {of['screen']['median']:.1f}, {of['screen']['p95']:.1f} "
            f"| {of['timeline']['median']:.1f}, {of['timeline']['p95']:.1f} | 2 |"
            for name, of in found.items()
        ),
    ]


def statelog_merge(found: dict[str, Any]) -> list[str]:
    turns = found["turns"]
    return [
        f"{found['lines']:,} lines of {found['brokers']} brokers, {found['bytes'] / 1e6:.0f} MB,",
        "one log packed, one rotated (`make bench-statelog`); medians of the whole command.",
        "",
        "| | | target |",
        "|---|---|---|",
        f"| s | {median(turn['seconds'] for turn in turns):.1f} | 10 |",
        f"| s of processor | {median(turn['processor_seconds'] for turn in turns):.1f} | |",
        f"| memory, MB | {max(turn['memory_bytes'] for turn in turns) / 1e6:.0f} | 150 |",
        f"| memory with a tenth of the lines, MB | {found['tenth']['memory_bytes'] / 1e6:.0f} | |",
        f"| s with `--json` | {found['json']['seconds']:.1f} | |",
        f"| s for one topic | {found['one_topic']['seconds']:.1f} | |",
    ]


def replicas_verify(found: dict[str, Any]) -> list[str]:
    turns, last = found["turns"], found["found"]
    return [
        f"{turns[0]['compared_bytes'] / 1e9:.2f} GB of records, {found['replicas']} replicas of "
        "each, on four real brokers",
        "(`make bench-replicas`); medians of the whole command.",
        "",
        "| | | target |",
        "|---|---|---|",
        f"| s | {median(turn['seconds'] for turn in turns):.1f} | {found['target_seconds']:.0f} |",
        f"| s of processor | {median(turn['processor_seconds'] for turn in turns):.1f} | |",
        f"| read, MB | {turns[0]['read_bytes'] / 1e6:.0f} | |",
        f"| a byte turned in one replica's log: differences named, s | "
        f"{sum(map(len, last['differences']))}, {last['seconds']:.1f} | 1, "
        f"{found['target_seconds']:.0f} |",
    ]


def chaos(found: dict[str, Any]) -> list[str]:
    return [
        f"`make chaos`, {found['minutes']:.0f} minutes; [what it plays](testing.md#chaos).",
        "",
        "| what | target | seen | |",
        "|---|---|---|---|",
        *(
            f"| {row['what']} | {row['target']} | {row['seen']} | {row['verdict']} |"
            for row in found["rows"]
            if row["seen"] != "not measured"  # what has a bench of its own stands above
        ),
    ]


def autopilot(found: dict[str, Any]) -> list[str]:
    ours, theirs = found["autopilot"], found["daily"]

    def row(what: str, key: str, form: Any) -> str:
        return f"| {what} | {form(ours[key])} | {form(theirs[key])} |"

    def ratios(key: str) -> list[float]:
        return [month["autopilot"][key] / month["daily"][key] for month in found["months"]]

    single_bytes, single_hours = ratios("bytes"), ratios("outside_hours")
    above = sum(ratio > 1.3 for ratio in single_hours)
    return [
        f"{len(found['months'])} months of {found['days']} days, {found['brokers']} brokers and",
        f"{found['partitions']:,} partitions, whose load follows the day, grows and jumps; brokers",
        "go down, and one joins (`make bench-autopilot`). Beside it a planner that acts once a day",
        "and knows the mean of the day to come. All months together:",
        "",
        "| | autopilot | daily, with hindsight |",
        "|---|---|---|",
        row("runs", "runs", str),
        row("partitions moved", "partitions", lambda n: f"{n:,}"),
        row("bytes copied, TB", "bytes", lambda n: f"{n / 1e12:.2f}"),
        row("hours outside the band", "outside_hours", lambda n: f"{n:.1f}"),
        row("moved back within a day", "back_within_a_day", str),
        "",
        f"Bytes {found['bytes_ratio']:.2f} ×, time outside the band "
        f"{found['outside_ratio']:.2f} ×. Of single months, the largest: bytes "
        f"{max(single_bytes):.2f} ×, time outside {max(single_hours):.2f} ×",
        f"({above} of {len(single_hours)} above 1.3).",
    ]
