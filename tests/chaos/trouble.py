"""A run on real brokers in random trouble: nodes die, its process dies, others edit, move, delete.

All of it comes from a seed.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from random import Random

from chaos.brokers import Brokers
from chaos.forms import Form, Script
from chaos.layout import (
    LAYOUTS,
    RATE,
    SHORT,
    SHORT_LAYOUTS,
    THEIRS_LAYOUTS,
    UNINVOLVED,
    Layouts,
    opposite,
)
from waiting import eventually

from core.cluster.configs import (
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigChange,
    ConfigOp,
    Resource,
)
from core.cluster.metadata import TopicPartition
from core.run.journal.move_state import Outcome
from tests.sandbox_data import delete_topics

TROUBLE_SECONDS = 25.0
EDITS = (
    ConfigChange(Resource.broker(2), FOLLOWER_RATE, ConfigOp.SET, "33333333"),
    ConfigChange(Resource.broker(4), LEADER_RATE, ConfigOp.SET, "44444444"),
    ConfigChange(Resource.topic("chaos-c"), LEADER_LIST, ConfigOp.APPEND, "9:5"),
)
PARTS = ("source", "destination", "uninvolved", "controller")
(THEIR_PARTITION,) = THEIRS_LAYOUTS
OURS = TopicPartition("chaos-c", 1)
"""The partition of the run's that others may move, too."""


class Troubled(Form):
    """What befalls one run, until it ends or its time is over."""

    ends = tuple(Outcome)
    rate = RATE // 4
    layouts: Layouts = LAYOUTS | dict(list(SHORT_LAYOUTS.items())[:2])

    def __init__(self, brokers: Brokers, rng: Random) -> None:
        super().__init__(brokers, rng)
        theirs = {tp: brokers.replicas_now(tp) for tp in THEIRS_LAYOUTS}
        self._their_target = theirs[THEIR_PARTITION]
        self._their_other = opposite(theirs, THEIRS_LAYOUTS)[THEIR_PARTITION]
        self._edits = list(EDITS)
        rng.shuffle(self._edits)
        self._edited: list[ConfigChange] = []
        self._deletes = rng.random() < 0.3
        self._deleted = False
        self._nodes: list[int] = []
        self._down: int | None = None
        self.happened: list[str] = []

    def prepare(self) -> None:
        self._nodes = [self.brokers.nodes_of(p, self.targets, self.before)[0] for p in PARTS]

    def script(self, run: str) -> Script:
        ends = time.monotonic() + TROUBLE_SECONDS
        while time.monotonic() < ends:
            due = time.monotonic() + self.rng.uniform(0.1, 1.5)
            yield from self.until(lambda due=due: time.monotonic() >= due)
            match self.rng.randrange(7):
                case 0:
                    yield from self._edit()
                case 1:
                    self._kill_the_process(run)
                case 2 if self._down is None:
                    self._down = self.rng.choice(self._nodes)
                    self.brokers.sandbox.kill(self._down)
                    self._did(f"node {self._down} is killed")
                case 3 if self._their_other:
                    yield from self._move()
                case 4 if self._deletes and self._down is None:
                    self._deletes, self._deleted = False, True
                    self.touched |= {tp for tp in self.layouts if tp.topic == SHORT}
                    delete_topics(self.brokers.settings, [SHORT])
                    self._did(f"{SHORT} is deleted")
                case _ if self._down is not None:
                    self.brokers.sandbox.start(self._down)
                    self._did(f"node {self._down} is started")
                    self._down = None
        self.brokers.start_nodes()
        yield from self.until(self._ends_what_never_ends)

    def _did(self, what: str) -> None:
        self.happened.append(what)

    def _edit(self) -> Script:
        if self._edits and self._down is None:
            change = self._edits.pop()
            yield from self.until(
                lambda: self.brokers.client.alter_configs([change]) == {change.resource: None}
            )
            self._edited.append(change)
            self._did(f"{change.op.value} {change.name} of {change.resource.name}: {change.value}")

    def _kill_the_process(self, run: str) -> None:
        process = self.brokers.process(run)
        if process is not None and not self.brokers.is_over(run):
            process.signal(signal.SIGKILL)
            self._did("the run's process is killed")

    def _move(self) -> Script:
        """Let others move a partition of their own, or, once only, one of the run's."""
        if self.rng.random() < 0.5 and OURS not in self.touched:
            first = self.before[OURS]
            target = (*first[:2], UNINVOLVED)
            if OURS in self.brokers.fetch_reassignments():
                return  # nobody overrides what is in flight
            self.touched.add(OURS)
            yield from self._submit(OURS, target)
        else:
            self._their_target, self._their_other = self._their_other, self._their_target
            yield from self._submit(THEIR_PARTITION, self._their_target)

    def _submit(self, tp: TopicPartition, target: tuple[int, ...]) -> Script:
        client = self.brokers.client
        yield from self.until(lambda: client.alter_reassignments({tp: target}) == {tp: None})
        self._did(f"others move {tp} to {target}")

    def _ends_what_never_ends(self) -> bool:
        """Let others cancel a move of theirs that was overridden in place and never ends."""
        for tp, listed in self.brokers.client.fetch_reassignments().items():
            if tp in self.touched and set(listed.adding) & set(listed.removing):
                self.brokers.client.cancel_reassignments([tp])
        return True

    def wrong(self, run: str) -> Iterator[str]:
        """Take others' edits back, and yield which of them were not as they had left them."""
        brokers = self.brokers
        eventually(lambda: not brokers.client.fetch_reassignments(), 120)
        if (there := brokers.judges.replicas()[THEIR_PARTITION]) != self._their_target:
            yield f"{THEIR_PARTITION}, moved by others, has {there}, not {self._their_target}"
        for change in self._edited:
            (now,) = brokers.client.describe_configs([change.resource], [change.name]).values()
            value = now[change.name].value if isinstance(now, dict) else str(now)
            if value != change.value:
                yield f"{change.name} of {change.resource.name} is {value}, others' edit"
            back = ConfigChange(change.resource, change.name, ConfigOp.DELETE)
            brokers.client.alter_configs([back])
        if self._deleted:
            brokers.make(SHORT_LAYOUTS)
        if OURS in self.touched:
            brokers.client.alter_reassignments({OURS: self.before[OURS]})
            eventually(lambda: not brokers.client.fetch_reassignments(), 120)
        brokers.revive()
        brokers.judges.settle_configs()
