"""What has been played so far, on disk after each case; the report of it all; stopping in order."""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
STOPPED = 130


class ResultLog:
    """Results by group and name; those of other code than today's are not taken for today's."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._path = report.with_suffix(".played.jsonl")
        self._results: dict[tuple[str, str], dict[str, Any]] = {}
        self._code = _code()
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        self._goes_on = bool(lines) and json.loads(lines[0]) == {"code": self._code}
        if lines and not self._path.read_text().endswith("\n"):
            lines.pop()  # its writer was killed as it wrote this
            self._path.write_text("".join(f"{line}\n" for line in lines))
        for line in lines[1:] if self._goes_on else ():
            entry = json.loads(line)
            self._results[entry.pop("group"), entry.pop("name")] = entry

    def knows(self, group: str, name: str) -> bool:
        return (group, name) in self._results

    def count(self, group: str) -> int:
        """Return how many of a group have been played."""
        return sum(entry_group == group for entry_group, _ in self._results)

    def expect(self, of: Mapping[str, int]) -> None:
        """Keep how many there are of each group, so that what is missing can be told."""
        self.add("", "there are", {"outcome": None, "wrong": [], "of": dict(of)})

    @property
    def expected(self) -> Mapping[str, int]:
        result = self._results.get(("", "there are"))
        return result["of"] if result else {}

    def add(self, group: str, name: str, result: dict[str, Any]) -> None:
        """Keep one result, which has `outcome` and `wrong`."""
        self._results[group, name] = result
        if not self._goes_on:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps({"code": self._code}) + "\n")
            self._goes_on = True
        with self._path.open("a") as lines:
            lines.write(json.dumps({"group": group, "name": name, **result}) + "\n")

    @property
    def entries(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield each result with its group and name."""
        for (group, name), result in self._results.items():
            if group:
                yield group, name, result

    def wrong(self) -> list[dict[str, Any]]:
        """Return every result that is not as it has to be."""
        return [
            {"group": group, "name": name, **result}
            for (group, name), result in self._results.items()
            if result["wrong"]
        ]

    def report(self) -> int:
        """Write the report; return 1 when anything in it is wrong, else 0."""
        groups: dict[str, dict[str, Any]] = {}
        for group, _, result in self.entries:
            entry = groups.setdefault(group, {"played": 0, "wrong": 0, "outcomes": {}})
            entry["played"] += 1
            entry["wrong"] += bool(result["wrong"])
            outcomes = entry["outcomes"]
            outcomes[result["outcome"]] = outcomes.get(result["outcome"], 0) + 1
        wrong = self.wrong()
        self._report.write_text(json.dumps({"groups": groups, "wrong": wrong}, indent=2) + "\n")
        for group, entry in groups.items():
            print(f"{entry['played']:5} {group}: {entry['wrong']} wrong, {entry['outcomes']}")
        return 1 if wrong else 0


def stops_in_order() -> None:
    """Leave by an exception on SIGTERM, SIGHUP and Ctrl-C; a second one changes nothing."""

    def stop(number: int, frame: Any) -> None:
        for stop_signal in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(stop_signal, signal.SIG_IGN)
        raise SystemExit(STOPPED)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)


def _code() -> str:
    """Return a digest of everything that decides how a case ends."""
    digest = hashlib.sha256()
    for folder in ("core/run", "core/cluster", "core/plan", "tests/chaos"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
