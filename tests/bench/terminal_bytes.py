"""Counts the bytes that the map writes to a terminal: idle, one cell changed, one row scrolled.

The dashboard runs in a pty on a simulated cluster that is read each second, as a live one is.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from core.cluster.log_dirs import with_log_dirs
from core.cluster.state import ClusterState
from core.load.load import Float64
from tests.terminal import Terminal

if TYPE_CHECKING:
    from tui.feed.events import Deliver

COLUMNS, LINES = 120, 40
QUIET_SECONDS = 0.6
"""Silence after which a reaction is taken to be over."""
BUDGETS = {"idle_10_s": 1000, "one_cell": 400, "one_row_scrolled": 16_000}


def measure() -> dict[str, int]:
    """Return the bytes of each case."""
    argv = [sys.executable, "-c", "from tests.bench.terminal_bytes import child; child()"]
    environment = {"NO_COLOR": "", "TEXTUAL_ANIMATIONS": "none", "TEXTUAL_FPS": "30"}
    with Terminal(argv, columns=COLUMNS, lines=LINES, environment=environment) as terminal:
        # The suggestion is worked out once the cursor rests; it belongs to the first paint.
        terminal.wait_for("try ")
        terminal.settle(quiet=QUIET_SECONDS)
        byte_counts = {"first_paint": terminal.received}
        byte_counts["idle_10_s"] = terminal.read_for(10.0)
        os.kill(terminal.pid, signal.SIGUSR1)
        byte_counts["one_cell"] = terminal.reaction(quiet=QUIET_SECONDS)
        os.kill(terminal.pid, signal.SIGUSR2)
        byte_counts["one_rate"] = terminal.reaction(quiet=QUIET_SECONDS)
        terminal.send("j" * (LINES - 12))
        terminal.settle(quiet=QUIET_SECONDS)
        scrolled = []
        for _ in range(3):
            terminal.send("j")
            scrolled.append(terminal.reaction(quiet=QUIET_SECONDS))
        # On a busy machine a reaction may come in two parts, with the next one.
        byte_counts["one_row_scrolled"] = sorted(scrolled)[1]
        terminal.send("k")
        byte_counts["cursor_one_row_up"] = terminal.reaction(quiet=QUIET_SECONDS)
        terminal.send("q")
    return byte_counts


# -- the dashboard ---------------------------------------------------------------------------------


class BenchFeed:
    """What a live feed does, without a cluster: a picture of a simulated one whenever it is told.

    `one_cell` changes the number in one cell and nothing else that is shown, `one_rate` one
    partition's rate by 2 MB/s with all that follows: its row, the broker's totals, skews.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        import numpy as np

        from core.cluster.simulation.cluster import SimulatedCluster
        from core.cluster.simulation.demo import demo_spec

        cluster = SimulatedCluster(demo_spec(seed=7), 7)
        state = cluster.describe_cluster()
        self._state = with_log_dirs(state, cluster.describe_log_dirs([b.id for b in state.brokers]))
        rates = {
            (topic.name, n): partition.in_bytes_per_s
            for topic in cluster.spec.topics
            for n, partition in enumerate(topic.partitions)
        }
        self._known = np.array([rates[tuple(state.tp(i))] for i in range(state.partition_count)])
        self._added = np.zeros(len(self._known))
        self._row, self._more = change_in_one_cell(self._state, self._known)
        self._monotonic = monotonic
        self.stopped = threading.Event()
        self.attached = threading.Event()

    def attach(self, deliver: Deliver) -> None:
        # The load's age is stepped through while idle: 5 s, 10 s.
        self._deliver, self._load_seen = deliver, self._monotonic()
        self.publish()
        self.attached.set()

    def publish(self) -> None:
        from core.load.load import Load, Source
        from tui.feed.events import PictureChanged
        from tui.session import Freshness

        rates = self._known + self._added
        load = Load(rates, rates * 1.4, rates, Source.SPARK, self._state.fetched_at)
        ages = Freshness(self._monotonic(), 1.0), Freshness(self._load_seen, 60.0)
        self._deliver(PictureChanged(replace(self._state), load, None, *ages))

    def one_cell(self) -> None:
        self._added[self._row] += self._more

    def one_rate(self) -> None:
        self._added[self._state.partitions_of("payments.v2").start] += 2e6

    def painted(self) -> None: ...

    def refresh(self) -> None: ...

    def pause(self, paused: bool) -> None: ...

    def stop(self) -> None:
        self.stopped.set()


def child() -> None:
    """Show the dashboard in the pty, told each second; SIGUSR1 is one cell, SIGUSR2 one rate."""
    from tui.app import TrimtabApp
    from tui.session import Session

    feed, asked = BenchFeed(), threading.Event()

    def publish_each_second() -> None:
        feed.attached.wait()
        while not feed.stopped.is_set():
            asked.wait(1.0)
            asked.clear()
            feed.publish()

    def on(signal_number: int, change: Callable[[], None]) -> None:
        def handle(*_: object) -> None:
            change()
            asked.set()

        signal.signal(signal_number, handle)

    on(signal.SIGUSR1, feed.one_cell)
    on(signal.SIGUSR2, feed.one_rate)
    threading.Thread(target=publish_each_second, daemon=True).start()
    TrimtabApp(Session("bench"), feed=feed).run()


def change_in_one_cell(state: ClusterState, rates: Float64) -> tuple[int, float]:
    """Return a partition and what to add to its rate so that only its cell reads differently."""
    from core.load.load import Load, Source
    from core.load.view.heat import Metric, Order, heat_map
    from core.load.view.totals import broker_totals

    def shown(rates: Float64) -> list[str]:
        load = Load(rates, rates * 1.4, rates, Source.SPARK, state.fetched_at)
        heat, totals = heat_map(state, load, Metric.IN), broker_totals(state, load)
        order = heat.order(Order.EXCESS)[:20]
        cells = [f"{v / 1e6:.0f}" for v in heat.values[order].ravel()]
        rest = [heat.total[order] / 1e6, totals.values[Metric.IN] / 1e6]
        rest += [totals.values[Metric.OUT] / 1e6]
        skews = [f"{v:.1f}" for v in heat.skew[order]]
        levels = heat.level[order].ravel().tolist()
        return [*cells, *[f"{v:.0f}" for part in rest for v in part], *skews, *map(str, levels)]

    before = shown(rates)
    for topic in ("clicks", "sessions", "geo.pings", "recs.features", "ledger"):
        for row in state.partitions_of(topic):
            for more in (0.05e6, 0.15e6, 0.3e6):
                changed = rates.copy()
                changed[row] += more
                after = shown(changed)
                if sum(a != b for a, b in zip(before, after, strict=True)) == 1:
                    return row, more
    raise AssertionError("every change of a rate is seen in more than one place")


def main() -> None:
    from tests.bench.harness import arguments, leave_and_print

    chosen = arguments(__doc__)
    leave_and_print(measure() | {"budgets": BUDGETS}, chosen.output)


if __name__ == "__main__":
    main()
