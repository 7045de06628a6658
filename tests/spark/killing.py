"""Jobs in a process of its own that is killed as soon as each has done one thing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

POINTS = ("begun", "state", "windows", "files", "horizons", "published", "complete")
"""What a batch that closes a window does, in order."""

KILLED = """
import json, os, queue, signal, sys, threading, traceback
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from feeding import CLUSTER, START, StillClock
from core.pipeline import closing, intake
from core.pipeline.job import Job
from core.pipeline.ledger import Ledger
from core.pipeline.session import open_session
from core.pipeline.tables import Tables

points = {Path(root): point for root, point in json.loads(sys.argv[1]).items()}
master, *workers = sys.argv[3:]
ended = queue.Queue()
here = threading.local()

def halting(work, point_of):
    def replacement(*args, **kwargs):
        out = work(*args, **kwargs)
        with suppress(IndexError):
            os.kill(int(workers.pop()), signal.SIGKILL)
        if points[here.root] == point_of(*args):
            ended.put(None)
            threading.Event().wait()
        return out
    return replacement

def rooted(work):
    def replacement(job, *args, **kwargs):
        here.root = job._root
        return work(job, *args, **kwargs)
    return replacement

# Each job has two threads: its own, and the one that Spark calls back on.
Job.once, Job.process = rooted(Job.once), rooted(Job.process)
Ledger.begin = halting(Ledger.begin, lambda *_: "begun")
Ledger.complete = halting(Ledger.complete, lambda *_: "complete")
Tables.write = halting(Tables.write, lambda _, table, *__: table)
closing.write_windows = halting(closing.write_windows, lambda *_: "files")
intake.publish_snapshots = halting(intake.publish_snapshots, lambda *_: "published")
session = open_session(cores=1, quick=True, master=master or None)

def run(root):
    try:
        Job(session.spark, root, CLUSTER, StillClock(START + timedelta(hours=8))).once()
        ended.put(f"{root} came past {points[root]}")
    except Exception:
        ended.put(traceback.format_exc())

for root in points:
    threading.Thread(target=run, args=(root,), daemon=True).start()
for _ in points:
    wrong = ended.get()
    if wrong is not None:
        sys.exit(wrong)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_after(points: Mapping[Path, str], master: str = "", worker: int | None = None) -> None:
    """Run a job in each root, and kill them all when each has done what its point names.

    On Spark's `master` if there is one; its `worker` of that process id is killed as the first
    batch begins.
    """
    named = {str(root): point for root, point in points.items()}
    killed = subprocess.run(
        [
            *(sys.executable, "-P", "-c", KILLED, json.dumps(named), str(Path(__file__).parent)),
            *(master, *([] if worker is None else [str(worker)])),
        ],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
