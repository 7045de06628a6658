"""The law of all loaders: a file is read, or refused in one harmless sentence, soon.

Inputs are numbered: the same number is the same input, in whichever process.
"""

from __future__ import annotations

import os
import random
import resource
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fuzz.kinds import KINDS, Play

from core.errors import TrimtabError

MEMORY = Path("/dev/shm")
"""Where files are that live for a moment: SQLite waits for the disk with each."""
MAX_SECONDS = 5.0
"""Processor time that one input may take."""
MAX_BYTES = 2_000_000_000
"""Memory that inputs may take beside what reading good ones takes."""
MAX_CHARACTERS = 1_000
"""Of a sentence: one that quotes a whole file is none."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one input: `fault` says how it broke the law."""

    number: int
    refused: bool = False
    fault: str = ""
    seconds: float = 0.0


@contextmanager
def prepared(kind: str) -> Iterator[Play]:
    """Give what plays inputs of a kind, in a folder and a home of its own."""
    before = os.environ.get("TRIMTAB_HOME")
    memory = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="trimtab-fuzz-", dir=memory) as place:
        home, folder = Path(place) / "home", Path(place) / "files"
        home.mkdir()
        folder.mkdir()
        os.environ["TRIMTAB_HOME"] = str(home)
        try:
            yield KINDS[kind](folder)
        finally:
            os.environ.pop("TRIMTAB_HOME")
            if before is not None:
                os.environ["TRIMTAB_HOME"] = before


def play(kind: str, number: int, of: Play) -> Outcome:
    """Play one input and return what became of it."""
    began = time.process_time()
    refused, fault = False, ""
    try:
        of(random.Random(f"{kind} {number}"))
    except TrimtabError as error:
        refused, fault = True, _wrong_words(error)
    except (Exception, RecursionError) as error:  # noqa: BLE001 - that is what is looked for
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        fault = f"{type(error).__name__} at {where}: {str(error)[:200]!a}"
    seconds = time.process_time() - began
    if seconds > MAX_SECONDS and not fault:
        fault = f"it took {seconds:.1f} s of the processor"
    return Outcome(number, refused, fault, seconds)


def limit_memory() -> None:
    """Have this process refused more memory than the law allows, from now on."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + MAX_BYTES,) * 2)


def _wrong_words(error: TrimtabError) -> str:
    title, name = error.title, type(error).__name__
    for line in str(error).split("\n"):
        if not line.isprintable():
            return f"{name} is not printable: {line[:200]!a}"
    if "\n" in title or not title.endswith((".", "?", ":", "…")):
        return f"{name} is no sentence: {title[:200]!a}"
    if len(str(error)) > MAX_CHARACTERS:
        return f"{name} has {len(str(error)):,} characters: {title[:120]!a}"
    return ""
