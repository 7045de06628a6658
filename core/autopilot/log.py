"""The decision log: every decision, and why nothing was done, in an append-only file of JSON lines.

What an autopilot must remember over a restart is read back from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from core import files, paths
from core.autopilot.decision import Reason
from core.autopilot.history import DecisionHistory, PastAction
from core.cluster.metadata import TopicPartition
from core.errors import TrimtabError, UsageError
from core.text.json_text import parse_json
from core.units import format_time, parse_time

MAX_BYTES = 4_000_000
"""A larger file becomes the one before, and another is begun: two of them are kept."""


class EntryKind(Enum):
    """What a line tells; the values are what `--json` prints."""

    SWITCH = "switch"
    CAPACITY = "capacity"
    """Somebody has changed in config.toml what brokers can carry."""
    WAIT = "wait"
    SUGGEST = "suggest"
    ACT = "act"
    """Written before a run is started, or leaders are elected: what was meant is known then."""
    ELECTED = "elected"
    STARTED = "started"
    FAILED = "failed"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line; `moved` holds each partition with its replicas before and after.

    `elected` holds each partition to give back, with who leads it before and after.
    """

    at: datetime
    what: EntryKind
    reasons: tuple[Reason, ...]
    run: str | None = None
    bytes: float = 0.0
    moved: tuple[tuple[TopicPartition, tuple[int, ...], tuple[int, ...]], ...] = ()
    elected: tuple[tuple[TopicPartition, int, int], ...] = ()
    ended_at: datetime | None = None

    @property
    def text(self) -> str:
        """Return what weighs most, in one sentence."""
        return self.reasons[0].text

    def to_json(self) -> dict[str, Any]:
        return {
            "at": format_time(self.at),
            "what": self.what.value,
            "text": self.text,
            "reasons": [{"id": reason.id, "text": reason.text} for reason in self.reasons],
            "run": self.run,
            "bytes": round(self.bytes),
            "ended_at": format_time(self.ended_at) if self.ended_at else None,
            "moved": [
                {"topic": tp.topic, "partition": tp.partition, "before": before, "after": after}
                for tp, before, after in self.moved
            ],
            "elected": [
                {"topic": tp.topic, "partition": tp.partition, "leader": leader, "to": to}
                for tp, leader, to in self.elected
            ],
        }

    @classmethod
    def from_json(cls, document: Any) -> Entry:
        """Return what `to_json` wrote; raises ValueError, KeyError, TypeError or UsageError."""
        reasons = tuple(Reason(str(r["id"]), str(r["text"])) for r in document["reasons"])
        if not reasons:
            raise ValueError("it gives no reason")
        return cls(
            at=parse_time(document["at"]),
            what=EntryKind(document["what"]),
            reasons=reasons,
            run=document["run"],
            bytes=float(document["bytes"]),
            moved=tuple(
                (
                    TopicPartition(str(m["topic"]), int(m["partition"])),
                    tuple(map(int, m["before"])),
                    tuple(map(int, m["after"])),
                )
                for m in document["moved"]
            ),
            elected=tuple(
                (
                    TopicPartition(str(e["topic"]), int(e["partition"])),
                    int(e["leader"]),
                    int(e["to"]),
                )
                for e in document.get("elected", ())  # earlier logs have none
            ),
            ended_at=parse_time(document["ended_at"]) if document["ended_at"] else None,
        )


class DecisionLog:
    """The log of one cluster's autopilot; several processes may add to it."""

    def __init__(self, cluster_id: str) -> None:
        self.path = paths.autopilot_dir(cluster_id) / "decisions.jsonl"
        self._before = self.path.with_suffix(".1.jsonl")

    def add(self, entry: Entry) -> None:
        """Write one line, on disk as this returns; raises TrimtabError when it cannot be kept."""
        text = json.dumps(entry.to_json(), ensure_ascii=False, separators=(",", ":")) + "\n"
        try:
            paths.make_folder(self.path.parent)
            with files.locked(self.path.with_suffix(".lock")):
                if self.path.exists() and self.path.stat().st_size > MAX_BYTES:
                    self.path.replace(self._before)
                _append(self.path, text.encode())
        except OSError as error:
            raise TrimtabError(
                f"The decision log {self.path} cannot be written: {error.strerror}.",
                detail="The autopilot does nothing that it could not remember.",
                next="Make room there, or set TRIMTAB_HOME to another place.",
            ) from error

    def entries(self) -> Iterator[Entry]:
        """Yield the lines, oldest first; what is no whole line is left out."""
        for path in (self._before, self.path):
            if not path.exists():
                continue
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    yield Entry.from_json(parse_json(line))
                except (ValueError, KeyError, TypeError, UsageError):
                    continue


def _append(path: Path, text: bytes) -> None:
    """Write all of `text`, or nothing; after what a crash has left of a line, on a line anew."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    try:
        size = os.lseek(handle, 0, os.SEEK_END)
        if size and os.pread(handle, 1, size - 1) != b"\n":
            text = b"\n" + text
        files.append_whole(handle, text, size)
    finally:
        os.close(handle)


def build_history(entries: Iterable[Entry]) -> DecisionHistory:
    """Return what an autopilot knows of what it did, from its log."""
    acts: list[PastAction] = []
    pending: Entry | None = None
    failed_at = None
    for entry in entries:
        match entry.what:
            case EntryKind.ACT:
                pending = entry
                # Until its run is known it is taken for one that ended as it began.
                acts.append(_past_action(entry, "", entry.at))
            case EntryKind.ELECTED:
                pending = None
            case EntryKind.STARTED if pending is not None and entry.run is not None:
                acts[-1] = _past_action(pending, entry.run, None)
                pending = None
            case EntryKind.FAILED if pending is not None:
                failed_at = entry.at
                acts.pop()
                pending = None
            case EntryKind.ENDED if entry.run is not None:
                before = DecisionHistory(acts=tuple(acts))
                ended_at = entry.ended_at or entry.at
                acts = list(before.ending(entry.run, ended_at, entry.bytes).acts)
            case _:
                pass
    return DecisionHistory(acts=tuple(acts), failed_at=failed_at)


def _past_action(entry: Entry, run: str, ended_at: datetime | None) -> PastAction:
    moved, elected = (frozenset(tp for tp, _, _ in of) for of in (entry.moved, entry.elected))
    return PastAction(entry.at, run, moved, entry.bytes, ended_at, elected)


CLAUSES = {
    EntryKind.SWITCH: "was set to",
    EntryKind.ACT: "decided to act:",
    EntryKind.SUGGEST: "would have acted:",
    EntryKind.ELECTED: "elected:",
    EntryKind.STARTED: "started run",
    EntryKind.FAILED: "did not act:",
    EntryKind.ENDED: "saw run",
    EntryKind.WAIT: "waited:",
}
"""How the timeline's text of an entry begins."""


def format_clause(what: EntryKind, text: str) -> str:
    return f"{CLAUSES[what]} {text}"


def parse_clause(text: str) -> EntryKind | None:
    """Return what a text of the timeline tells; None for one of another version's."""
    return next((what for what, begins in CLAUSES.items() if text.startswith(f"{begins} ")), None)


def mode_of(text: str) -> str:
    """Return the mode that a text of a switch names."""
    return text.removeprefix(CLAUSES[EntryKind.SWITCH]).split()[0]


UNREPORTED = frozenset(("balanced", "not-lasting"))
"""Why it waits on a quiet day: in the log, and nothing for a timeline."""


def timeline_clause(entry: Entry) -> str:
    """Return an entry in the past tense for the timeline, "" for what does not belong there."""
    match entry.what:
        case EntryKind.STARTED:
            text = f"{entry.run}"
        case EntryKind.ENDED:
            text = f"{entry.run} end"
        case EntryKind.SWITCH | EntryKind.CAPACITY:
            return ""
        case EntryKind.WAIT if entry.reasons[0].id in UNREPORTED:
            return ""
        case _:
            text = entry.text.rstrip(".")
            text = text[:1].lower() + text[1:]
    return format_clause(entry.what, text)


def entry_brokers(entry: Entry) -> tuple[int, ...]:
    """Return the brokers that get or give away replicas or leaders by what an entry tells."""
    brokers = {b for _, before, after in entry.moved for b in {*before} ^ {*after}}
    return tuple(sorted(brokers.union(*((leader, to) for _, leader, to in entry.elected))))
