"""Plays a kind's inputs in a process of its own.

A death of the interpreter is one fault then: another process goes on behind the input that was it.
"""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from fuzz.law import Outcome, limit_memory, play, prepared

HANG_SECONDS = 60.0
"""A process that says nothing for so long is ended."""
BATCH_SECONDS = 0.5


@dataclass
class Result:
    """What became of a kind's inputs."""

    kind: str
    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest_seconds: float = 0.0
    faults: dict[int, str] = field(default_factory=dict)

    def take(self, outcome: Outcome) -> None:
        self.inputs += 1
        self.refused += outcome.refused
        self.slowest_seconds = max(self.slowest_seconds, outcome.seconds)
        if outcome.fault:
            self.faults[outcome.number] = outcome.fault


def play_kind(kind: str, first: int, last: int) -> Result:
    """Play the inputs from `first` up to `last`, that one left out."""
    result, began = Result(kind), time.monotonic()
    context = multiprocessing.get_context("spawn")
    while first < last:
        here, there = context.Pipe(duplex=False)
        at = context.Value("q", first, lock=False)
        process = context.Process(target=_work, args=(kind, first, last, at, there), daemon=True)
        process.start()
        there.close()
        try:
            while here.poll(HANG_SECONDS):
                for outcome in here.recv():
                    result.take(outcome)
                    first = outcome.number + 1
        except EOFError:
            pass
        if first < last:
            process.kill()
            process.join()
            how = f"ended the process ({process.exitcode})"
            # What it had played since it last told is played again, but for its death.
            result.take(Outcome(at.value, fault=f"an input hung, or {how}"))
            for number in range(first, at.value):
                result.take(Outcome(number))
            first = at.value + 1
        process.join()
        here.close()
    result.seconds = time.monotonic() - began
    return result


def _work(kind: str, first: int, last: int, at: object, to: Connection) -> None:
    with prepared(kind) as of:
        outcomes, sent_at = [], time.monotonic()
        for number in range(first, last):
            at.value = number  # type: ignore[attr-defined]
            outcomes.append(play(kind, number, of))
            if number == first + 20:  # what is imported and mapped by then is the loaders' own
                limit_memory()
            if time.monotonic() - sent_at > BATCH_SECONDS or number == last - 1:
                to.send(outcomes)
                outcomes, sent_at = [], time.monotonic()
    to.close()
