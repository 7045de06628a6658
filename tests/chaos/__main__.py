"""All of chaos: `python -m chaos -o REPORTS`; prints the table and exits with 1 unless all is met.

The simulator and three sandboxes are played side by side. Stopped by Ctrl-C it stops them all in
order; called again it goes on.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos import table
from chaos.killing import PARTS
from chaos.result_log import ROOT, stops_in_order

LEAST_MINUTES = 2.0
"""Less is not worth starting brokers for."""
STOP_SECONDS = 90.0
"""How long a part may take to stop: brokers are started, records counted, brokers taken down."""


@dataclass(slots=True)
class AuditLine:
    """Parts that follow one another, beside other lines."""

    parts: list[Sequence[str]]
    process: subprocess.Popen[bytes] | None = None
    name: str = ""


def _real(name: str, *words: str) -> Sequence[str]:
    return (name, "chaos.real", name.split("-")[0], *words)


class Conductor:
    """Starts parts as processes in sessions of their own, and sees to it that none is left."""

    def __init__(self, reports: Path, minutes: float) -> None:
        self._reports, self._began = reports, time.monotonic()
        self._until = self._began + 60 * minutes
        self._lines = [
            AuditLine([("simulated", "chaos.simulated")]),
            AuditLine([_real("processes")]),
            AuditLine([_real("nodes-1", "--who", *PARTS[1:])]),
            AuditLine([_real("nodes-2", "--who", *PARTS[:1]), _real("trouble")]),
        ]

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self._began) / 60

    def play(self) -> None:
        """Return once every line has come to its end."""
        try:
            while any(line.parts or line.process for line in self._lines):
                for line in self._lines:
                    if line.process is not None and line.process.poll() is not None:
                        self._say(f"{line.name} has ended ({line.process.returncode})")
                        line.process = None
                    if line.process is None and line.parts:
                        self._start(line, line.parts.pop(0))
                time.sleep(0.2)
        finally:
            self._stop()

    def _start(self, line: AuditLine, part: Sequence[str]) -> None:
        line.name, module, *more = part
        left = (self._until - time.monotonic()) / 60
        if left < LEAST_MINUTES:
            self._say(f"{line.name}: no time is left; call it again to go on")
            return
        report = self._reports / f"chaos-{line.name}.json"
        command = [sys.executable, "-P", "-m", module, *more, "-o", str(report)]
        command += ["--minutes", f"{left:.2f}"]
        if module == "chaos.simulated":
            command = ["nice", "-n", "2", *command]
        self._say(f"{line.name} begins")
        with report.with_suffix(".log").open("ab") as output:
            line.process = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True, cwd=ROOT
            )

    def _stop(self) -> None:
        processes = [line.process for line in self._lines if line.process is not None]
        for process in processes:
            process.send_signal(signal.SIGINT)
        for process in processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def _say(self, what: str) -> None:
        print(f"{self.minutes:5.1f} min  {what}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="Folder of the reports.")
    parser.add_argument("--minutes", type=float, default=55.0)
    arguments = parser.parse_args()
    stops_in_order()
    reports = arguments.output.absolute()
    conductor = Conductor(reports, arguments.minutes)
    try:
        conductor.play()
    finally:
        rows = table.write(reports, conductor.minutes)
        print(table.text(rows))
    sys.exit(any(row.verdict != table.MET for row in rows))


if __name__ == "__main__":
    main()
