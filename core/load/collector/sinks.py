"""Where the samples of a poll go: a segment in the spool, or records of a Kafka topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from core.cluster.client import TopicWriter
from core.errors import TrimtabError


@dataclass(frozen=True, slots=True)
class Written:
    """Where a poll lies: in a segment, unless the gate refused it, or in records of a topic."""

    segment: Path | None = None
    records: int = 0


class Sink(Protocol):
    """Takes polls, one after the other."""

    def write(self, cluster_id: str, poll: str, rows: Mapping[str, Any], at: datetime) -> Written:
        """Write one poll, named so that no other has its name.

        `rows` maps every column of the sample's schema to an Arrow array. Raises OSError or
        TrimtabError when nothing is written, UnconfirmedError when something may be.
        """


class SpoolSink:
    """Segments in the spool of a load root, behind the gate."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, cluster_id: str, poll: str, rows: Mapping[str, Any], at: datetime) -> Written:
        """Write one poll; see Sink."""
        from core.load.spool import write_segment

        return Written(segment=write_segment(self._root, cluster_id, poll, rows, at))


class TopicSink:
    """Records of a topic; `ensure_topic` makes it where it is missing.

    That is called before the first poll, and again after each that was not written.
    """

    def __init__(self, writer: TopicWriter, ensure_topic: Callable[[], None]) -> None:
        self._writer = writer
        self._ensure_topic = ensure_topic
        self._is_there = False

    def write(self, cluster_id: str, poll: str, rows: Mapping[str, Any], at: datetime) -> Written:
        """Write one poll; see Sink."""
        from core.load.samples_topic import encode_poll

        if not self._is_there:
            self._ensure_topic()
        try:
            count = self._writer.write(encode_poll(cluster_id, poll, rows, at))
        except TrimtabError:
            self._is_there = False
            raise
        self._is_there = True
        return Written(records=count)
