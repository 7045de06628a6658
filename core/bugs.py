"""Where a bug is written down: the log with the traceback that the user is spared."""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from core import paths


def log_bug() -> str:
    """Write the exception being handled to the log; returns where its details are.

    When there is no writing they are the exception's own words.
    """
    bug = sys.exc_info()[1]
    try:
        return f"Details: {_log()}"
    except OSError as error:
        return f"{type(bug).__name__}: {bug}\nIt could not be logged: {error}."


def _log() -> Path:
    path = paths.log_dir() / "trimtab.log"
    paths.make_folder(path.parent)
    handler = RotatingFileHandler(path, maxBytes=1_000_000, backupCount=2)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logger = logging.getLogger("trimtab.bug")
    logger.propagate = False
    logger.addHandler(handler)
    logger.exception("unexpected error")
    logger.removeHandler(handler)
    handler.close()
    return path
