"""Kills this process, or others, at one kind of journal record; Python imports it as it starts.

TRIMTAB_CHAOS is `before|after KIND [PID …]`; without a PID it is this process that is killed. The
file TRIMTAB_CHAOS_TOKEN is made as it happens, and where it exists nothing happens any more.
"""

import os
import signal


def _arm(order: str, token: str) -> None:
    from core.run.record.journal import Journal

    when, kind, *pids = order.split()
    write = Journal.write

    def strike() -> None:
        os.close(os.open(token, os.O_CREAT | os.O_EXCL))
        for pid in map(int, pids) if pids else (os.getpid(),):
            os.kill(pid, signal.SIGKILL)

    def struck(self, at, what, payload):
        here = what.value == kind and not os.path.exists(token)  # noqa: PTH110
        if here and when == "before":
            strike()
        record = write(self, at, what, payload)
        if here and when == "after":
            strike()
        return record

    Journal.write = struck


if "TRIMTAB_CHAOS" in os.environ:
    _arm(os.environ["TRIMTAB_CHAOS"], os.environ["TRIMTAB_CHAOS_TOKEN"])
