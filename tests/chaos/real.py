"""Runs on real brokers that everything befalls: `python -m chaos.real PART -o REPORT`.

PART is `processes` (kill -9 of the run's process at every kind of record, cancels, pauses), `nodes`
(kill -9 of brokers and controllers), or `trouble` (random faults from seeds). Kafka's own tools
judge each run, and a consumer counts what producers were told is safe. What has been played is not
played again; with --minutes it ends in time and goes on from there when it is called again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random

from chaos.acks import Acknowledged
from chaos.brokers import Brokers, chaos_sandbox
from chaos.killing import PARTS as NODES
from chaos.killing import Killing
from chaos.layout import LAYOUTS, SHORT_LAYOUTS
from chaos.lives import Lives
from chaos.result_log import ResultLog, stops_in_order
from chaos.trouble import Troubled

TROUBLE = "random trouble on real brokers"
ACKNOWLEDGED = "acknowledged records"
TROUBLES = 20
PARTS = ("processes", "nodes", "trouble")


def troubled(brokers: Brokers, lives: Lives, results: ResultLog) -> Iterator[None]:
    """Let a run live through each seed's trouble."""
    for seed in range(1, TROUBLES + 1):
        if not results.knows(TROUBLE, f"seed {seed}"):
            form = Troubled(brokers, Random(seed))
            lived = lives.live(form)
            result = {"outcome": lived.outcome, "why": lived.why, "run": lived.run}
            details = {"wrong": list(lived.wrong), "lives": lived.lives, "happened": form.happened}
            results.add(TROUBLE, f"seed {seed}", result | details)
            yield


def cases(brokers: Brokers, results: ResultLog, arguments: argparse.Namespace) -> Iterator[None]:
    """Play what is left of a part, one run at each step."""
    lives = Lives(brokers)
    if arguments.part == "trouble":
        return troubled(brokers, lives, results)
    killing = Killing(brokers, lives, results, Random(1))
    if arguments.part == "nodes":
        return killing.nodes(arguments.who)
    return chain(killing.cancels_and_pauses(), killing.processes())


def play(brokers: Brokers, results: ResultLog, arguments: argparse.Namespace) -> None:
    """Play a part for so long, with producers at work, and count what they wrote."""
    deadline = time.monotonic() + 60 * arguments.minutes
    brokers.lay_out()
    producer = Acknowledged(brokers.sandbox.bootstrap, list(LAYOUTS), list(SHORT_LAYOUTS))
    try:
        for _ in cases(brokers, results, arguments):
            if time.monotonic() > deadline:
                print("Time is up; call it again to go on.", file=sys.stderr)
                break
    finally:
        brokers.end_processes()
        brokers.start_nodes()
        lost = producer.lost()
        wrong = [f"{lost} acknowledged records are lost"] if lost else []
        counted = {"outcome": "counted", "records": producer.count, "wrong": wrong}
        results.add(ACKNOWLEDGED, brokers.sandbox.cluster_id, counted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--who", nargs="+", choices=NODES, default=NODES, help="Nodes to kill.")
    arguments = parser.parse_args()
    stops_in_order()
    results = ResultLog(arguments.output)
    with tempfile.TemporaryDirectory(prefix="trimtab-chaos-") as home:
        sandbox = chaos_sandbox(arguments.output.stem)
        try:
            brokers = Brokers(sandbox, Path(home))
            try:
                play(brokers, results, arguments)
            finally:
                brokers.end_processes()
                brokers.client.close()
        finally:
            sandbox.down()
    sys.exit(results.report())


if __name__ == "__main__":
    main()
