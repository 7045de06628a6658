"""Where a bench leaves what it found: an hour of it is not lost to a missing folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def leave(found: Any, path: Path) -> None:
    """Write what was found to PATH, as JSON; the folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n")
