"""Random trouble for a run on real brokers: nodes die, the process dies, others edit and move."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from random import Random

from chaos.brokers import Brokers
from waiting import eventually

from core.cluster.client import (
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigChange,
    ConfigOp,
    Resource,
)

EDITS = (
    ConfigChange(Resource.broker(2), FOLLOWER_RATE, ConfigOp.SET, "33333333"),
    ConfigChange(Resource.broker(4), LEADER_RATE, ConfigOp.SET, "44444444"),
    ConfigChange(Resource.topic("chaos-c"), LEADER_LIST, ConfigOp.APPEND, "9:5"),
)


class Trouble:
    """What befalls one run; `ends` says what of others' edits is not as they left it."""

    def __init__(self, brokers: Brokers, rng: Random, run: str, nodes: Sequence[int]) -> None:
        self._brokers, self._rng, self._run, self._nodes = brokers, rng, run, nodes
        self._edits = list(EDITS)
        rng.shuffle(self._edits)
        self._edited: list[ConfigChange] = []
        self._down: int | None = None

    def makes(self) -> None:
        """Let a little time pass, and something happen."""
        time.sleep(self._rng.uniform(0.1, 1.5))
        match self._rng.randrange(5):
            case 0:
                self._edit()
            case 1:
                self._kill_the_process()
            case 2 if self._down is None:
                self._down = self._rng.choice(self._nodes)
                self._brokers.sandbox.kill(self._down)
            case _ if self._down is not None:
                self._brokers.sandbox.start(self._down)
                self._down = None

    def _edit(self) -> None:
        if self._edits and self._down is None:
            change = self._edits.pop()
            (fault,) = self._brokers.client.alter_configs([change]).values()
            if fault is None:
                self._edited.append(change)

    def _kill_the_process(self) -> None:
        pid = self._brokers.view(self._run).pid
        if pid is not None and not self._brokers.is_over(self._run):
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: self._brokers.is_dead(self._run) or self._brokers.is_over(self._run))
            if self._brokers.is_dead(self._run):
                self._brokers.bring_back(self._run)

    def ends(self) -> list[str]:
        """Take others' edits back, and return which of them were not as they had left them."""
        self._brokers.revive()
        wrong = []
        for change in self._edited:
            (now,) = self._brokers.client.configs([change.resource], [change.name]).values()
            value = now[change.name].value if isinstance(now, dict) else str(now)
            assert change.value is not None
            if value != change.value:
                wrong.append(f"{change.name} of {change.resource.name} is {value}, others' edit")
            back = ConfigChange(change.resource, change.name, ConfigOp.DELETE)
            self._brokers.client.alter_configs([back])
        self._brokers.settle_configs()
        return wrong
