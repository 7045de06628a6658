"""Runs on real brokers whose processes are killed: `python -m chaos.real -o REPORT`.

Every strike is kill -9, at a kind of journal record. Kafka's own tools judge each run, and a
consumer counts what producers were told is safe. What has been played is not played again; with
--minutes it ends in time and goes on from there when it is called again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from chaos.acks import Acknowledged
from chaos.brokers import (
    LAYOUTS,
    PARTS_OF_THE_RUN,
    RATE,
    SLOW,
    Brokers,
    Strike,
    Targets,
    chaos_sandbox,
    opposite,
)
from chaos.played import Played
from chaos.trouble import Trouble
from waiting import eventually

from core.run.requests import request

TIMES = 3
LIVES = 4
DOWN_SECONDS = 3.0
TROUBLE_SECONDS = 60.0
SEEDS = range(1, 21)
WHEN = ("before", "after")
OF_A_RUN = (
    *("created", "started", "preflight", "throttle_intent", "throttle_set", "submitting"),
    *("submitted", "moved", "pairs_removing", "pairs_removed", "rate_restoring"),
    *("rate_restored", "ended"),
)
OF_A_CANCEL = ("request", "cancelling", "cancel_sent", "reordering", "reordered")
OF_A_RETURN = ("rate_intent", "rate_set")
OF_A_WAIT = ("waiting",)
OF_A_REQUEST = ("rates_changing", "rates_changed", "moves_added")
REQUESTS = (
    ("throttle", {"rate_bytes_per_s": SLOW // 2}),
    ("throttle", {"rate_bytes_per_s": RATE}),
    ("rollback", {}),
)
ACKNOWLEDGED = "acknowledged records"


class Chaos:
    """Plays one case after another on the same brokers."""

    def __init__(self, brokers: Brokers, played: Played, rng: Random) -> None:
        self._brokers, self._played, self._rng = brokers, played, rng
        self._before = brokers.configs()

    # -- what there is to play --------------------------------------------------------------------

    def cases(self) -> Iterator[Callable[[], None]]:
        """Yield what is left to play; a case notes itself what it has played."""
        for kinds, play in (
            (OF_A_RUN, self.killed),
            (OF_A_CANCEL, self.cancelled),
            (OF_A_WAIT, self.waited),
            (OF_A_RETURN, self.returned),
            (OF_A_REQUEST, self.asked),
        ):
            for _ in range(2 * TIMES * len(kinds)):  # a strike may miss: its record never comes
                if strikes := self._due(kinds):
                    yield lambda play=play, strikes=strikes: play(strikes)
        for part in PARTS_OF_THE_RUN:
            for kind in OF_A_RUN[1:]:
                if not self._played.count(f"{part} killed before {kind}"):
                    yield lambda part=part, kind=kind: self.broker_killed(part, kind)
        for seed in SEEDS:
            if not self._played.knows("trouble", f"seed {seed}"):
                yield lambda seed=seed: self.troubled(seed)

    def _due(self, kinds: Sequence[str]) -> list[Strike]:
        """Return strikes for the lives of one run, of those seen least often so far."""
        strikes = [Strike(when, kind) for kind in kinds for when in WHEN]
        self._rng.shuffle(strikes)
        strikes.sort(key=lambda strike: self._played.count(str(strike)))
        due = [s for s in strikes if self._played.count(str(s)) < TIMES][:LIVES]
        return sorted(due, key=lambda strike: kinds.index(strike.kind))

    def play(self, case: Callable[[], None]) -> None:
        """Play one case; one that cannot be played to its end is wrong, and others go on."""
        try:
            case()
        except AssertionError as error:
            run = self._brokers.newest()
            view = self._brokers.view(run)
            why = f"{error}; the run is {view.state.value}: {view.why}"
            print(f"run {run}: {why}", file=sys.stderr)
            self._played.add("not played to the end", run, {"outcome": None, "wrong": [why]})
            self._brokers.revive()
            if not self._brokers.is_over(run):
                self._brokers.cancel(run)
                self._brokers.attach(run)

    # -- the cases --------------------------------------------------------------------------------

    def killed(self, strikes: Sequence[Strike]) -> None:
        """Kill the run's process once in each life, and let the last one end it."""
        targets = opposite(self._brokers.replicas())
        run, struck = self._live(targets, strikes)
        self._note(map(str, struck), run, targets)

    def cancelled(self, strikes: Sequence[Strike]) -> None:
        """Cancel a run in flight, whose process is killed meanwhile."""
        before = self._brokers.replicas()

        def cancel(run: str) -> None:
            self._brokers.await_flight(run)
            if not self._brokers.is_over(run):
                self._brokers.cancel(run)

        run, struck = self._live(opposite(before), strikes, cancel, SLOW)
        self._note(map(str, struck), run, self._brokers.as_the_run_says(run))

    def returned(self, strikes: Sequence[Strike]) -> None:
        """Start a run while a broker is down, which comes back to moves in flight."""
        brokers = self._brokers
        targets = opposite(brokers.replicas())
        broker = brokers.node_of("source", targets)
        brokers.sandbox.kill(broker)
        eventually(lambda: not brokers.is_alive(broker))

        def come_back(run: str) -> None:
            brokers.await_flight(run)
            brokers.sandbox.start(broker)

        run, struck = self._live(targets, strikes[:1], come_back, RATE // 2)
        self._note(map(str, struck), run, targets)

    def waited(self, strikes: Sequence[Strike]) -> None:
        """Kill a destination in flight, and the process as it begins or ceases to wait."""
        brokers = self._brokers
        targets = opposite(brokers.replicas())
        broker = brokers.node_of("destination", targets)

        def go(run: str) -> None:
            brokers.await_flight(run)
            brokers.sandbox.kill(broker)
            eventually(lambda: brokers.has_struck() or brokers.is_over(run))
            brokers.sandbox.start(broker)

        run, struck = self._live(targets, strikes[:1], go, SLOW)
        self._note(map(str, struck), run, targets)

    def asked(self, strikes: Sequence[Strike]) -> None:
        """Slow a run down, speed it up, and roll it back, its process killed meanwhile."""
        brokers = self._brokers
        before = brokers.replicas()

        def ask(run: str) -> None:
            for kind, payload in REQUESTS:
                eventually(lambda: brokers.done_moves(run) > 0 or brokers.is_over(run))
                if not brokers.is_over(run):
                    request(brokers.sandbox.cluster_id, run, kind, payload)

        run, struck = self._live(opposite(before), strikes[:1], ask, SLOW)
        self._note(map(str, struck), run, before)

    def broker_killed(self, part: str, kind: str) -> None:
        """Kill a node just before a kind of record; it is started again a little later."""
        brokers = self._brokers
        targets = opposite(brokers.replicas())
        node = brokers.node_of(part, targets)

        def come_back(run: str) -> None:
            eventually(lambda: brokers.has_struck() or brokers.is_over(run))
            time.sleep(DOWN_SECONDS)
            brokers.sandbox.start(node)

        strike = Strike("before", kind, (brokers.pid(node),))
        run, struck = self._live(targets, [strike], come_back)
        name = f"{part} killed before {kind}"
        self._note([name if struck else f"{name}, which never came"], run, targets)

    def troubled(self, seed: int) -> None:
        """Let a run live through random trouble, all of it from a seed."""
        brokers = self._brokers
        targets = opposite(brokers.replicas())
        nodes = [brokers.node_of(part, targets) for part in PARTS_OF_THE_RUN]
        run = brokers.start(targets, None, RATE // 4)
        trouble = Trouble(brokers, Random(seed), run, nodes)
        deadline = time.monotonic() + TROUBLE_SECONDS
        while not brokers.is_over(run) and time.monotonic() < deadline:
            trouble.makes()
        wrong = trouble.ends()
        brokers.attach(run)
        self._note(["trouble"], run, brokers.as_the_run_says(run), f"seed {seed}", wrong)

    # -- lives and judgement ----------------------------------------------------------------------

    def _live(
        self,
        targets: Targets,
        strikes: Sequence[Strike],
        meanwhile: Callable[[str], None] = lambda run: None,
        rate: int = RATE,
    ) -> tuple[str, list[Strike]]:
        """Start a run and bring it back until it has ended, a strike armed in each life.

        Returns its id, and the strikes that came.
        """
        brokers, run = self._brokers, ""
        struck: list[Strike] = []
        for strike in (*strikes, None):
            brokers.arm()
            if run:
                brokers.attach(run, strike)
            else:
                run = brokers.start(targets, strike, rate)
                if strike is not None and (strike.when, strike.kind) == ("before", "created"):
                    struck += [strike] * brokers.has_struck()
                    brokers.arm()
                    run = brokers.start(targets, None, rate)  # nothing was asked for: ask again
                meanwhile(run)
            brokers.await_rest(run)
            if strike is not None and brokers.has_struck():
                struck.append(strike)
            if brokers.is_over(run):
                break
        return run, struck

    def _note(
        self,
        names: Iterator[str] | Sequence[str],
        run: str,
        targets: Targets,
        name: str = "",
        wrong: Sequence[str] = (),
    ) -> None:
        """Judge a run that has ended by Kafka's own tools, and keep what they say."""
        brokers = self._brokers
        complaints = list(wrong)
        view = brokers.view(run)
        if not brokers.is_over(run):
            complaints.append(f"it has not ended: {view.state.value}, {view.why}")
        brokers.revive()
        if (there := brokers.replicas()) != dict(targets):
            complaints.append(f"replicas are {there}, not {dict(targets)}")
        if (completed := brokers.completed(targets)) != len(LAYOUTS):
            complaints.append(f"Kafka's tool says that {completed} are complete")
        if (configs := brokers.configs()) != self._before:
            changed = set(configs.splitlines()) ^ set(self._before.splitlines())
            complaints.append(f"configs differ: {sorted(changed)}")
        result = {"outcome": view.state.value, "why": view.why, "wrong": complaints}
        for group in names:
            self._played.add(group, name or run, result)
        for complaint in complaints:
            print(f"run {run}: {complaint}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--name", default="chaos", help="Name of the sandbox.")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    deadline = time.monotonic() + 60 * arguments.minutes
    played = Played(arguments.output)
    sandbox = chaos_sandbox(arguments.name)
    try:
        with tempfile.TemporaryDirectory(prefix="trimtab-chaos-") as home:
            brokers = Brokers(sandbox, Path(home))
            brokers.lay_out()
            producer = Acknowledged(sandbox.bootstrap, list(LAYOUTS))
            try:
                chaos = Chaos(brokers, played, Random(arguments.seed))
                for case in chaos.cases():
                    if time.monotonic() > deadline:
                        print("Time is up; call it again to go on.", file=sys.stderr)
                        break
                    chaos.play(case)
            finally:
                producer.stop()
            lost = producer.lost()
            wrong = [f"{lost} acknowledged records are lost"] if lost else []
            counted = {"outcome": "counted", "records": producer.count, "wrong": wrong}
            played.add(ACKNOWLEDGED, sandbox.cluster_id, counted)
            brokers.client.close()
    finally:
        sandbox.down()
    sys.exit(played.report())


if __name__ == "__main__":
    main()
