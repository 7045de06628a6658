"""What the benches measure of other processes is those processes' own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.measured import run_measured
from bench.sections import documents, pipeline, plans, produce_latency, tools
from bench.summary import page


def test_memory_is_that_of_the_process_itself_at_its_peak() -> None:
    ours = bytearray(200_000_000)
    ours[::4096] = b"x" * len(ours[::4096])  # touched, so that it is really there
    small = run_measured(program="print('done')")
    large = run_measured(program="b = bytearray(120_000_000); b[::4096] = b'x' * len(b[::4096])")
    assert small.output == "done\n"
    assert small.memory_bytes < 60_000_000 < 120_000_000 < large.memory_bytes < 200_000_000


def test_the_exit_code_is_told_and_a_process_that_is_killed_is_not_measured() -> None:
    assert run_measured(program="raise SystemExit(6)").code == 6
    with pytest.raises(RuntimeError):
        run_measured(program="import os; os.kill(os.getpid(), 9)")


def test_tables_have_a_value_in_each_column() -> None:
    generate = {"bytes": 9e12, "off": {"disk": 0.2}}
    plan = {"shape": "a", "seconds": [1, 2, 3], "most_seconds": 30.0, "memory_bytes": 5e8}
    plan |= {"bytes": 1e12, "ratio": 1.01, "off": {"disk": 0.1}, "generate": generate}
    saved = {"partitions": 1_000_000, "form": "Arrow", "bytes": 1e8, "seconds": [0.5]}
    saved |= {"most_seconds": None, "memory_bytes": 1e8}
    tool = {"what": "elect", "tool": "LeaderElectionCommand", "rounds": 7, "target_ratio": 0.7}
    tool |= {"wall_seconds": 0.4, "tool_wall_seconds": 0.8, "wall_ratio": 0.5}
    tool |= {"cpu_seconds": 0.3, "tool_cpu_seconds": 0.9, "cpu_ratio": 0.33}
    tables = {
        "| 2.0 | 30 | 500 |": plans([plan]),
        "| 0.5 | – | 100 |": documents([saved]),
        "| 0.50 | 0.7 | 0.30 | 0.90 | 0.33 |": tools([tool]),
    }
    for cells, lines in tables.items():
        head, _, row = (line for line in lines if line.startswith("|"))
        assert head.count("|") == row.count("|")
        assert cells in row


@pytest.mark.parametrize(
    ("ours", "tool", "verdict"),
    [(1.5, 80.0, "met"), (1.6, 80.0, "**missed**"), (1.4, 1.3, "**missed**")],
)
def test_waits_beside_a_run_are_judged_by_the_target_and_by_the_tool(
    ours: float, tool: float, verdict: str
) -> None:
    names = ("moving_seconds", "idle_p99_ms", "moving_p99_ms", "away_p99_ms")
    ratios = {"trimtab": ours, "nothing": 1.01, "throttled-tool": 1.23, "tool": tool}
    medians = {who: dict.fromkeys(names) | {"ratio": ratio} for who, ratio in ratios.items()}
    found = {"bytes": 1e9, "messages_per_s": 200, "least_bytes_per_s": 2_000_000}
    told = produce_latency(found | {"turns": [], "rejected": [], "medians": medians})
    head, _, *rows = (line for line in told if line.startswith("|"))
    assert {row.count("|") for row in rows} == {head.count("|")}
    (ratio,) = (row for row in rows if row.startswith("| ratio"))
    assert ratio == (
        f"| ratio | {ours:.2f} | 1.01 | 1.23 | {tool:.2f} | ≤ 1.5 for trimtab: {verdict} |"
    )


def test_a_pipeline_bench_of_some_parts_only_is_told_as_far_as_it_went() -> None:
    part = {"what": "exactness", "value": "0 lost", "target": "0 lost", "met": True}
    error = {"median": 0.01, "p95": 0.02, "worst": 0.03}
    topic = {"what": "even", "trimtab": error, "even split": error}
    hot = {"true": 9.0, "trimtab": 8.9, "even split": 3.0}
    beside = part | {"topics": {"orders": topic}, "hot_partition_mb_per_s": hot}
    told = pipeline({"P1": part})
    assert told[-1] == "| P1 | exactness | 0 lost | 0 lost | yes |"
    assert pipeline({"P1": part, "P9": beside})[-1] == "an even split 3.0."


def test_what_was_not_measured_anew_stands_as_it_stood(tmp_path: Path) -> None:
    before = "# Measurements\n\nold words\n\n## Bytes to the terminal\n\nold\n\n## Chaos\n\nkept\n"
    sizes = {"idle_10_s": 115, "one_cell": 56, "one_row_scrolled": 7006}
    found = {**sizes, "budgets": {"idle_10_s": 1000, "one_cell": 400, "one_row_scrolled": 16000}}
    (tmp_path / "terminal-bytes.json").write_text(json.dumps(found))
    made = page(tmp_path, before)
    assert "old" not in made
    assert "| one row scrolled | 7,006 | 16,000 |" in made
    assert made.endswith("\n\n## Chaos\n\nkept\n")
    assert page(tmp_path, made) == made
