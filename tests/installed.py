"""The installed command, as a shell would find it."""

from __future__ import annotations

import sys
from pathlib import Path

TRIMTAB = str(Path(sys.executable).with_name("trimtab"))
