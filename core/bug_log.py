"""The log of bugs: an unexpected exception is written here with what is needed to report it.

It holds the traceback, and of the input only its shape. No names, paths, values or secrets get in:
what an exception says may quote them, so only what Python itself says of code is kept of that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from core import paths

LIBRARIES = (
    *("click", "rich", "textual", "pyarrow", "numpy", "confluent-kafka", "kafka-python", "pyspark"),
    *("fastavro", "highspy", "duckdb", "platformdirs"),
)
_SPEAK_OF_CODE = (NameError, AttributeError, ZeroDivisionError, RecursionError, IndexError)
"""Exceptions whose messages quote names of the program and numbers, never what it reads."""
_MAX_FRAMES = 40
_ROOT = Path(__file__).parents[1]

Shape = Mapping[str, int | str | None]
"""What is known of an input: counts, sizes, and words of ours; None is unknown."""

_shapes: dict[str, Shape | Callable[[], Shape]] = {}


def note(what: str, shape: Shape | Callable[[], Shape]) -> None:
    """Remember the shape of an input, for the log of a bug; a newer one takes the place of it.

    A function is called only when there is a bug. Nothing in it may come from the input itself.
    """
    _shapes[what] = shape


def log_bug() -> str:
    """Log the exception being handled; return where, or its own words where that fails."""
    bug = sys.exc_info()[1]
    try:
        return f"Details, without names or secrets: {_log(bug)}"
    except OSError as error:
        return f"{type(bug).__name__}: {bug}\nIt could not be logged: {error}."


def _log(bug: BaseException | None) -> Path:
    # What a bug's report needs is loaded only for one: --help stays quick.
    import logging
    from logging.handlers import RotatingFileHandler

    path = paths.log_dir() / "bugs.log"
    paths.make_folder(path.parent)
    handler = RotatingFileHandler(path, maxBytes=1_000_000, backupCount=2, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("trimtab.bug")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        logger.error("%s", "\n".join(_report(bug)))
    finally:
        logger.removeHandler(handler)
        handler.close()
    return path


def _report(bug: BaseException | None) -> Iterator[str]:
    import platform
    from traceback import TracebackException

    yield f"trimtab {_version('trimtab')}, Python {platform.python_version()}"
    yield f"  on {platform.system()} {platform.release()} {platform.machine()}"
    yield f"  libraries: {', '.join(f'{name} {_version(name)}' for name in LIBRARIES)}"
    for what, shape in sorted(_shapes.items()):
        yield f"  {what}: {_words(shape)}"
    for error, link in _exception_chain(bug):
        if link:
            yield f"  {link}"
        yield f"  {_describe(error)}"
        stack = TracebackException(type(error), error, error.__traceback__).stack
        for frame in stack[-_MAX_FRAMES:]:
            yield f"    {_place(frame.filename)}:{frame.lineno or 0} in {frame.name}"
            yield f"      {frame.line or ''}"


def _version(name: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


def _words(shape: Shape | Callable[[], Shape]) -> str:
    try:
        known = shape() if callable(shape) else shape
    except Exception as error:  # noqa: BLE001 - a bug in here must not hide the other one
        return f"cannot be told: {type(error).__name__}"
    return ", ".join(f"{key} {'unknown' if v is None else v}" for key, v in known.items())


def _exception_chain(bug: BaseException | None) -> Iterator[tuple[BaseException, str]]:
    """Yield an exception and those that led to it, latest first, with what binds them."""
    link, visited = "", set[int]()
    while bug is not None and id(bug) not in visited:
        yield bug, link
        visited.add(id(bug))
        if bug.__cause__ is not None:
            bug, link = bug.__cause__, "caused by"
        else:
            bug, link = (None if bug.__suppress_context__ else bug.__context__), "while handling"


def _describe(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, OSError):
        return f"{name}: {os.strerror(error.errno) if error.errno else 'of no number'}"
    if isinstance(error, _SPEAK_OF_CODE):
        return f"{name}: {error}"
    return f"{name} (of {len(str(error))} characters)"


def _place(file: str) -> str:
    """Return a source file's path from where packages are: what is before it names people."""
    path = Path(file)
    if path.is_relative_to(_ROOT) and "site-packages" not in path.parts:
        return str(path.relative_to(_ROOT))
    for root in ("site-packages", f"python{sys.version_info[0]}.{sys.version_info[1]}"):
        if root in path.parts:
            return str(Path(*path.parts[path.parts.index(root) + 1 :]))
    return path.name
