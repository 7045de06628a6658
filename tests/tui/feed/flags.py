"""A flag for threads that follow something until it is set, and runs for them to follow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from threading import Event as Flag
from typing import Any

from clusters import NOON

from core.cluster.connect import Address
from core.plan.plan import Plan
from core.run.journal.records import Kind
from core.run.options import RunOptions, create_journal
from core.run.reporting import runs


class Script(Flag):
    """A flag that does one thing each time it is waited for, and is set after the last."""

    def __init__(self, *actions: Callable[[], Any]) -> None:
        super().__init__()
        self.actions = list(actions)

    def wait(self, timeout: float | None = None) -> bool:
        if self.actions:
            self.actions.pop(0)()
        else:
            self.set()
        return True


def nothing() -> None: ...


def begin_run(cluster_id: str, at: datetime = NOON) -> None:
    plan, options = Plan(cluster_id), RunOptions(1)
    create_journal(Address("sim:none"), cluster_id, plan, options, None, at=at).close()


def end_run(cluster_id: str, run: str = "0101-120000") -> None:
    with runs.Journal.open(runs.journal_path(cluster_id, run)) as journal:
        journal.write(NOON, Kind.ENDED, {"outcome": "done", "why": ""})
