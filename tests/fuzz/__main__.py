"""`make fuzz`: thousands of damaged files of each kind, and what trimtab says to them."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from fuzz.kinds import KINDS
from fuzz.processes import play_kind

SHOWN = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000, help="of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("-o", "--output", type=Path, help="write what was found as JSON")
    options = parser.parse_args()
    results = []
    print(
        f"{'kind':<14}{'inputs':>9}{'loaded':>9}{'refused':>9}{'faults':>8}{'s':>7}{'worst s':>9}"
    )
    for kind in options.only:
        result = play_kind(kind, options.first, options.first + options.inputs)
        results.append(result)
        loaded = result.inputs - result.refused - len(result.faults)
        print(
            f"{kind:<14}{result.inputs:>9,}{loaded:>9,}{result.refused:>9,}"
            f"{len(result.faults):>8}{result.seconds:>7.0f}{result.slowest_seconds:>9.2f}",
            flush=True,
        )
        alike = Counter(result.faults.values())
        for fault, times in alike.most_common(SHOWN):
            first = next(number for number, text in result.faults.items() if text == fault)
            print(f"    {times}× {fault} (first: {first})", flush=True)
    if options.output:
        options.output.write_text(
            json.dumps([asdict(outcome) for outcome in results], indent=2) + "\n"
        )
    return 1 if any(result.faults for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
