"""Laws of a run: whatever was set in a cluster and whatever is asked, it ends as it was found."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_help import MB, Run, cluster, plan_of

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigChange,
    ConfigOp,
    ConfigValue,
    Resource,
    ResourceKind,
)
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.run.engine.executor import Executor
from core.run.journal.move_state import Outcome, Phase, Role

LAYOUT = {"a": [(1, 2), (2, 3), (3, 1)], "b": [(4, 5), (5, 6), (1, 4)], "theirs": [(5, 6)]}
MOVED = [(topic, p) for topic in ("a", "b") for p in range(3)]
TARGETS = st.fixed_dictionaries(
    {key: st.permutations(range(1, 7)).map(lambda ids: tuple(ids[:2])) for key in MOVED}
)
LISTS = st.sampled_from([None, "", "*", "7:1", "0:1", "0:1,0:2,7:3", "1:3,2:6"])
RATES = st.sampled_from([None, "900000", "2000000", "70000000"])
TOPIC_CONFIGS = st.fixed_dictionaries(
    {(topic, name): LISTS for topic in ("a", "b") for name in (LEADER_LIST, FOLLOWER_LIST)}
)
BROKER_CONFIGS = st.fixed_dictionaries(
    {(b, name): RATES for b in (1, 3, 5) for name in (LEADER_RATE, FOLLOWER_RATE)}
)
ONE = st.integers(0, len(MOVED) - 1).map(lambda index: {"moves": [index]})
ASKED = st.one_of(
    st.tuples(st.just("pause"), st.booleans().map(lambda floor: {"floor": floor})),
    st.tuples(st.just("resume"), st.just({})),
    st.tuples(
        st.just("throttle"),
        st.integers(1, 9).map(lambda rate: {"rate_bytes_per_s": rate * MB}),
    ),
    st.tuples(st.sampled_from(["cancel", "skip", "retry"]), ONE),
    st.tuples(
        st.just("retarget"),
        st.tuples(st.integers(0, 5), st.permutations(range(1, 7))).map(
            lambda drawn: {"move": drawn[0], "after": list(drawn[1][:2])}
        ),
    ),
    st.tuples(st.sampled_from(["cancel", "rollback"]), st.just({})),
    st.just(("die", {})),
)
STORY = st.lists(st.tuples(st.integers(1, 25), ASKED), max_size=6)
Found = dict[Resource, dict[str, ConfigValue]]


def a_cluster(topics: Mapping[Any, str | None], brokers: Mapping[Any, str | None]) -> Any:
    client = cluster(
        LAYOUT,
        size_bytes=4 * MB,
        topic_configs={
            topic: {name: v for (t, name), v in topics.items() if t == topic and v is not None}
            for topic in ("a", "b")
        },
        broker_configs={
            b: {name: v for (of, name), v in brokers.items() if of == b and v is not None}
            for b in (1, 3, 5)
        },
        static_configs={2: {LEADER_RATE: "90000000"}},
    )
    everywhere = Resource(ResourceKind.BROKER, "")
    client.alter_configs([ConfigChange(everywhere, FOLLOWER_RATE, ConfigOp.SET, "80000000")])
    client.alter_reassignments({TopicPartition("theirs", 0): (5, 1)})
    return client


def everything(client: SimulatedCluster) -> Found:
    state = client.describe_cluster()
    resources = [Resource(ResourceKind.BROKER, ""), *(Resource.broker(b.id) for b in state.brokers)]
    resources += [Resource.topic(topic.name) for topic in state.topics]
    answers = client.describe_configs(resources)
    return {r: a for r, a in answers.items() if not isinstance(a, Fault)}


def play(run: Run, story: list[tuple[int, tuple[str, dict[str, Any]]]]) -> None:
    for looks, (kind, payload) in story:
        for _ in range(looks):
            if run.state.ended is None:
                run.runner.advance()
        if kind == "die":
            run.restart_process()
        else:
            run.journal.ask(run.client.now, kind, {**payload, "who": "ann", "host": "here"})
    run.journal.ask(run.client.now, "resume", {"who": "ann", "host": "here"})


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    targets=TARGETS,
    topics=TOPIC_CONFIGS,
    brokers=BROKER_CONFIGS,
    batch_size=st.sampled_from([2, 6]),
    story=STORY,
)
def test_configs_end_as_found_and_every_partition_where_its_move_says(
    targets: dict[tuple[str, int], tuple[int, ...]],
    topics: Mapping[Any, str | None],
    brokers: Mapping[Any, str | None],
    batch_size: int,
    story: list[tuple[int, tuple[str, dict[str, Any]]]],
) -> None:
    with (
        tempfile.TemporaryDirectory() as home,
        mock.patch.dict("os.environ", {"TRIMTAB_HOME": str(Path(home))}),
    ):
        client = a_cluster(topics, brokers)
        before = everything(client)
        run = Run(client, plan_of(client, targets), rate=2 * MB, batch_size=batch_size)
        original = run.replicas()
        try:
            play(run, story)
            outcome = run.to_the_end(seconds=7200)
            history = run.state
            assert outcome is not Outcome.FAILED or not any(
                m.phase is Phase.DONE for m in history.moves
            )
            assert everything(client) == before
            now = run.replicas()
            for m in history.moves:
                if m.replaced:
                    continue
                back = m.role is Role.ROLLBACK
                done = m.phase is Phase.DONE
                expected = m.move.after if done else m.move.before
                assert now[str(m.move.tp)] == expected, (m, history.ended_why)
                assert not (back and done) or now[str(m.move.tp)] == original[str(m.move.tp)]
            assert set(client.fetch_reassignments()) <= {TopicPartition("theirs", 0)}
            assert Executor(run.journal, client, client.clock).state == history
        finally:
            run.journal.close()
