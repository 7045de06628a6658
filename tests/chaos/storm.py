"""One run through bad weather, all of it from a seed: the cluster, the plan, and what happens.

A thousand partitions on twelve brokers; brokers go and return, others move partitions, edit
throttles and delete topics, answers are lost or lag, and the process is killed again and again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from chaos.clients import Unsteady
from chaos.dying import Ask, Doom, Lives, Stuck, Watch, Where, begin
from chaos.external_changes import EVERY_BROKER, RATES, ExternalChanges, random_edit
from chaos.world import unexplained
from simulated import small_spec

from core.cluster.configs import FOLLOWER_LIST, LEADER_LIST, LEADER_RATE
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.plan.plan import Plan
from core.run.engine.move_outcome import GONE
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.run_state import RunState
from core.run.options import RunOptions

MB = 1_000_000
BROKERS = list(range(1, 13))
TOPICS = [f"t{n}" for n in range(10)]
PARTITIONS = 100
STORM_SECONDS = 150.0
LIMIT_SECONDS = 3 * 3600.0


@dataclass(frozen=True, slots=True)
class Report:
    """How a seed's run ended, what was wrong with it, and what had happened."""

    seed: int
    outcome: Outcome | None
    why: str
    wrong: tuple[str, ...]
    lives: int
    moves: dict[str, int]
    happened: tuple[str, ...]


def _cluster(rng: Random) -> SimulatedCluster:
    layout = {topic: [tuple(rng.sample(BROKERS, 3)) for _ in range(PARTITIONS)] for topic in TOPICS}
    sizes = {
        TopicPartition(topic, p): int(MB * min(60.0, 5 * rng.lognormvariate(0.0, 0.9)))
        for topic in TOPICS
        for p in range(PARTITIONS)
    }
    lists = (None, None, None, "", "*", "3:77", "8:77,9:78")
    topic_configs = {
        topic: {
            name: value for name in (LEADER_LIST, FOLLOWER_LIST) if (value := rng.choice(lists))
        }
        | ({"min.insync.replicas": "2"} if rng.random() < 0.5 else {})
        for topic in TOPICS
    }
    rates = (None, None, None, "1500000", "77000000")

    def rates_of(broker: int) -> dict[str, str]:
        return {name: value for name in RATES if (value := rng.choice(rates))}

    spec = small_spec(
        layout,
        brokers=BROKERS,
        size_bytes=sizes,
        topic_configs=topic_configs,
        broker_configs={b: rates_of(b) for b in BROKERS},
        static_configs={b: {LEADER_RATE: "90000000"} for b in rng.sample(BROKERS, 2)},
    )
    return SimulatedCluster(spec, seed=rng.randrange(1 << 30))


def _plan(cluster: SimulatedCluster, rng: Random) -> Plan:
    state = cluster.describe_cluster()
    plan = Plan(state.cluster_id)
    for index in rng.sample(range(state.partition_count), rng.randint(30, 90)):
        plan = plan.with_target(state, state.tp(index), _target(rng, state.replicas(index)))
    return plan


def _target(rng: Random, before: tuple[int, ...]) -> tuple[int, ...]:
    """Return another order, or one to three other brokers."""
    others = rng.sample([b for b in BROKERS if b not in before], rng.randint(0, 3))
    target = [*others, *before][: len(before)]
    rng.shuffle(target)
    return tuple(target)


class Storm:
    """Everything that happens to one seed's run."""

    def __init__(self, seed: int) -> None:
        self.seed, self._rng = seed, Random(seed)
        self.cluster = _cluster(self._rng)
        self.plan = _plan(self.cluster, self._rng)
        self.others = ExternalChanges(self.cluster)
        if self._rng.random() < 0.5:
            self.others.set(EVERY_BROKER, LEADER_RATE, "80000000")
        self.clock = Watch(self.cluster, LIMIT_SECONDS)
        self.unsteady = Unsteady(self.cluster, Random(seed))
        self.happened: list[str] = []
        self._brew()

    def play(self) -> Report:
        """Carry the run to its end through it all."""
        options = RunOptions(
            self._rng.choice((1, 3, 10)) * MB,
            batch_size=self._rng.randint(8, 40),
            allow=frozenset({"foreign-move", "out-of-sync"}),
        )
        path = begin(self.cluster, self.plan, options)
        lives = Lives(path, self.unsteady, self.clock, tuple(self._asks()))
        try:
            for doom in self._dooms():
                lives.live(doom)
                if lives.history().ended is not None:
                    break
                self.clock.sleep(self._rng.choice((0.0, 0.5, 4.0, 30.0)))
            history = lives.through(())
            self._did("the run has ended")
            topics = frozenset(topic.name for topic in self.cluster.describe_cluster().topics)
            # Others see to their own leavings before what is left is judged.
            self.clock.sleep(max(1.0, 2 * STORM_SECONDS - self.cluster.elapsed_seconds))
            wrong = list(self._complaints(history, topics))
        except Stuck:
            history = lives.history()
            wrong = [f"it does not end; it waits for {history.waiting!r}"]
        phases = [m.phase.value for m in history.moves]
        return Report(
            self.seed,
            history.ended,
            history.ended_why,
            tuple(wrong),
            len(lives.fates),
            {phase: phases.count(phase) for phase in sorted(set(phases))},
            tuple(sorted((*self.happened, *self.others.done), key=_moment)),
        )

    # -- what happens -----------------------------------------------------------------------------

    def _brew(self) -> None:
        rng, at = self._rng, self.clock.at
        planned = [move.tp for move in self.plan]
        anywhere = [TopicPartition(rng.choice(TOPICS), rng.randrange(PARTITIONS)) for _ in planned]
        for broker in rng.sample(BROKERS, rng.randint(0, 3)):
            down = rng.uniform(0, STORM_SECONDS)
            at(down, lambda b=broker: self._broker(b, "stop"))
            back = min(STORM_SECONDS, down + rng.expovariate(1 / 30))
            at(back, lambda b=broker: self._broker(b, "start"))
        for _ in range(rng.randint(0, 3)):
            tp = rng.choice(planned if rng.random() < 0.3 else anywhere)
            at(rng.uniform(0, STORM_SECONDS), lambda tp=tp: self._foreign_move(tp))
        for _ in range(rng.choice((0, 0, 0, 1))):
            tp = rng.choice(planned)
            at(rng.uniform(0, STORM_SECONDS), lambda tp=tp: self.others.cancel(tp))
        for _ in range(rng.randint(0, 4)):
            at(rng.uniform(0, STORM_SECONDS), self._edit)
        if rng.random() < 0.3:
            at(rng.uniform(0, STORM_SECONDS), lambda: self._delete(rng.choice(TOPICS)))
        for _ in range(rng.randint(0, 2)):
            begins = rng.uniform(0, STORM_SECONDS)
            at(begins, lambda: self._unsteady(loses=rng.choice((0.02, 0.2)), lags=False))
            at(begins + rng.uniform(1, 20), lambda: self._unsteady(loses=0.0, lags=False))
        if rng.random() < 0.5:
            at(rng.uniform(0, STORM_SECONDS / 2), lambda: self._unsteady(loses=0.0, lags=True))
        at(STORM_SECONDS, lambda: self._unsteady(loses=0.0, lags=False))
        at(STORM_SECONDS + 60, self.others.tidy)

    def _asks(self) -> Iterator[Ask]:
        rng, look = self._rng, 0
        for _ in range(rng.choice((0, 0, 1, 3))):
            look += rng.randint(1, 200)
            moves = rng.sample(range(len(self.plan)), 3)
            match rng.randrange(6):
                case 0:
                    yield Ask(look, "pause", {"floor": rng.random() < 0.5})
                    look += rng.randint(1, 40)
                    yield Ask(look, "resume")
                case 1:
                    yield Ask(look, "throttle", {"rate_bytes_per_s": rng.choice((2, 6)) * MB})
                case 2:
                    yield Ask(look, "cancel", {"moves": moves})
                case 3:
                    yield Ask(look, "skip", {"moves": moves})
                case 4:
                    yield Ask(look, "retry", {"moves": moves})
                case _:
                    yield Ask(look, rng.choice(("cancel", "rollback")))

    def _dooms(self) -> Iterator[Doom]:
        for _ in range(self._rng.randint(0, 5)):
            where = self._rng.choice((Where.BEFORE, Where.AFTER, Where.EFFECT, Where.LOST))
            yield Doom(where, self._rng.randint(1, 60))

    def _broker(self, broker: int, what: str) -> None:
        getattr(self.cluster, f"{what}_broker")(broker)
        self._did(f"{what} of broker {broker}")

    def _foreign_move(self, tp: TopicPartition) -> None:
        state = self.cluster.describe_cluster()
        index = state.find(tp)
        if index is not None:
            self.others.move(tp, _target(self._rng, state.replicas(index)[:3]))

    def _edit(self) -> None:
        topics = [topic.name for topic in self.cluster.describe_cluster().topics]
        random_edit(self.others, self._rng, topics, BROKERS)
        self.unsteady.forget()

    def _delete(self, topic: str) -> None:
        if self.cluster.describe_cluster().topic(topic) is not None:
            self.others.delete(topic)

    def _unsteady(self, *, loses: float, lags: bool) -> None:
        self.unsteady.loses, self.unsteady.lags = loses, lags
        self.unsteady.forget()
        self._did(f"answers lost {loses:.0%}, lagging {lags}")

    def _did(self, what: str) -> None:
        self.happened.append(f"{self.cluster.elapsed_seconds:.1f} s: {what}")

    # -- the judge --------------------------------------------------------------------------------

    def _complaints(self, history: RunState, topics: frozenset[str]) -> Iterator[str]:
        """Yield what is wrong of a run; `topics` are those that there were as it ended."""
        yield from self.others.strays()
        if history.ended in (Outcome.FAILED, Outcome.INCOMPLETE) and not history.ended_why:
            yield f"it ended as {history.ended.value}, and nothing says why"
        if history.crashed:
            yield history.crashed
        state, listed = self.cluster.describe_cluster(), self.cluster.fetch_reassignments()
        yield from unexplained(history)
        # Of moves of the same partition (back again, or to another broker) the last one counts.
        for m in {m.move.tp: m for m in history.moves}.values():
            tp, index = m.move.tp, state.find(m.move.tp)
            if tp in self.others.touched:
                continue
            if tp in listed:
                yield f"{tp} is still in flight"
            if index is None:
                is_explained = m.phase is Phase.DONE or m.why == GONE or "not started" in m.why
                if not is_explained and tp.topic not in topics:
                    yield f"{tp} was deleted, and the run says {m.why!r}"
                continue
            wanted = m.move.after if m.phase is Phase.DONE else m.move.before
            if state.replicas(index) != wanted:
                yield f"{tp}, {m.phase.value}, has {state.replicas(index)}, not {wanted}"
        planned = {move.tp for move in self.plan}
        for tp, target in self.others.targets.items():
            index = state.find(tp)
            if tp not in planned and index is not None and state.replicas(index) != target:
                yield f"{tp}, moved by others, has {state.replicas(index)}, not {target}"


def _moment(what: str) -> float:
    return float(what.split(" ")[0])
