"""A merge in several processes: each reads some of the files, one joins them.

What a file says needs no other file, so all but the last step is done side by side. Workers are
fresh interpreters; their lines come in order of time, so that nothing is held but a batch of each.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from heapq import merge
from itertools import count
from multiprocessing.connection import Connection
from typing import NamedTuple

from core.errors import TrimtabError
from core.watch.statelog.event import LogEvent
from core.watch.statelog.files import LogFile
from core.watch.statelog.merge import EventFilter, Merge, MergeTally
from core.watch.statelog.output import JsonFormatter, TextFormatter

BATCH = 2_000
"""Events that a worker hands over at once."""
MIN_BYTES = 20_000_000
"""Less than this is read sooner than an interpreter starts."""
MAX_PROCESSES = 4
"""More would be faster, but each takes some 25 MB."""

_BETWEEN = "\0"
"""Between the lines of a batch: in none of them, as it is not printable, and JSON escapes it."""

Line = tuple[int, int, int, str]
"""By what it is ordered (time, file, place in its worker), and the line itself, or several."""


class _LineBatch(NamedTuple):
    """Lines by columns: a fraction of what as many tuples cost on their way."""

    begin: int
    """The first one's place; the others follow."""
    keys: list[int]
    numbers: list[int]
    texts: str
    read_bytes: dict[int, int]

    def lines(self) -> Iterator[Line]:
        return zip(
            self.keys, self.numbers, count(self.begin), self.texts.split(_BETWEEN), strict=False
        )


class _WorkerResult(NamedTuple):
    tally: MergeTally
    sources: list[LogFile]


def merge_lines(
    sources: Sequence[LogFile],
    event_filter: EventFilter,
    shifts_ms: Mapping[int, int],
    tally: MergeTally,
    *,
    as_json: bool,
    processes: int,
) -> Generator[str, None, None]:
    """Yield what is to be printed of each event; afterwards the tally and the sources are whole.

    Raises TrimtabError when a worker has died.
    """
    shares = _split_files(sources, min(processes, MAX_PROCESSES))
    if len(shares) < 2 or sum(source.size_bytes for source in sources) < MIN_BYTES:
        text = renderer(as_json=as_json)
        for event in Merge(sources, event_filter, shifts_ms, tally):
            yield text(event)
        return
    context = multiprocessing.get_context("spawn")  # a fork takes threads' locks along
    with ExitStack() as running:
        streams = []
        for share in shares:
            here, there = context.Pipe(duplex=False)
            running.callback(here.close)
            worker = context.Process(
                target=_run_worker,
                args=(share, event_filter, dict(shifts_ms), as_json, there),
                daemon=True,
            )
            worker.start()
            there.close()
            running.callback(worker.join)
            running.callback(worker.terminate)
            streams.append(_receive_lines(here, {s.number: s for s in share}, tally))
        for line in merge(*streams):
            yield line[3]


def renderer(*, as_json: bool) -> Callable[[LogEvent], str]:
    """Return what makes an event's line, with its end."""
    return (JsonFormatter() if as_json else TextFormatter()).text


def _split_files(sources: Sequence[LogFile], processes: int) -> list[list[LogFile]]:
    """Return the sources in so many shares of about the same size, none of them empty."""
    shares: list[list[LogFile]] = [[] for _ in range(max(processes, 1))]
    sizes = [0] * len(shares)
    for source in sorted(sources, key=lambda s: s.size_bytes, reverse=True):
        smallest = sizes.index(min(sizes))
        shares[smallest].append(source)
        sizes[smallest] += source.size_bytes
    return [sorted(share, key=lambda s: s.number) for share in shares if share]


def _receive_lines(
    here: Connection, sources: Mapping[int, LogFile], tally: MergeTally
) -> Iterator[Line]:
    while True:
        try:
            message: _LineBatch | _WorkerResult = here.recv()
        except EOFError as error:
            raise TrimtabError(
                "A process that reads logs has died.",
                next="Check whether memory ran out, and try again with fewer files at a time.",
            ) from error
        if isinstance(message, _WorkerResult):
            tally.join(message.tally)
            for source in message.sources:
                sources[source.number].become(source)
            return
        for number, read_bytes in message.read_bytes.items():
            sources[number].read_bytes = read_bytes
        yield from message.lines()


def _run_worker(
    sources: list[LogFile],
    event_filter: EventFilter,
    shifts_ms: dict[int, int],
    as_json: bool,
    there: Connection,
) -> None:
    """Send batches of lines, and at the end what was noted; ends when nobody listens any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it ends it
    tally = MergeTally()
    text = renderer(as_json=as_json)
    numbers = {str(source.path): source.number for source in sources}
    key, begin = -(2**62), 0
    keys: list[int] = []
    files: list[int] = []
    texts: list[str] = []

    def send() -> None:
        read = {source.number: source.read_bytes for source in sources}
        there.send(_LineBatch(begin, keys, files, _BETWEEN.join(texts), read))

    try:
        for event in Merge(sources, event_filter, shifts_ms, tally):
            if event.at_ms > key:
                key = event.at_ms
            keys.append(key)
            files.append(numbers[event.file])
            texts.append(text(event))
            if len(keys) == BATCH:
                send()
                begin += BATCH
                keys, files, texts = [], [], []
        if keys:
            send()
        there.send(_WorkerResult(tally, sources))
    except BrokenPipeError:
        return
