"""Forms of a run on real brokers: what is asked of it and what others do, so that between them
they bring every kind of journal record.

A form's script goes on a little whenever it is called, whoever is dead by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from chaos.brokers import Brokers
from chaos.layout import BATCH, DEAD, LAYOUTS, RATE, SHORT_LAYOUTS, SLOW, Layouts, opposite
from chaos.orders import Order
from waiting import eventually

from core.cluster.client import FOLLOWER_RATE, ConfigChange, ConfigOp, Resource
from core.cluster.state import TopicPartition
from core.errors import TrimtabError, UnreachableError
from core.run.record.history import Outcome
from core.run.record.journal import Kind
from core.run.requests import request

Script = Iterator[None]
OF_A_RUN = (
    *("created", "started", "preflight", "throttle_intent", "throttle_set", "submitting"),
    *("submitted", "moved", "pairs_removing", "pairs_removed", "rate_restoring"),
    *("rate_restored", "ended"),
)
DONE = (Outcome.DONE,)
BURST_SECONDS = 1.0
CATCH_UP_SECONDS = 20.0
"""How long a broker that is back may take to be in sync again before the run is made faster."""
VERY_SLOW = SLOW // 3
"""Moves at this rate are still in flight after their process has died ten times."""
CANCELLED = (Outcome.CANCELLED, Outcome.DONE)


class Form:
    """A run that nobody asks for anything, and that tells a command of its end."""

    brings: tuple[str, ...] = (*OF_A_RUN, "notified")
    ends: tuple[Outcome, ...] = DONE
    rate = RATE
    layouts: Layouts = LAYOUTS
    crashes = False

    def __init__(self, brokers: Brokers, rng: Random) -> None:
        self.brokers, self.rng = brokers, rng
        now = {tp: r for tp, r in brokers.judges.replicas().items() if tp in self.layouts}
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

    brings = ("cancelling", "cancel_sent", "reordering", "reordered")
    ends = CANCELLED

    def __init__(self, brokers: Brokers, rng: Random, at: str = "submitted") -> None:
        super().__init__(brokers, rng)
        self.at = at
        self.rate = RATE if at in OF_A_RUN[OF_A_RUN.index("moved") :] else VERY_SLOW

    def orders(self) -> tuple[Order, ...]:
        return (Order("after", self.at, "cancel"),)


class Asked(Form):
    """A run that is slowed down, made faster, and rolled back."""

    brings = ("request", "rates_changing", "rates_changed", "moves_added")
    ends = (Outcome.CANCELLED,)
    rate = RATE // 2

    def script(self, run: str) -> Script:
        for kind, payload in (
            ("throttle", {"rate_bytes_per_s": SLOW}),
            ("throttle", {"rate_bytes_per_s": RATE}),
            ("rollback", {}),
        ):
            done = self.brokers.kinds(run).count(Kind.RATES_CHANGED)
            yield from self.until(lambda: self.brokers.done_moves(run) > 0)
            self.ask(run, kind, payload)
            if kind == "throttle":
                yield from self.until(
                    lambda done=done: self.brokers.kinds(run).count(Kind.RATES_CHANGED) > done
                )

    def wrong(self, run: str) -> Iterator[str]:
        if self.brokers.as_the_run_says(run) != self.before:
            yield "it was rolled back, and says that it has left something moved"


class Returned(Form):
    """A run that begins while a source is down, which comes back to moves in flight."""

    brings = (
        *("rate_intent", "rate_set", "waiting"),
        *("pairs_taking", "pairs_taken", "pairs_putting", "pairs_put"),
    )
    rate = VERY_SLOW

    def prepare(self) -> None:
        (self.broker,) = self.brokers.nodes_of("source", self.targets, self.before)
        self.brokers.sandbox.kill(self.broker)
        eventually(lambda: not self.brokers.is_alive(self.broker))

    def script(self, run: str) -> Script:
        yield from self.until(lambda: self.brokers.is_flying(run))
        self.brokers.sandbox.start(self.broker)
        ends = time.monotonic() + CATCH_UP_SECONDS
        yield from self.until(
            lambda: Kind.PAIRS_PUT in self.brokers.kinds(run) or time.monotonic() > ends
        )
        self.ask(run, "throttle", {"rate_bytes_per_s": RATE})


class Disturbed(Form):
    """A run under which others move one of its partitions, and delete a throttle of its own."""

    brings = ("postponed", "disturbed", "waiting")
    rate = RATE // 4
    moved = TopicPartition("chaos-a", 0)

    def options(self) -> dict[str, Any]:
        return super().options() | {"in_seconds": 2.0}

    def prepare(self) -> None:
        (self.broker,) = self.brokers.nodes_of("destination", self.targets, self.before)

    def script(self, run: str) -> Script:
        first = self.before[self.moved]
        yield from self.until(lambda: self._is_moved((*first[:2], DEAD)))
        yield from self.until(lambda: self.brokers.is_flying(run) and self._has_rate())
        yield from self.until(lambda: self.brokers.done_moves(run) > 0)
        change = ConfigChange(Resource.broker(self.broker), FOLLOWER_RATE, ConfigOp.DELETE)
        yield from self.until(
            lambda: self.brokers.client.alter_configs([change]) == {change.resource: None}
        )
        yield from self.until(lambda: self.brokers.done_moves(run) >= len(self.layouts) - 1)
        yield from self.until(lambda: self._is_moved(first))

    def _is_moved(self, target: tuple[int, ...]) -> bool:
        """Let others move the partition; return whether that was taken."""
        answers = self.brokers.client.alter_reassignments({self.moved: target})
        return answers == {self.moved: None}

    def _has_rate(self) -> bool:
        (found,) = self.brokers.client.configs(
            [Resource.broker(self.broker)], [FOLLOWER_RATE]
        ).values()
        return isinstance(found, dict) and FOLLOWER_RATE in found


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


class Failed(Form):
    """A run whose throttles do not hold, because somebody sets another rate all the time."""

    brings = ("throttle_failed",)
    ends = (Outcome.FAILED, Outcome.DONE)

    def prepare(self) -> None:
        (broker,) = self.brokers.nodes_of("destination", self.targets, self.before)
        self.theirs = ConfigChange(Resource.broker(broker), FOLLOWER_RATE, ConfigOp.SET, "6666666")

    def script(self, run: str) -> Script:
        told = {Kind.THROTTLE_FAILED, Kind.SUBMITTED, Kind.ENDED}
        while not told & set(self.brokers.kinds(run)):
            ends = time.monotonic() + BURST_SECONDS
            while time.monotonic() < ends:
                with suppress(UnreachableError):
                    self.brokers.client.alter_configs([self.theirs])
            yield

    def tidy(self) -> None:
        back = replace(self.theirs, op=ConfigOp.DELETE, value=None)
        eventually(lambda: self.brokers.client.alter_configs([back]) == {back.resource: None})


class Crashed(Form):
    """A run whose process ends on errors of its own, twice."""

    brings = ("crashed",)
    crashes = True

    def orders(self) -> tuple[Order, ...]:
        return tuple(Order("before", kind, "crash") for kind in ("submitted", "pairs_removed"))


class Restless(Form):
    """A run that is paused and resumed at random, fifty times."""

    brings = ()
    rate = SLOW
    pauses = 50

    def script(self, run: str) -> Script:
        yield from self.until(lambda: self.brokers.is_flying(run))
        for _ in range(self.pauses):
            for kind, payload in (("pause", {"floor": self.rng.random() < 0.5}), ("resume", {})):
                taken = self.brokers.history(run).requests_seen
                self.ask(run, kind, payload)
                yield from self.until(
                    lambda taken=taken: self.brokers.history(run).requests_seen > taken
                )
                for _ in range(self.rng.randint(0, 4)):
                    yield

    def wrong(self, run: str) -> Iterator[str]:
        taken = self.brokers.kinds(run).count(Kind.REQUEST)
        if taken < 2 * self.pauses:
            yield f"only {taken} requests were taken up"


FORMS: tuple[type[Form], ...] = (
    Plain,
    Cancelled,
    Asked,
    Returned,
    Disturbed,
    Around,
    Failed,
    Crashed,
)
