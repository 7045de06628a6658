"""Notifies the user's command or webhook that a run has ended or is stuck.

Sent by the run's process, so that it works with nobody attached; a thread of its own sends, and
nothing that goes wrong with it holds the run up: it is one line in the journal.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from core.run.journal.journal import Journal
from core.run.journal.journal_writer import RunRecorder
from core.run.journal.move_state import Phase
from core.run.journal.records import Kind
from core.run.journal.replay import fold
from core.run.journal.run_state import RunState
from core.run.reporting.rates import RATE_SECONDS
from core.run.reporting.stuck_moves import is_held, waiting_their_turn
from core.settings import NotifyBy
from core.text.terminal import printable
from core.units import format_bytes, format_duration, format_time

STALLED_SECONDS = 60.0
"""A run that has waited, or has copied no byte, for so long is told of."""
COMMAND_SECONDS = 30.0
WEBHOOK_SECONDS = 10.0
LAST_SECONDS = COMMAND_SECONDS + WEBHOOK_SECONDS + 5.0
"""How long the process stays after the run's end for what is still to be sent."""
MAX_ERROR_CHARACTERS = 200


class Notifier:
    """Watches one run and sends notices; `look` is called often, `end` once."""

    def __init__(self, by: NotifyBy) -> None:
        self._by = by
        self._waiting_since: datetime | None = None
        self._stalled = ""
        self._turns: frozenset[int] = frozenset()
        self._turns_at: datetime | None = None
        self._notices: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        self._sent: queue.SimpleQueue[Mapping[str, str]] = queue.SimpleQueue()
        """What became of each notice, by each way, as journals keep it; `why` is "" when sent."""
        self._thread: threading.Thread | None = None

    def look(self, recorder: RunRecorder) -> None:
        """Take one look at the run: send a notice when it has stalled, journal what was sent."""
        if not (self._by.command or self._by.webhook):
            return
        run, now = recorder.state, recorder.now()
        why = self._stall_reason(recorder, now)
        if why and not self._stalled:
            self.send(notice("stalled", run, now, why))
        self._stalled = why
        self._write_outcomes(recorder.write)

    def end(self, journal: Journal) -> None:
        """Send how the run ended, and return when that is done or has taken too long."""
        if not (self._by.command or self._by.webhook):
            return
        run = fold(journal.records())
        at = run.ended_at or run.last_at or run.created_at
        died = run.ended is None
        why = run.crashed if died else run.ended_why
        self.send(notice("died" if died else "ended", run, at, why))
        self._notices.put(None)
        if self._thread is not None:
            self._thread.join(LAST_SECONDS)
        self._write_outcomes(lambda kind, **payload: journal.write(at, kind, payload))

    def _stall_reason(self, recorder: RunRecorder, now: datetime) -> str:
        """Return for what a run has waited too long, or ""."""
        run = recorder.state
        is_meant = run.paused or run.is_scheduled(now)
        retention = run.retention
        awaits = retention is not None and retention.lowered and not retention.awaited
        if not run.waiting or is_meant or awaits:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = now
        if is_meant:
            return ""
        if self._waiting_since and (now - self._waiting_since).total_seconds() >= STALLED_SECONDS:
            return run.waiting

        def turns() -> frozenset[int]:
            """Return who waits its turn, as of a quota window ago at most: it takes all samples."""
            if self._turns_at is None or (now - self._turns_at).total_seconds() >= RATE_SECONDS:
                self._turns = waiting_their_turn(run, recorder.journal.samples())
                self._turns_at = now
            return self._turns

        nothing = idle(run, recorder.newest_sample, now, turns)
        return nothing and (run.waiting or nothing)

    def send(self, document: Mapping[str, Any]) -> None:
        """Send a notice in the background; `look` and `end` journal what became of it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_notices, daemon=True)
            self._thread.start()
        self._notices.put(document)

    def _send_notices(self) -> None:
        while (document := self._notices.get()) is not None:
            event = document["event"]
            if self._by.command:
                why = run_command(self._by.command, document)
                self._sent.put({"event": event, "by": "command", "why": why})
            if self._by.webhook:
                why = post(self._by.webhook, document)
                self._sent.put({"event": event, "by": "webhook", "why": why})

    def _write_outcomes(self, write: Callable[..., object]) -> None:
        with suppress(queue.Empty):
            while True:
                write(Kind.NOTIFIED, **self._sent.get_nowait())


def idle(
    run: RunState,
    sample: Mapping[str, Any] | None,
    now: datetime,
    turns: Callable[[], Collection[int]],
) -> str:
    """Return which copy in flight has got no byte for STALLED_SECONDS, in words, or "".

    `turns` says which moves only wait until others have had theirs; it is asked when needed.
    """
    for index, size, _, arrived, since, *_ in (sample or {"moves": ()})["moves"]:
        m = run.moves[index]
        if is_held(run, m):
            continue
        if run.unheld_at is not None:
            since = max(since, run.unheld_at.timestamp())
        whole = size is not None and sum(b or 0 for b in arrived) >= size * len(arrived)
        seconds = now.timestamp() - since
        idles = m.phase.in_flight and not whole and seconds >= STALLED_SECONDS
        if idles and index not in turns():
            return f"{m.move.tp}: no byte has come for {format_duration(seconds)}"
    return ""


def notice(event: str, run: RunState, at: datetime, why: str) -> dict[str, Any]:
    """Return the document of one notice: `ended`, `stalled` or `died`; no secrets are in it."""
    done = [m for m in run.moves if m.phase is Phase.DONE]
    moved = sum((m.size_bytes or 0) * len(m.move.receiving) for m in done)
    newest = run.newest.values()
    whole = sum(m.phase is Phase.DONE for m in newest)
    state = run.ended.value if run.ended else event
    seconds = (at - run.created_at).total_seconds()
    text = f"trimtab: run {run.run_id} on {run.cluster_name}: {state}" + (why and f", {why}")
    return {
        "event": event,
        "at": format_time(at),
        "run": run.run_id,
        "cluster_id": run.cluster_id,
        "cluster_name": run.cluster_name,
        "host": socket.gethostname(),
        "outcome": run.ended.value if run.ended else None,
        "why": why or None,
        "moves": len(newest),
        "done": whole,
        "moved_bytes": moved,
        "seconds": round(seconds, 1),
        "text": f"{text} ({whole:,} of {len(newest):,} done, {format_bytes(moved)} in "
        f"{format_duration(seconds)})",
    }


# -- sending ---------------------------------------------------------------------------------------


def run_command(argv: tuple[str, ...], document: Mapping[str, Any]) -> str:
    """Run the user's command with the document on its stdin; return why that failed, or ""."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that all of it can be ended
        )
    except OSError as error:
        return f"{argv[0]}: {error.strerror}"
    with process:
        try:
            _, errors = process.communicate(_body(document), COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return f"{argv[0]}: not done in {COMMAND_SECONDS:.0f} s"
    if process.returncode == 0:
        return ""
    text = printable(" ".join(errors.decode("utf-8", "replace").split()))[:MAX_ERROR_CHARACTERS]
    return f"{argv[0]}: exit code {process.returncode}" + (text and f": {text}")


def post(url: str, document: Mapping[str, Any]) -> str:
    """POST the document; return why that failed, or ""; the path, a secret, is not in it."""
    try:
        where = f"webhook at {urlsplit(url).hostname}"
        request = urllib.request.Request(
            url, _body(document), {"Content-Type": "application/json", "User-Agent": "trimtab"}
        )
    except ValueError:  # what it says holds the URL
        return "webhook: its URL is not a valid one"
    try:
        with urllib.request.urlopen(request, timeout=WEBHOOK_SECONDS):
            return ""
    except urllib.error.HTTPError as error:
        error.close()
        return f"{where}: HTTP {error.code}"
    except (http.client.InvalidURL, ValueError):
        return f"{where}: its URL is not a valid one"
    except http.client.HTTPException as error:
        return f"{where}: its answer is not HTTP ({type(error).__name__})"
    except OSError as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        return printable(f"{where}: {reason}")[:MAX_ERROR_CHARACTERS]


def _body(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()
