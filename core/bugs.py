"""Where a bug is written down: the log with the traceback that the user is spared."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

from core import paths


def log_bug() -> Path:
    """Write the exception being handled to the log and return the log's path."""
    path = paths.log_dir() / "trimtab.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = RotatingFileHandler(path, maxBytes=1_000_000, backupCount=2)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logger = logging.getLogger("trimtab.bug")
    logger.propagate = False
    logger.addHandler(handler)
    logger.exception("unexpected error")
    logger.removeHandler(handler)
    handler.close()
    return path
