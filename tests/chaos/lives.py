"""One run on real brokers, from its start through every death to its end, and its judgement."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from chaos.brokers import Brokers
from chaos.forms import Form
from chaos.orders import Order

from core.run.journal.move_state import Outcome
from core.run.journal.run_state import RunState

TICK_SECONDS = 0.2
DOWN_SECONDS = 2.0
AIM_SECONDS = 1.0
RUN_SECONDS = 400.0
"""How long a run may take through all of its lives; most take 10 s to 60 s."""


@dataclass(frozen=True, slots=True)
class Lived:
    """What became of one run, and which orders struck it."""

    run: str
    outcome: str | None
    why: str
    struck: tuple[Order, ...]
    lives: int
    wrong: tuple[str, ...]


class Lives:
    """Carries runs through their deaths, one after another, and has them judged."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._configs = brokers.judges.configs()
        self._aimed_at = 0.0

    def live(self, form: Form, orders: Sequence[Order] = (), part: str = "") -> Lived:
        """Play one run; `part` is who dies at orders that kill nodes."""
        brokers, run, wrong, began = self._brokers, "", [], time.monotonic()
        brokers.orders.give((*orders, *form.orders()))
        try:
            form.prepare()
            self._aimed_at = 0.0
            self._aim(form, part)
            run = self._start(form)
            wrong = self._through(run, form, part)
        except AssertionError as error:
            run = run or brokers.newest()
            wrong = [f"it was not played to its end: {error}"]
        try:
            brokers.start_nodes()
            form.tidy()
        except AssertionError as error:
            wrong.append(f"what others did is not taken back: {error}")
        struck = tuple(o for o in brokers.orders.struck() if o not in form.orders())
        if not run:
            return Lived("", None, "", struck, 0, tuple(wrong or ("no run began",)))
        brokers.orders.give(())
        wrong += self._end(run)
        history = brokers.history(run)
        wrong += self._judged(run, form, history, part)
        lives = sum(kind.value == "started" for kind in brokers.kinds(run))
        outcome = history.ended.value if history.ended else None
        took = time.monotonic() - began
        line = f"{form.name} {part}: {outcome}, {len(struck)} strikes, {lives} lives, {took:.0f} s"
        print(f"run {run}: {line}", *wrong, sep="\n  ", file=sys.stderr, flush=True)
        return Lived(run, outcome, history.ended_why, struck, lives, tuple(wrong))

    def _start(self, form: Form) -> str:
        asked = form.targets, form.options(), form.log_dirs
        return self._brokers.start(*asked) or self._brokers.start(*asked)  # unborn: once more

    def _through(self, run: str, form: Form, part: str) -> list[str]:
        brokers, script = self._brokers, form.script(run)
        deadline = time.monotonic() + RUN_SECONDS
        following: subprocess.Popen[str] | None = None
        wrong = []
        try:
            while True:
                if following is None or following.poll() is not None:
                    if following is not None and "Traceback" in brokers.attach_log():
                        wrong.append(f"`runs attach` said {brokers.attach_log()}")
                    if brokers.is_over(run):
                        brokers.await_gone(run)  # it tells somebody of its end, and may die there
                        return wrong
                    following = brokers.follow(run)
                next(script, None)
                if brokers.orders.nodes_are_down:
                    self._bring_nodes_back()
                self._aim(form, part)
                waits = brokers.view(run).why if time.monotonic() > deadline else ""
                assert time.monotonic() < deadline, f"it takes too long; it waits for {waits!r}"
                time.sleep(TICK_SECONDS)
        finally:
            if following is not None:
                with suppress(ProcessLookupError):
                    following.kill()
                following.wait()

    def _bring_nodes_back(self) -> None:
        time.sleep(DOWN_SECONDS)
        self._brokers.start_nodes()
        self._aimed_at = 0.0
        self._brokers.orders.nodes_are_back()

    def _aim(self, form: Form, part: str) -> None:
        """Say now and then who plays a part: nodes come back as others, controllers change."""
        if part and time.monotonic() - self._aimed_at > AIM_SECONDS:
            nodes = self._brokers.nodes_of(part, form.targets, form.before)
            pids = [self._brokers.sandbox.process(node) for node in nodes]
            self._brokers.orders.aim(p.pid for p in pids if p is not None and None not in pids)
            self._aimed_at = time.monotonic()

    def _end(self, run: str) -> list[str]:
        """See to it that no run is left, whatever became of this one, and that all is in sync."""
        brokers = self._brokers
        try:
            if not brokers.is_over(run):
                brokers.cancel(run)
                following = brokers.follow(run)
                following.wait(RUN_SECONDS)
            brokers.await_gone(run)
            brokers.revive()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            return [f"it does not end, or not all is in sync: {error}"]
        return []

    def _judged(self, run: str, form: Form, history: RunState, part: str) -> list[str]:
        brokers, wrong = self._brokers, [*form.wrong(run)]
        if flying := brokers.fetch_reassignments():
            wrong.append(f"still in flight: {', '.join(map(str, flying))}")
            brokers.client.cancel_reassignments(list(flying))
        # With a node dead before it has changed anything, a run may say so and end.
        refused = part and history.ended is Outcome.FAILED and not history.preflight
        if history.ended not in form.ends and not refused:
            ended = history.ended.value if history.ended else "not at all"
            wrong.append(f"it ended as {ended}: {history.ended_why}")
        if not form.crashes and "Traceback" in (log := brokers.log(run)):
            wrong.append(f"its log has a traceback: {log[log.index('Traceback') :][:2000]}")
        run_replicas = brokers.as_the_run_says(run)
        targets = {tp: r for tp, r in run_replicas.items() if tp not in form.touched}
        there = {tp: r for tp, r in brokers.judges.replicas().items() if tp in targets}
        if there != targets:
            wrong.append(f"replicas are {there}, not {targets}")
        if (completed := brokers.judges.completed(targets)) != len(targets):
            wrong.append(f"Kafka's tool says that {completed} are complete")
        if (configs := brokers.judges.configs()) != self._configs:
            changed = set(configs.splitlines()) ^ set(self._configs.splitlines())
            wrong.append(f"configs differ: {sorted(changed)}")
            self._configs = configs  # what one run has left is not the next one's
        return wrong
