"""Whatever is read late, whoever edits meanwhile, wherever the process dies: others' stays theirs.

The law of giving back: entries and rates of others are as they left them, and ours are gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Any

import pytest
from chaos.clients import Remembering, Stale
from chaos.dying import Doom, DoomedJournal, Lives, Watch, Where, begin
from chaos.external_changes import LISTS, RATES, ExternalChanges, own_configs
from run_help import MB, Faulty, Run, Start, cluster, delete, plan_of, set_config, throttles

from core.cluster.configs import LEADER_LIST, ConfigChange, ConfigOp, Resource, ResourceKind
from core.cluster.kafka_errors import Fault
from core.cluster.simulation.cluster import SimulatedCluster
from core.plan.copies import Side
from core.run.journal.move_state import Outcome
from core.run.journal.records import Kind
from core.run.journal.throttle_values import own_list
from core.run.options import RunOptions
from core.run.steps import IntendThrottles, RemovePairs
from core.run.throttles.write_and_read_back import fetch_list_answers

TOPICS = ("t", "u", "v")
PRIOR: Mapping[str, Mapping[str, str]] = {"u": {LEADER_LIST: ""}, "v": {LEADER_LIST: "7:1,8:2"}}
RATE = 3 * MB
T = Resource.topic("t")


def the_cluster() -> SimulatedCluster:
    return cluster(
        {topic: [(1, 2), (2, 3), (3, 1)] for topic in TOPICS},
        topic_configs=PRIOR,
        broker_configs={1: {RATES[0]: "77000000"}, 4: {RATES[1]: "1500000"}},
        size_bytes=4 * MB,
    )


class Editors:
    """Others, who edit lists and rates now and then; each edit of theirs is remembered."""

    def __init__(self, client: SimulatedCluster, rng: Random, often: float) -> None:
        self._client, self._rng, self._often = client, rng, often
        self.cluster = Remembering(client)
        self.others = ExternalChanges(self.cluster)  # type: ignore[arg-type]
        self.seen_by: Stale | None = None

    def maybe(self) -> None:
        """Edit with the chance that there is: lists as well-behaved tools do, rates as anybody."""
        if self._rng.random() >= self._often:
            return
        if self._rng.random() < 0.4:
            resource, name = Resource.broker(self._rng.randint(1, 6)), self._rng.choice(RATES)
            self.others.set(resource, name, self._rng.choice((None, "2222222", "44444444")))
        else:
            topic, name = self._rng.choice(TOPICS), self._rng.choice(LISTS)
            resource = Resource.topic(topic)
            pair = f"{self._rng.randrange(20)}:98"
            if self._rng.random() < 0.3 and self.others.left.get((resource, name)):
                theirs = (self.others.left[resource, name] or "").split(",")
                self._subtract(resource, name, self._rng.choice(theirs))
            else:
                self.others.append(topic, name, pair)
        if self.seen_by is not None:
            self.seen_by.edits[resource, name] = self._client.elapsed_seconds

    def _subtract(self, resource: Resource, name: str, pair: str) -> None:
        self.cluster.alter_configs([ConfigChange(resource, name, ConfigOp.SUBTRACT, pair)])
        left = [p for p in (self.others.left[resource, name] or "").split(",") if p != pair]
        self.others.left[resource, name] = ",".join(left)
        self.others.edited.add((resource, name))


def strays(external: ExternalChanges, hidden: set[tuple[Resource, str]]) -> list[str]:
    unknowable = [f"{name} of {r.kind.value} {r.name!r} " for r, name in hidden]
    return [s for s in external.strays() if not any(s.startswith(prefix) for prefix in unknowable)]


@pytest.mark.parametrize("stale_seconds", [0.0, 0.3, 4.0])
@pytest.mark.parametrize("seed", range(12))
def test_external_throttle_edits_survive_stale_reads_and_process_deaths(
    seed: int, stale_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(f"{seed} {stale_seconds}")
    client = the_cluster()
    editors = Editors(client, rng, often=0.02)
    seen = editors.seen_by = Stale(editors.cluster, rng, stale_seconds, editors.maybe)
    write = DoomedJournal.write

    def edited(journal: Any, at: Any, kind: Kind, payload: Any) -> Any:
        record = write(journal, at, kind, payload)
        editors.maybe()
        return record

    monkeypatch.setattr(DoomedJournal, "write", edited)
    plan = plan_of(client, {(t, p): ((4, 2), (2, 5), (6, 1))[p] for t in TOPICS for p in range(3)})
    path = begin(client, plan, RunOptions(RATE, batch_size=1 + seed % 3))
    lives = Lives(path, seen, Watch(client, 3600.0))  # type: ignore[arg-type]
    dooms = [
        Doom(rng.choice((Where.BEFORE, Where.AFTER, Where.EFFECT)), rng.randint(2, 14))
        for _ in range(rng.randrange(6))
    ]
    history = lives.through(dooms)
    assert history.ended is not None
    client.advance(2 * stale_seconds)
    assert strays(editors.others, seen.hidden) == []


def test_foreign_entry_hidden_by_a_stale_read_is_not_deleted_with_our_pairs() -> None:
    """Killed before `pairs_removing`; the next process asks a broker that lags."""
    client = the_cluster()
    theirs = Remembering(client)
    others = ExternalChanges(theirs)  # type: ignore[arg-type]
    stale = Stale(theirs, Random(1), 0.0)
    path = begin(client, plan_of(client, {("t", 0): (4, 2)}), RunOptions(RATE))
    lives = Lives(path, stale, Watch(client, 600.0))  # type: ignore[arg-type]
    kinds = _kinds_of_a_run()
    lives.live(Doom(Where.BEFORE, kinds.index(Kind.PAIRS_REMOVING) + 1))
    others.append("t", LEADER_LIST, "9:5")
    shows = client.elapsed_seconds - 0.1
    client.advance(1.0)
    real = theirs.as_of
    lag_until = client.elapsed_seconds + 3.0

    def lagging(resource: Resource, moment: float) -> Any:
        return real(resource, shows if client.elapsed_seconds < lag_until else moment)

    theirs.as_of = lagging  # type: ignore[method-assign]
    assert lives.through(()).ended is not None
    assert own_configs(client).get((T, LEADER_LIST)) == "9:5"
    assert list(others.strays()) == []


def _kinds_of_a_run() -> list[Kind]:
    client = the_cluster()
    path = begin(client, plan_of(client, {("t", 0): (4, 2)}), RunOptions(RATE))
    lives = Lives(path, client, Watch(client, 600.0))
    return lives.live(None).kinds


class Late:
    """A cluster of which a run is shown topics' configs as they were `by` changes of its ago."""

    def __init__(self, client: SimulatedCluster) -> None:
        self._client, self.by = client, 0
        self._past: defaultdict[Resource, list[Any]] = defaultdict(list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def alter_configs(self, changes: Sequence[ConfigChange]) -> Any:
        for resource in {change.resource for change in changes}:
            self._past[resource].append(self._client.describe_configs([resource])[resource])
        return self._client.alter_configs(changes)

    def describe_configs(
        self, resources: Collection[Resource], names: Collection[str] | None = None
    ) -> Any:
        answers = self._client.describe_configs(resources, names)
        topics = [r for r in resources if r.kind is ResourceKind.TOPIC] if self.by else []
        return answers | {topic: self._past[topic][-self.by] for topic in topics}


def between_batches(start: Start, prior: str | None) -> tuple[Run, Late]:
    """Return a run of two batches that has given the first one's pairs back."""
    client = cluster({"t": [(1, 2)] * 2})
    if prior is not None:
        set_config(client, T, LEADER_LIST, prior)
    late = Late(client)
    run = start(client, {("t", p): (3, 2) for p in range(2)}, batch_size=1, through=late)
    run.until(lambda step: isinstance(step, RemovePairs))
    return run, late


def to_the_end(run: Run, late: Late, by: int) -> None:
    """Let a run read late as it begins its next batch, and carry it out."""
    late.by = by
    run.until(lambda step: isinstance(step, IntendThrottles))
    late.by = 0
    assert run.to_the_end() is Outcome.DONE


def leader_list(client: SimulatedCluster) -> str | None:
    """Return the topic's own list: "" when set to nothing, None when unset."""
    return own_list(throttles(client)[T], Side.LEADER)


LATE = pytest.mark.parametrize("by", [0, 1, 2])


@LATE
@pytest.mark.parametrize("prior", [None, "", "7:1"])
def test_list_ends_as_found_however_stale_the_configs_read_between_batches_are(
    start: Start, prior: str | None, by: int
) -> None:
    run, late = between_batches(start, prior)
    to_the_end(run, late, by)
    assert leader_list(run.client) == prior
    assert own_list(throttles(run.client)[T], Side.FOLLOWER) is None


@LATE
@pytest.mark.parametrize("prior", [None, "", "7:1"])
def test_foreign_entry_added_between_two_batches_is_kept(
    start: Start, prior: str | None, by: int
) -> None:
    run, late = between_batches(start, prior)
    append = ConfigChange(T, LEADER_LIST, ConfigOp.APPEND, "9:5")
    run.client.alter_configs([append])
    to_the_end(run, late, by)
    assert set((leader_list(run.client) or "").split(",")) == {"9:5", prior} - {None, ""}


def test_list_deleted_externally_between_two_batches_stays_deleted(start: Start) -> None:
    run, late = between_batches(start, "")
    delete(run.client, T, LEADER_LIST)
    to_the_end(run, late, 0)
    assert leader_list(run.client) is None


def test_list_emptied_externally_between_two_batches_stays_empty(start: Start) -> None:
    run, late = between_batches(start, "7:1")
    set_config(run.client, T, LEADER_LIST, "")
    to_the_end(run, late, 0)
    assert leader_list(run.client) == ""


def test_originally_unset_list_that_somebody_empties_between_two_batches_ends_unset(
    start: Start,
) -> None:
    run, late = between_batches(start, None)
    set_config(run.client, T, LEADER_LIST, "")
    to_the_end(run, late, 0)
    assert leader_list(run.client) is None


@pytest.mark.parametrize("settled", [True, False])
def test_without_list_entries_from_the_controller_two_config_reads_must_agree(
    settled: bool,
) -> None:
    client = cluster({"t": [(1, 2)]})
    set_config(client, T, LEADER_LIST, "9:5")
    faulty = Faulty(client)

    def untold(real: Any, lists: Any) -> Any:
        return dict.fromkeys(lists, Fault("UNSUPPORTED_VERSION"))

    def another(real: Any, *keys: Any) -> Any:
        answer = real(*keys)
        if not settled:
            set_config(client, T, LEADER_LIST, "9:5,9:6")
        return answer

    faulty.replaced = {"fetch_list_entries": untold, "describe_configs": another}
    (answer,) = fetch_list_answers(faulty, client.clock, [("t", Side.LEADER)]).values()  # type: ignore[arg-type]
    if settled:
        assert answer == {"9:5"}
    else:
        assert isinstance(answer, Fault)
