"""A run between log dirs that dies or loses an answer: all ends as planned, nothing unthrottled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chaos.dying import Ask, Doom, Lives, Stuck, Watch, Where, begin
from run_help import MB, cluster, throttles

from core.cluster.configs import LOG_DIRS_RATE, Resource
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.plan.plan import Move, Plan
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.run_state import RunState
from core.run.options import RunOptions

POINTS = 3
"""About how many places of each kind are played; all of them were, once."""
DIRS = ("/var/lib/kafka/0", "/var/lib/kafka/1")
T0, T1, T2 = (TopicPartition("t", p) for p in range(3))


def replica_locations(
    client: SimulatedCluster,
) -> dict[tuple[TopicPartition, int], tuple[str, ...]]:
    """Return where each replica lies, then where it is being copied to."""
    dirs_by_replica: dict[tuple[TopicPartition, int], tuple[str, ...]] = {}
    for answer in client.describe_log_dirs(range(1, 7)):
        for log in sorted(answer.replicas, key=lambda log: log.future):
            place = TopicPartition(log.topic, log.partition), answer.broker
            dirs_by_replica[place] = (*dirs_by_replica.get(place, ()), log.log_dir)
    return dirs_by_replica


def unlimited(client: SimulatedCluster) -> Iterator[str]:
    """Yield what is copied between log dirs without a limit, now."""
    for (tp, broker), dirs in replica_locations(client).items():
        if len(dirs) > 1:
            answer = client.describe_configs([Resource.broker(broker)], [LOG_DIRS_RATE])
            configs = dict(answer)[Resource.broker(broker)]
            if not isinstance(configs, dict) or LOG_DIRS_RATE not in configs:
                yield f"{tp} is copied on broker {broker} without a limit"


class LogDirRun:
    """One run: two replicas across, one that goes elsewhere, and one that does both."""

    def __init__(self, doom: Doom | None = None, ask: Ask | None = None) -> None:
        self.client = cluster({"t": [(1, 2), (2, 1), (1, 3)]}, size_bytes=4 * MB)
        self.before, self.rates = replica_locations(self.client), throttles(self.client)
        moves = [self._move(T0, (1, 2), (1, 2)), self._move(T1, (2, 1), (2, 4))]
        self.plan = Plan.of(
            [*moves, self._move(T2, (1, 3), (5, 3))],
            cluster_id=self.client.describe_cluster().cluster_id,
        )
        self.wrong: list[str] = []
        clock = Watch(self.client, 3600, lambda: self.wrong.extend(unlimited(self.client)))
        options = RunOptions(2 * MB, batch_size=2)
        self.lives = Lives(
            begin(self.client, self.plan, options), self.client, clock, (ask,) if ask else ()
        )
        try:
            self.state: RunState = self.lives.through((doom,) if doom else ())
        except Stuck:
            self.state = self.lives.history()
            self.wrong.append(f"it does not end: {self.state.waiting}")
        self.wrong += self._misplaced()

    def _move(self, tp: TopicPartition, before: tuple[int, ...], after: tuple[int, ...]) -> Move:
        dirs_before = tuple(self.before[tp, b][0] for b in before)
        held = dict(zip(before, dirs_before, strict=True))
        named = tuple(DIRS[1 - DIRS.index(held.get(b, DIRS[0]))] for b in after)
        return Move(tp, before, after, None, named, dirs_before)

    def _misplaced(self) -> Iterator[str]:
        now = replica_locations(self.client)
        for m in self.state.moves:
            done = m.phase is Phase.DONE and not m.why
            if m.phase is Phase.DONE and m.why:
                continue  # a cancel came when its reassignment was done
            wanted = m.move.target_log_dirs if done else m.move.base_log_dirs
            for broker, path in wanted.items():
                if now.get((m.move.tp, broker)) != (path,):
                    yield f"{m.move.tp} on broker {broker}: {now.get((m.move.tp, broker))}"
        if any(len(dirs) > 1 for dirs in now.values()):
            yield "a copy is under way still"
        if throttles(self.client) != self.rates:
            yield "throttles are not as found"


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> LogDirRun:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRIMTAB_HOME", str(tmp_path_factory.mktemp("quiet")))
        return LogDirRun()


def test_log_dir_run_ends_as_planned_with_throttles_as_found(quiet: LogDirRun) -> None:
    assert (quiet.state.ended, quiet.wrong) == (Outcome.DONE, [])


@pytest.mark.parametrize("where", [w for w in Where if w is not Where.LATE])
def test_process_death_or_lost_answer_at_any_point_only_delays_a_log_dir_run(
    quiet: LogDirRun, where: Where
) -> None:
    first = quiet.lives.fates[0]
    count = first.records if where.counts_records else first.calls
    wrong = {}
    for at in range(2, count + 1, max(1, count // POINTS)):
        played = LogDirRun(Doom(where, at))
        if played.wrong or played.state.ended is not Outcome.DONE:
            wrong[at] = (played.state.ended, played.wrong[:2])
    assert not wrong


def test_cancel_at_any_poll_leaves_every_replica_in_its_old_or_planned_log_dir(
    quiet: LogDirRun,
) -> None:
    wrong = {}
    for look in range(2, quiet.lives.poll_count + 1, quiet.lives.poll_count // (2 * POINTS)):
        played = LogDirRun(ask=Ask(look, "cancel"))
        if played.wrong or played.state.ended not in (Outcome.CANCELLED, Outcome.DONE):
            wrong[look] = (played.state.ended, played.wrong[:2])
    assert not wrong
