"""Runs on a SimulatedCluster, in process and on its own clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from clusters import NOON
from simulated import small_spec

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    LOG_DIRS_RATE,
    ConfigChange,
    ConfigOp,
    ConfigValue,
    Resource,
)
from core.cluster.connect import Address
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import UnreachableError
from core.plan.plan import Move, Plan
from core.run.engine.executor import Executor
from core.run.journal.journal import Journal
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.rates import RateControl
from core.run.journal.records import Kind
from core.run.journal.run_state import RunState
from core.run.options import RunOptions, create_journal
from core.run.reporting.progress import run_view
from core.run.reporting.runs import RunReading
from core.run.reporting.views import RunView
from core.run.steps import Step, Submit

MB = 1_000_000
THROTTLES = (LEADER_LIST, FOLLOWER_LIST, LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)

TWO = {"t": [(1, 2), (2, 1)], "u": [(1, 2, 3)]}
"""Two partitions that most tests move, and one that they re-order."""
TARGETS: dict[tuple[str, int], tuple[int, ...]] = {
    ("t", 0): (4, 2),
    ("t", 1): (2, 3),
    ("u", 0): (3, 1, 2),
}


def cluster(layout: Mapping[str, Sequence[tuple[int, ...]]], **more: Any) -> SimulatedCluster:
    """Return a cluster of brokers 1 to 6 with partitions of 20 MB."""
    return SimulatedCluster(
        small_spec(layout, **{"brokers": range(1, 7), "size_bytes": 20 * MB, **more}), seed=1
    )


def plan_of(client: SimulatedCluster, targets: Mapping[tuple[str, int], tuple[int, ...]]) -> Plan:
    state = client.describe_cluster()
    plan = Plan(state.cluster_id)
    for (topic, partition), target in targets.items():
        plan = plan.with_target(state, TopicPartition(topic, partition), target)
    return plan


def throttles(client: SimulatedCluster) -> dict[Resource, dict[str, ConfigValue]]:
    """Return every throttle config in the cluster with its source: what must end as found."""
    state = client.describe_cluster()
    resources = [Resource.broker(b.id) for b in state.brokers]
    resources += [Resource.topic(topic.name) for topic in state.topics]
    answers = client.describe_configs(resources, THROTTLES)
    return {r: a for r, a in answers.items() if not isinstance(a, Fault)}


def set_config(client: SimulatedCluster, resource: Resource, name: str, value: str) -> None:
    answers = client.alter_configs([ConfigChange(resource, name, ConfigOp.SET, value)])
    assert answers == {resource: None}


class Faulty:
    """A client that answers some calls wrongly: `answers` maps a call to what replaces it."""

    def __init__(self, client: SimulatedCluster) -> None:
        self.client = client
        self.replaced: dict[str, Callable[..., Any]] = {}
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            return (
                self.replaced[name](real, *args, **kwargs)
                if name in self.replaced
                else (real(*args, **kwargs))
            )

        return call


def new_journal(plan: Plan, rate: int = 5 * MB, **options: Any) -> Journal:
    """Make the journal of a run that no cluster carries out."""
    address = Address("b:9092")
    return create_journal(
        address, plan.cluster_id, plan, RunOptions(rate, **options), None, at=NOON
    )


class Run:
    """One run on a cluster, advanced by hand; its process is replaced with `restart_process`.

    Without a cluster, and a plan, it moves `count` partitions of t from broker 1 to 3. It reaches
    the cluster through `faulty`, unless another way is given. `found` is every throttle as it was
    found: so it must end.
    """

    def __init__(
        self,
        client: SimulatedCluster | None = None,
        plan: Plan | Mapping[tuple[str, int], tuple[int, ...]] | None = None,
        *,
        count: int = 1,
        size_bytes: int = 20 * MB,
        rate: int = 5 * MB,
        through: Any = None,
        estimate: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if client is None:
            client = cluster({"t": [(1, 2)] * count}, size_bytes=size_bytes)
        if plan is None:
            plan = {("t", p): (3, 2) for p in range(count)}
        self.client, self.faulty = client, Faulty(client)
        self.found = throttles(client)
        plan = plan if isinstance(plan, Plan) else plan_of(client, plan)
        self.journal = create_journal(
            Address("sim:none"),
            client.describe_cluster().cluster_id,
            plan,
            RunOptions(rate, **options),
            estimate,
            at=client.now,
        )
        self.through = through or self.faulty
        self.runner = Executor(self.journal, self.through, client.clock)

    @property
    def state(self) -> RunState:
        return self.runner.state

    @property
    def phases(self) -> list[Phase]:
        return [m.phase for m in self.state.moves]

    @property
    def kinds(self) -> list[Kind]:
        return [record.kind for record in self.journal.records()]

    def payloads(self, kind: Kind) -> list[Mapping[str, Any]]:
        return [r.payload for r in self.journal.records() if r.kind is kind]

    @property
    def path(self) -> Path:
        return self.journal.path

    def until(self, here: Callable[[Step], bool], seconds: float = 3600) -> Step:
        """Advance until `here` says so of a step carried out; fail after so much cluster time."""
        deadline = self.client.elapsed_seconds + seconds
        while self.client.elapsed_seconds < deadline and self.runner.state.ended is None:
            step = self.runner.advance()
            if here(step):
                return step
        raise AssertionError(f"never there: {[e.text for e in self.view().events]}")

    def to_the_end(self, seconds: float = 3600) -> Outcome:
        deadline = self.client.elapsed_seconds + seconds
        while self.runner.state.ended is None:
            assert self.client.elapsed_seconds < deadline, [e.text for e in self.view().events]
            self.runner.advance()
        return self.runner.state.ended

    def restores(self, outcome: Outcome, seconds: float = 3600) -> None:
        """Go on to this outcome, with every throttle as it was found."""
        assert self.to_the_end(seconds) is outcome
        assert throttles(self.client) == self.found

    def cancel(self) -> None:
        self.journal.ask(self.client.now, "cancel", {"who": "ann", "host": "here"})

    def restart_process(self) -> None:
        """Go on from the journal alone, as another process would."""
        self.journal.close()
        self.journal = Journal.open(self.journal.path)
        self.runner = Executor(self.journal, self.through, self.client.clock)

    def view(self, *, living: bool = True) -> RunView:
        return run_view(self.journal.records(), self.journal.samples(), living=living)

    def look(self, *, living: bool = True) -> RunReading:
        return RunReading(self.view(living=living), self.journal.records(), self.runner.state)

    def replicas(self) -> dict[str, tuple[int, ...]]:
        state = self.client.describe_cluster()
        return {
            str(m.move.tp): state.replicas(index)
            for m in self.runner.state.moves
            if (index := state.find(m.move.tp)) is not None
        }


Start = Callable[..., Run]
"""Begins a Run that is closed at the end of the test: the fixture `start`."""


def refusing(
    resource: Resource, *names: str, fault: str = "POLICY_VIOLATION"
) -> Callable[..., Any]:
    """Refuse changes of this resource's configs, of these or of any; make all others."""

    def alter_configs(real: Callable[..., Any], changes: Sequence[ConfigChange]) -> Any:
        no = [c for c in changes if c.resource == resource and (not names or c.name in names)]
        rest = [change for change in changes if change not in no]
        return (real(rest) if rest else {}) | {c.resource: Fault(fault) for c in no}

    return alter_configs


def answering(fault: str) -> Callable[..., Any]:
    """Answer whatever is asked, or asked for, with this fault."""
    return lambda real, keys, *more: {getattr(key, "resource", key): Fault(fault) for key in keys}


def unreachable(*_: Any, **__: Any) -> Any:
    raise UnreachableError("The cluster does not answer.")


def move(topic: str, partition: int, before: tuple[int, ...], after: tuple[int, ...]) -> Move:
    return Move(TopicPartition(topic, partition), before, after)


def names(partitions: Collection[TopicPartition]) -> set[str]:
    return {str(tp) for tp in partitions}


# -- in the middle of a run ------------------------------------------------------------------------


def submitted(step: Step) -> bool:
    return isinstance(step, Submit)


def spend(run: Run, seconds: float) -> None:
    """Let a run go on for so much of its cluster's time, or to its end."""
    end = run.client.elapsed_seconds + seconds
    while run.client.elapsed_seconds < end and run.runner.state.ended is None:
        run.runner.advance()


def begun_history(rate_bytes_per_s: int, at: datetime, /, **more: Any) -> RunState:
    """Return what a run with this rate knows of itself once it has passed preflight."""
    return RunState(
        **{
            "run_id": "r",
            "cluster_id": "c",
            "cluster_name": "c",
            "bootstrap": "b",
            "rate_bytes_per_s": rate_bytes_per_s,
            "override_rates": False,
            "allowed": frozenset(),
            "estimate": None,
            "who": "ann",
            "host": "here",
            "created_at": at,
            "rate_control": RateControl(rate_bytes_per_s),
            "preflight": True,
            **more,
        }
    )


def ask(run: Run, kind: str, **payload: Any) -> None:
    run.journal.ask(run.client.now, kind, {**payload, "who": "ann", "host": "here"})


def own(client: SimulatedCluster, resource: Resource, name: str) -> str | None:
    """Return what a throttle is set to; None when it is not, or to nothing."""
    config = throttles(client)[resource].get(name)
    return config.value or None if config else None


def delete(client: SimulatedCluster, resource: Resource, *names: str) -> None:
    changes = [ConfigChange(resource, name, ConfigOp.DELETE) for name in names]
    assert client.alter_configs(changes) == {resource: None}
