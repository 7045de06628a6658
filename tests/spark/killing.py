"""A job in a process of its own that is killed as soon as it has done one thing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

KILLED = """
import os, signal, sys
from datetime import timedelta
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from feeding import CLUSTER, START, StillClock, for_few_rows
from core.pipeline import publish
from core.pipeline.job import Job
from core.pipeline.ledger import Ledger
from core.pipeline.publish import Publisher
from core.pipeline.session import open_session

def killing(work):
    def replacement(*args, **kwargs):
        work(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)
    return replacement

name = sys.argv[1]
owner = {"complete": Ledger, "write_brokers": publish}.get(name, Publisher)
setattr(owner, name, killing(getattr(owner, name)))
session = open_session(cores=1, quick=True)
for_few_rows(session.spark)
Job(session.spark, Path(sys.argv[2]), CLUSTER, StillClock(START + timedelta(hours=8))).once()
"""


def killed_after(point: str, root: Path) -> None:
    """Run a job that is killed as soon as it has done what `point` names."""
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, point, str(root), str(Path(__file__).parent)],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
