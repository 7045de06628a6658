"""Forms of a run on real brokers: what is asked of it and what others do, so that between them
they bring every kind of journal record.

A form's script goes on a little whenever it is called, whoever is dead by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from random import Random
from typing import Any

from chaos.brokers import Brokers
from chaos.layout import (
    BATCH,
    CRAWL,
    DEAD,
    LAYOUTS,
    RATE,
    SHORT_LAYOUTS,
    SLOW,
    Layouts,
    LogDirMover,
    held_back,
    one_way,
    opposite,
    receives_last,
)
from chaos.orders import Order
from waiting import eventually

from core.cluster.configs import FOLLOWER_RATE, ConfigChange, ConfigOp, Resource
from core.cluster.metadata import TopicPartition
from core.errors import TrimtabError, UnreachableError
from core.plan.plan import ANY
from core.run.control import request
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind

Script = Iterator[None]
OF_A_RUN = (
    *("created", "started", "preflight", "throttle_intent", "throttle_set", "submitting"),
    *("submitted", "moved", "pairs_removing", "pairs_removed", "rate_restoring"),
    *("rate_restored", "ended"),
)
DONE = (Outcome.DONE,)
CATCH_UP_SECONDS = 120.0
"""How long a broker that is back may take to be in sync again before the run is made faster: its
process may die ten times meanwhile."""
VERY_SLOW = SLOW // 3
"""Moves at this rate are still in flight after their process has died ten times."""
CANCELLED = (Outcome.CANCELLED, Outcome.DONE)


class Form:
    """A run that nobody asks for anything, and that tells a command of its end."""

    brings: tuple[str, ...] = (*OF_A_RUN, "notified")
    ends: tuple[Outcome, ...] = DONE
    rate = RATE
    layouts: Layouts = LAYOUTS
    lives = 14
    """How often its process is killed at most."""
    crashes = False
    log_dirs: LogDirMover | None = None

    def __init__(self, brokers: Brokers, rng: Random) -> None:
        self.brokers, self.rng = brokers, rng
        now = {tp: brokers.replicas_now(tp) for tp in self.layouts}
        self.before, self.targets = now, opposite(now, self.layouts)
        self.touched: set[TopicPartition] = set()

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def options(self) -> dict[str, Any]:
        return {"rate": self.rate, "batch": BATCH}

    def orders(self) -> tuple[Order, ...]:
        """Return orders of the form's own."""
        return ()

    def prepare(self) -> None:
        """Do what is done before the run is started."""

    def script(self, run: str) -> Script:
        """Do what is done while the run is there, a little at a time."""
        yield from ()

    def tidy(self) -> None:
        """Take back what the form itself has done to the brokers; the run may be over or not."""

    def wrong(self, run: str) -> Iterator[str]:
        """Yield what else of a run that has ended is not as it has to be."""
        yield from ()

    # -- small helps ------------------------------------------------------------------------------

    def until(self, holds: Callable[[], bool]) -> Script:
        """Wait until it holds; a cluster that does not answer tells nothing yet."""
        while True:
            with suppress(UnreachableError):
                if holds():
                    return
            yield

    def ask(self, run: str, kind: str, payload: Mapping[str, Any] | None = None) -> None:
        """Ask the run for something; it may have ended meanwhile."""
        with suppress(TrimtabError):
            request(self.brokers.sandbox.cluster_id, run, kind, payload or {})


class Plain(Form):
    """Nothing is asked of it."""


class Cancelled(Form):
    """A run that is cancelled right at a kind of record: before anything has ended, unless told."""

    brings = ()
    ends = CANCELLED

    def __init__(self, brokers: Brokers, rng: Random, at: str = "submitted") -> None:
        super().__init__(brokers, rng)
        self.at = at
        self.rate = RATE if at in OF_A_RUN[OF_A_RUN.index("moved") :] else VERY_SLOW

    def orders(self) -> tuple[Order, ...]:
        return (Order("after", self.at, "cancel"),)


class Picked(Form):
    """A run whose moves, all of them in flight and standing still, are cancelled one by one."""

    brings = ("request", "cancelling", "cancel_sent", "reordering", "reordered")
    ends = (Outcome.CANCELLED, Outcome.INCOMPLETE, Outcome.DONE)
    """What is only re-ordered may be done before it is cancelled."""
    rate = CRAWL

    def options(self) -> dict[str, Any]:
        return super().options() | {"batch": len(self.layouts)}

    def script(self, run: str) -> Script:
        yield from self.until(lambda: self.brokers.has_moves_in_flight(run))
        for index in range(len(self.layouts)):
            self.ask(run, "cancel", {"moves": [index]})
            yield from self.until(
                lambda index=index: (
                    self.brokers.history(run).moves[index].phase.ended
                    and not self.brokers.orders.nodes_are_down
                )
            )


class RequestsInRun(Form):
    """A run that is slowed down, made faster, and rolled back."""

    brings = ("rates_changing", "rates_changed", "moves_added")
    ends = CANCELLED
    rate = VERY_SLOW

    def options(self) -> dict[str, Any]:
        return super().options() | {"batch": len(self.layouts)}

    def script(self, run: str) -> Script:
        yield from self.until(lambda: self.brokers.has_moves_in_flight(run))
        for rate in (VERY_SLOW // 2, VERY_SLOW, VERY_SLOW // 2, RATE):
            done = self._changes(run)
            self.ask(run, "throttle", {"rate_bytes_per_s": rate})
            yield from self.until(lambda done=done: self._changes(run) > done)
        yield from self.until(lambda: self.brokers.done_moves(run) > 1)
        self.ask(run, "rollback")

    def _changes(self, run: str) -> int:
        """Return how often rates were changed; those of a process that died are set anew."""
        kinds = self.brokers.kinds(run)
        return kinds.count(Kind.RATES_CHANGED) + kinds.count(Kind.RATE_SET)

    def wrong(self, run: str) -> Iterator[str]:
        history = self.brokers.history(run)
        asked = history.rollback_requested or history.rolling_back
        if asked and self.brokers.as_the_run_says(run) != self.before:
            yield "it was rolled back, and says that it has left something moved"


class RestartedSource(Form):
    """A run that begins while a source is down, which comes back to moves in flight.

    It is not in sync again before the run has taken its leaders' own pairs out of their lists:
    these send more to those that are than they may.
    """

    brings = (
        *("rate_intent", "rate_set"),
        *("pairs_taking", "pairs_taken", "pairs_putting", "pairs_put"),
    )
    rate = CRAWL

    def __init__(self, brokers: Brokers, rng: Random) -> None:
        super().__init__(brokers, rng)
        self.targets = one_way(self.before, self.layouts)
        self.broker = held_back(self.targets, self.before)[0]

    def options(self) -> dict[str, Any]:
        return super().options() | {"batch": len(self.layouts)}

    def prepare(self) -> None:
        self.brokers.sandbox.kill(self.broker)
        eventually(lambda: not self.brokers.is_alive(self.broker))

    def script(self, run: str) -> Script:
        yield from self.until(lambda: self.brokers.has_moves_in_flight(run))
        self.brokers.sandbox.start(self.broker)
        ends = time.monotonic() + CATCH_UP_SECONDS
        yield from self.until(
            lambda: Kind.PAIRS_PUT in self.brokers.kinds(run) or time.monotonic() > ends
        )
        self.ask(run, "throttle", {"rate_bytes_per_s": RATE})


class Disturbed(Form):
    """A run under which others move one of its partitions, and delete a throttle of its own."""

    brings = ("postponed", "disturbed", "waiting")
    rate = SLOW
    moved = TopicPartition("chaos-b", 0)
    """One of the second batch: moved by others while the first is in flight."""

    def __init__(self, brokers: Brokers, rng: Random) -> None:
        super().__init__(brokers, rng)
        self.broker = receives_last(self.moved, self.targets, self.before)

    def script(self, run: str) -> Script:
        first = self.before[self.moved]
        yield from self.until(lambda: self.brokers.has_moves_in_flight(run))
        if not self._is_queued(run):
            return  # its batch has begun: nobody means to override it
        yield from self.until(lambda: self._is_moved((*first[:2], DEAD)))
        yield from self.until(lambda: self.brokers.done_moves(run) > 0)
        yield from self.until(lambda: self._has_rate() or self._other_moves_are_done(run))
        if self._has_rate():  # on a busy machine the run may have put it back before
            change = ConfigChange(Resource.broker(self.broker), FOLLOWER_RATE, ConfigOp.DELETE)
            yield from self.until(
                lambda: self.brokers.client.alter_configs([change]) == {change.resource: None}
            )
        yield from self.until(lambda: self._other_moves_are_done(run))
        yield from self.until(lambda: bool(self.brokers.history(run).waiting))
        yield from self.until(lambda: self._is_back(first))

    def _is_queued(self, run: str) -> bool:
        moves = self.brokers.history(run).moves
        return any(m.move.tp == self.moved and m.phase is Phase.QUEUED for m in moves)

    def _other_moves_are_done(self, run: str) -> bool:
        return self.brokers.done_moves(run) >= len(self.layouts) - 1

    def _is_moved(self, target: tuple[int, ...]) -> bool:
        """Let others move the partition; return whether that was taken."""
        answers = self.brokers.client.alter_reassignments({self.moved: target})
        return answers == {self.moved: None}

    def _is_back(self, first: tuple[int, ...]) -> bool:
        """Let others take their move back, in the order that was; overridden it would never end."""
        if self.moved in self.brokers.client.fetch_reassignments():
            self.brokers.client.cancel_reassignments([self.moved])
            return False
        return self.brokers.replicas_now(self.moved) == first or self._is_moved(first)

    def tidy(self) -> None:
        def is_settled() -> bool:
            with suppress(UnreachableError):
                is_done = self.brokers.replicas_now(self.moved) == self.targets[self.moved]
                return is_done or self._is_back(self.before[self.moved])
            return False

        eventually(is_settled)

    def _has_rate(self) -> bool:
        (configs,) = self.brokers.client.describe_configs(
            [Resource.broker(self.broker)], [FOLLOWER_RATE]
        ).values()
        return isinstance(configs, dict) and FOLLOWER_RATE in configs


class Around(Form):
    """A run with an adaptive rate, shorter retention before, and elected leaders after."""

    brings = (
        *("retention_lowering", "retention_lowered", "retention_awaited", "measured"),
        *("retention_restoring", "retention_restored", "electing", "elected"),
    )
    layouts = SHORT_LAYOUTS

    def options(self) -> dict[str, Any]:
        more = {"auto": [RATE // 4, RATE], "retention_ms": 2_000, "elect": True}
        return super().options() | more


class Rearranged(Form):
    """A run that has the leaders' replicas copied to the other log dir of their brokers."""

    brings = ("dirs_moving", "dirs_moved")
    lives = 6

    def __init__(self, brokers: Brokers, rng: Random) -> None:
        super().__init__(brokers, rng)
        self.targets = dict(self.before)
        self.log_dirs = {
            tp: (self._other_dir(tp, leader), *[ANY] * len(rest))
            for tp, (leader, *rest) in self.before.items()
        }

    def _other_dir(self, tp: TopicPartition, broker: int) -> str:
        here = self.brokers.dirs_now(broker)[tp]
        dirs = map(str, self.brokers.sandbox.node(broker).log_dirs)
        return next(path for path in dirs if path != here)

    def wrong(self, run: str) -> Iterator[str]:
        for m in self.brokers.history(run).moves:
            (leader, *_), (path, *_) = m.move.before, self.log_dirs[m.move.tp]
            if (self.brokers.dirs_now(leader)[m.move.tp] == path) is not (m.phase is Phase.DONE):
                yield f"{m.move.tp} is {m.phase.value}, and its log dir does not say so"


class Failed(Form):
    """A run whose throttles a broker refuses for good, in each of its first two lives."""

    brings = ("throttle_failed",)
    ends = (Outcome.FAILED, Outcome.DONE)

    def orders(self) -> tuple[Order, ...]:
        return tuple(Order("after", "started", "be refused", nth=nth) for nth in (1, 2))


class Crashed(Form):
    """A run whose process ends on errors of its own, twice."""

    brings = ("crashed",)
    crashes = True

    def orders(self) -> tuple[Order, ...]:
        return tuple(Order("before", kind, "crash") for kind in ("submitted", "pairs_removed"))


class Restless(Form):
    """A run that is paused and resumed at random, fifty times, and only then fast enough to end."""

    brings = ()
    rate = VERY_SLOW
    pauses = 50

    def script(self, run: str) -> Script:
        yield from self.until(lambda: self.brokers.has_moves_in_flight(run))
        for _ in range(self.pauses):
            for kind, payload in (("pause", {"floor": self.rng.random() < 0.5}), ("resume", {})):
                taken = self.brokers.history(run).last_request
                self.ask(run, kind, payload)
                yield from self.until(
                    lambda taken=taken: self.brokers.history(run).last_request > taken
                )
                for _ in range(self.rng.randint(0, 2)):
                    yield
        self.ask(run, "throttle", {"rate_bytes_per_s": RATE})

    def wrong(self, run: str) -> Iterator[str]:
        taken = self.brokers.kinds(run).count(Kind.REQUEST)
        if taken < 2 * self.pauses + 1:
            yield f"only {taken} requests were taken up"


FORMS: tuple[type[Form], ...] = (
    Plain,
    Picked,
    RequestsInRun,
    RestartedSource,
    Disturbed,
    Around,
    Rearranged,
    Failed,
    Crashed,
)
