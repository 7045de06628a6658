"""Ten thousand moves in one run on the simulator: memory, journal, and the time of a step.

The cluster lives in another process behind its socket; this one holds the run alone, so that its
memory is that of a run's process. A step's time is the processor's, without the cluster's answers.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.harness import MB, arguments, home_folder, leave_and_print

BROKERS = 30
TOPICS = 20
PARTITIONS = 500
SPEED = 20.0


def simulate(path: str) -> None:
    """Serve a cluster of ten thousand small partitions until it is told to end."""
    from core.cluster.simulation.cluster import SimulatedCluster
    from core.cluster.simulation.server import SimulatorServer
    from tests.simulated import small_spec

    def replicas(n: int) -> tuple[int, ...]:
        return tuple(1 + (n + step) % BROKERS for step in (0, 1, 7))

    layout = {
        f"topic-{t:02}": [replicas(t * 13 + p) for p in range(PARTITIONS)] for t in range(TOPICS)
    }
    server = SimulatorServer(
        SimulatedCluster(small_spec(layout, size_bytes=20_000)), Path(path), SPEED
    )
    server.start()
    print("ready", flush=True)
    server.stopped.wait()
    server.stop()


class Timed:
    """A client that counts the processor's time that its calls take."""

    def __init__(self, client: Any) -> None:
        self._client, self.seconds = client, 0.0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._client, name)

        def call(*args: Any, **more: Any) -> Any:
            began = time.thread_time()
            try:
                return real(*args, **more)
            finally:
                self.seconds += time.thread_time() - began

        return call


def carry_out(path: Path) -> dict[str, Any]:
    """Move every partition's last replica, and return what was measured."""
    from core.cluster.connect import Address, connect
    from core.plan.plan import Plan
    from core.run.engine.executor import Executor
    from core.run.options import RunOptions, create_journal

    connection = connect(Address(f"sim:{path}"))
    state = connection.client.describe_cluster()
    plan = Plan(state.cluster_id)
    for index in range(state.partition_count):
        first, second, last = state.replicas(index)
        target = (first, second, 1 + last % BROKERS)
        plan = plan.with_target(state, state.tp(index), target)
    client, clock = Timed(connection.client), connection.clock
    journal = create_journal(
        connection.address, state.cluster_id, plan, RunOptions(500 * MB), None, at=clock.now()
    )
    began = time.monotonic()
    runner = Executor(journal, client, clock)  # type: ignore[arg-type]
    steps: list[float] = []
    while runner.state.ended is None:
        at = time.thread_time() - client.seconds
        runner.advance()
        steps.append(time.thread_time() - client.seconds - at)
    took = time.monotonic() - began
    size = journal.path.stat().st_size
    journal.close()
    tenth = max(1, len(steps) // 10)
    return {
        "moves": len(plan),
        "outcome": runner.state.ended.value,
        "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "journal_bytes": size,
        "seconds": round(took, 1),
        "steps": len(steps),
        "step_ms": {
            "first_tenth": round(1000 * median(steps[:tenth]), 2),
            "middle_tenth": round(1000 * median(steps[len(steps) // 2 :][:tenth]), 2),
            "last_tenth": round(1000 * median(steps[-tenth:]), 2),
        },
    }


def main() -> None:
    chosen = arguments(__doc__)
    with home_folder() as home:
        path = home / "simulator.sock"
        program = "import sys; from tests.bench.many_moves import simulate; simulate(sys.argv[1])"
        simulator = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert simulator.stdout is not None
            assert simulator.stdout.readline() == "ready\n"
            measured = carry_out(path)
        finally:
            simulator.terminate()
            simulator.wait()
    leave_and_print(measured, chosen.output)


if __name__ == "__main__":
    main()
