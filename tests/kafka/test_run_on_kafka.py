"""Runs on real brokers, through the command line, with Kafka's own tool as the judge."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from on_kafka import command, trimtab, trimtab_here, verify
from waiting import eventually

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    ConfigValue,
    Resource,
    ResourceKind,
)
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.errors import ExitCode
from tests.sandbox_data import delete_topics, fill

MB = 1_000_000
NAMES = (LEADER_LIST, FOLLOWER_LIST, LEADER_RATE, FOLLOWER_RATE)
EVERY_BROKER = Resource(ResourceKind.BROKER, "")

# A quota averages over 12 s: it may let 11.5 s of its rate through at once. Moves that must last
# while something is looked at have bytes for most of a minute more: they are cancelled, or sped up.
LASTING_MEGABYTES = 60


class Cluster:
    """The sandbox, the command line on it with a home of its own, and the judge."""

    def __init__(self, sandbox: Sandbox, home: Path) -> None:
        self.sandbox, self.home = sandbox, home
        self.settings = ConnectionSettings(sandbox.bootstrap)
        self.client = KafkaClient(self.settings)
        self.topics: list[str] = []
        self.left: list[tuple[Resource, str]] = []

    # -- setting up -----------------------------------------------------------------------------

    def topic(self, name: str, layout: list[tuple[int, ...]], megabytes: int) -> None:
        create_topics(self.settings, {name: layout})
        self.topics.append(name)
        fill(
            self.settings,
            {TopicPartition(name, p): megabytes * MB for p in range(len(layout))},
        )

    def set_throttle(self, resource: Resource, name: str, value: str) -> None:
        self.left.append((resource, name))
        answers = self.client.alter_configs([ConfigChange(resource, name, ConfigOp.SET, value)])
        assert answers == {resource: None}

        def shows() -> bool:
            at = Resource.broker(1) if resource == EVERY_BROKER else resource
            return self.throttles()[at].get(name, ConfigValue(None, None)).value == value  # type: ignore[arg-type]

        eventually(shows)

    def plan(self, targets: Mapping[tuple[str, int], tuple[int, ...]]) -> Path:
        path = self.home / "plan.json"
        document = {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": partition, "replicas": list(replicas)}
                for (topic, partition), replicas in targets.items()
            ],
        }
        path.write_text(json.dumps(document))
        return path

    # -- doing ----------------------------------------------------------------------------------

    def trimtab(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command that answers at once."""
        return trimtab_here("-b", self.sandbox.bootstrap, *arguments)

    def follow(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command that follows a run to its end."""
        return trimtab(self.sandbox.bootstrap, *arguments)

    def begin(self, *arguments: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command(self.sandbox.bootstrap, *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def show(self, run: str) -> dict[str, Any]:
        document = json.loads(self.trimtab("runs", "show", run, "--json").stdout)
        assert isinstance(document, dict)
        return document

    # -- judging --------------------------------------------------------------------------------

    def verify(self, plan: Path) -> str:
        return verify(self.sandbox, plan)

    def throttles(self) -> dict[Resource, dict[str, ConfigValue]]:
        resources = [Resource.broker(b) for b in self.sandbox.broker_ids]
        resources += [Resource.topic(topic) for topic in self.topics]
        answers = self.client.describe_configs(resources, NAMES)
        return {r: a for r, a in answers.items() if isinstance(a, dict)}

    def replicas(self, topic: str, partition: int) -> tuple[int, ...]:
        state = self.client.describe_cluster()
        row = state.find(TopicPartition(topic, partition))
        assert row is not None
        return state.replicas(row)

    def in_sync(self, tp: TopicPartition) -> tuple[int, ...]:
        state = self.client.describe_cluster()
        index = state.find(tp)
        assert index is not None
        return state.row(index).isr

    def clean(self) -> None:
        delete_topics(self.settings, self.topics)
        brokers = [Resource.broker(b) for b in self.sandbox.broker_ids] + [EVERY_BROKER]
        self.client.alter_configs(
            [
                ConfigChange(b, n, ConfigOp.DELETE)
                for b in brokers
                for n in (LEADER_RATE, FOLLOWER_RATE)
            ]
        )
        self.topics = []
        eventually(
            lambda: all(
                value.source.value == "default"
                for configs in self.throttles().values()
                for value in configs.values()
            )
        )
        self.client.close()


@pytest.fixture
def cluster(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    cluster = Cluster(sandbox, tmp_path)
    yield cluster
    cluster.clean()


STATIC_RATE = ConfigValue("900000000", ConfigSource.STATIC)


@pytest.fixture
def static_leader_rate(sandbox: Sandbox) -> Iterator[Resource]:
    """Broker 2 gets a rate in its properties file when the test restarts it, and loses it after."""
    node = sandbox.node(2)
    original = node.properties.read_text()
    node.properties.write_text(f"{original}{LEADER_RATE}={STATIC_RATE.value}\n")
    yield Resource.broker(node.id)
    node.properties.write_text(original)
    sandbox.stop(node.id)
    sandbox.start(node.id)
    client = KafkaClient(ConnectionSettings(sandbox.bootstrap))
    eventually(lambda: client.describe_cluster().broker_by_id[node.id].alive)
    client.close()


def events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_throttled_run_is_verified_by_kafkas_tool_and_restores_every_throttle(
    cluster: Cluster,
) -> None:
    cluster.topic("run-a", [(1, 2), (2, 1), (3, 2)], 8)
    cluster.topic("run-b", [(1, 2), (1, 2)], 2)
    cluster.set_throttle(EVERY_BROKER, LEADER_RATE, "80000000")
    cluster.set_throttle(Resource.broker(1), LEADER_RATE, "77000000")
    cluster.set_throttle(Resource.broker(3), FOLLOWER_RATE, "3000000")
    cluster.set_throttle(Resource.topic("run-a"), LEADER_LIST, "7:1,0:1")
    cluster.set_throttle(Resource.topic("run-b"), LEADER_LIST, "*")
    cluster.set_throttle(Resource.topic("run-b"), FOLLOWER_LIST, "*")
    before = cluster.throttles()
    plan = cluster.plan(
        {
            ("run-a", 0): (1, 4),
            ("run-a", 1): (2, 3),
            ("run-a", 2): (2, 3),
            ("run-b", 0): (1, 4),
        }
    )
    answer = cluster.follow("apply", plan, "--throttle", "5MB/s", "--yes", "--json")
    assert answer.returncode == ExitCode.DONE, answer.stderr
    run_events = events(answer.stdout)
    # What is only re-ordered comes first and needs no throttle.
    assert [e["event"] for e in run_events if e["event"] != "progress"][:5] == [
        *("started", "submitted", "moved", "throttled", "submitted"),
    ]
    assert {(e["topic"], e["partition"]) for e in run_events if e["event"] == "moved"} == {
        *(("run-a", 0), ("run-a", 1), ("run-a", 2), ("run-b", 0)),
    }
    assert run_events[-1]["outcome"] == "done"
    limited = {(r["broker"], r["side"]) for e in run_events for r in e.get("rates", [])}
    assert (4, "follower") in limited
    (*_, last) = [e for e in run_events if e["event"] == "progress"]
    assert last["moved_bytes"] == last["total_bytes"] > 18 * MB
    assert cluster.verify(plan).count("is completed.") == 4
    eventually(lambda: cluster.throttles() == before)
    eventually(lambda: cluster.replicas("run-a", 2) == (2, 3))


def test_brokers_that_need_a_lower_rate_for_a_deadline_get_a_lower_rate(cluster: Cluster) -> None:
    cluster.topic("run-k", [(1, 2)], 150)
    cluster.topic("run-l", [(2, 1)], 10)
    before = cluster.throttles()
    plan = cluster.plan({("run-k", 0): (3, 2), ("run-l", 0): (4, 1)})
    # So soon that whatever other runs have taught of this cluster, it needs much more than they.
    answer = cluster.follow("apply", plan, "--within", "10s", "--yes", "--json")
    assert answer.returncode == ExitCode.DONE, answer.stderr
    for side in ("broker 2 sends at 10 MB/s", "broker 4 receives at 10 MB/s"):
        assert side in answer.stderr
    run_events = events(answer.stdout)
    limited = [r for e in run_events for r in e.get("rates", []) if e["event"] == "throttled"]
    rates = {(r["broker"], r["side"]): r["rate_bytes_per_s"] for r in limited}
    assert rates[2, "leader"] == rates[4, "follower"] == 10 * MB
    assert rates[1, "leader"] == rates[3, "follower"] > 12 * MB
    assert cluster.verify(plan).count("is completed.") == 2
    eventually(lambda: cluster.throttles() == before)


def test_run_continues_when_the_process_that_follows_it_is_killed(cluster: Cluster) -> None:
    cluster.topic("run-d", [(2, 1)], LASTING_MEGABYTES)
    before = cluster.throttles()
    plan = cluster.plan({("run-d", 0): (2, 3)})
    follower = cluster.begin("apply", plan, "--throttle", "1MB/s", "--yes", "--json")
    assert follower.stdout is not None
    run = ""
    for line in follower.stdout:
        run = json.loads(line)["run"]
        if json.loads(line)["event"] == "submitted":
            break
    follower.send_signal(signal.SIGKILL)
    follower.wait()
    follower.stdout.close()
    assert cluster.show(run)["state"] == "running"
    # What has begun is followed to its end, and need not take as long as it was to.
    assert cluster.trimtab("runs", "throttle", run, "100MB/s").returncode == ExitCode.DONE
    assert cluster.follow("runs", "attach", run).returncode == ExitCode.DONE
    assert cluster.verify(plan).count("is completed.") == 1
    eventually(lambda: cluster.throttles() == before)


def test_run_whose_process_died_reports_moves_in_flight_and_throttles_left_set(
    cluster: Cluster,
) -> None:
    cluster.topic("run-e", [(1, 2)], LASTING_MEGABYTES)
    plan = cluster.plan({("run-e", 0): (1, 4)})
    applied = cluster.trimtab("apply", plan, "--throttle", "1MB/s", "--yes", "--json", "--detach")
    run = json.loads(applied.stdout)["run"]
    eventually(lambda: bool(cluster.client.fetch_reassignments()))
    os.kill(cluster.show(run)["pid"], signal.SIGKILL)
    eventually(lambda: cluster.show(run)["state"] == "died")
    shown = cluster.trimtab("runs", "show", run)
    assert shown.returncode == ExitCode.INCOMPLETE
    assert "in flight: run-e-0" in shown.stdout
    assert "follower throttle rate of broker 4: 1.0 MB/s" in shown.stdout
    assert cluster.follow("runs", "attach", run, "--json").returncode == ExitCode.INCOMPLETE
    listed = cluster.trimtab("throttles", "ls")
    assert f"set by run {run}, whose process has died" in listed.stdout
    cluster.client.cancel_reassignments([TopicPartition("run-e", 0)])


@pytest.mark.scenario
def test_broker_that_was_down_is_throttled_from_its_return_on(
    cluster: Cluster, static_leader_rate: Resource
) -> None:
    cluster.topic("run-g", [(1, 2, 3)], LASTING_MEGABYTES)
    before = cluster.throttles()
    before[static_leader_rate] = before[static_leader_rate] | {LEADER_RATE: STATIC_RATE}
    moving = TopicPartition("run-g", 0)
    cluster.sandbox.kill(2)
    try:
        eventually(lambda: 2 not in cluster.in_sync(moving))
        plan = cluster.plan({("run-g", 0): (1, 2, 4)})
        applied = cluster.trimtab(
            "apply", plan, "--throttle", "1MB/s", "--yes", "--json", "--detach", "--allow",
            "out-of-sync,rack-spread",
        )  # fmt: skip
        assert applied.returncode == ExitCode.DONE, applied.stderr
        run = json.loads(applied.stdout)["run"]
        eventually(lambda: moving in cluster.client.fetch_reassignments())
    finally:
        cluster.sandbox.start(2)

    def limited() -> bool:
        configs = cluster.throttles().get(Resource.broker(2), {})
        return LEADER_RATE in configs and configs[LEADER_RATE].value == "1000000"

    eventually(limited)
    assert moving in cluster.client.fetch_reassignments(), "while data still flows"
    assert cluster.trimtab("runs", "cancel", run, "--yes").returncode == ExitCode.DONE
    assert cluster.follow("runs", "attach", run).returncode == ExitCode.INCOMPLETE
    eventually(lambda: cluster.replicas("run-g", 0) == (1, 2, 3))
    eventually(lambda: cluster.throttles() == before)


@pytest.mark.parametrize("all_of_them", [pytest.param(True, marks=pytest.mark.scenario), False])
def test_topic_deleted_during_a_run_is_distinguished_from_one_that_remains(
    cluster: Cluster, all_of_them: bool
) -> None:
    cluster.topic("run-h", [(1, 2)], LASTING_MEGABYTES)
    cluster.topic("run-i", [(1, 2)], 4)
    before = cluster.throttles()
    targets = {("run-h", 0): (1, 4)} | ({} if all_of_them else {("run-i", 0): (1, 4)})
    plan = cluster.plan(targets)
    applied = cluster.trimtab("apply", plan, "--throttle", "1MB/s", "--yes", "--json", "--detach")
    assert applied.returncode == ExitCode.DONE, applied.stderr
    run = json.loads(applied.stdout)["run"]
    eventually(lambda: TopicPartition("run-h", 0) in cluster.client.fetch_reassignments())
    delete_topics(cluster.settings, ["run-h"])
    cluster.topics.remove("run-h")
    ended = cluster.follow("runs", "attach", run)
    assert ended.returncode == (ExitCode.INCOMPLETE if all_of_them else ExitCode.DONE)
    shown = cluster.show(run)
    assert shown["moves"][0]["why"] == "its topic was deleted"
    if all_of_them:
        assert shown["why"] == "nothing was left to move: every topic was deleted"
    del before[Resource.topic("run-h")]
    eventually(lambda: cluster.throttles() == before)


def test_second_run_is_refused_while_another_run_is_in_progress(cluster: Cluster) -> None:
    cluster.topic("run-f", [(1, 2)], LASTING_MEGABYTES)
    cluster.topic("run-j", [(1, 2)], 1)
    start = ("--throttle", "1MB/s", "--yes", "--json", "--detach")
    first = cluster.trimtab("apply", cluster.plan({("run-f", 0): (1, 4)}), *start)
    run = json.loads(first.stdout)["run"]
    second = cluster.trimtab("apply", cluster.plan({("run-j", 0): (1, 4)}), *start)
    assert second.returncode == ExitCode.REFUSED
    assert f"Run {run} is in progress" in second.stderr
    assert cluster.trimtab("runs", "cancel", run, "--yes").returncode == ExitCode.DONE


# -- what it is asked for, and what others do to it ------------------------------------------------


def rate(cluster: Cluster, broker: int, name: str) -> str:
    value = cluster.throttles().get(Resource.broker(broker), {}).get(name)
    return "" if value is None else value.value or ""


def begin_run(cluster: Cluster, targets: dict[tuple[str, int], tuple[int, ...]]) -> str:
    start = ("--throttle", "1MB/s", "--yes", "--json", "--detach", "--allow", "rack-spread")
    applied = cluster.trimtab("apply", cluster.plan(targets), *start)
    assert applied.returncode == ExitCode.DONE, applied.stderr
    run = str(json.loads(applied.stdout)["run"])
    eventually(lambda: bool(cluster.client.fetch_reassignments()))
    return run


def test_a_run_is_paused_resumed_sped_up_and_rolled_back(cluster: Cluster) -> None:
    cluster.topic("ask-a", [(2, 1)], LASTING_MEGABYTES)
    cluster.topic("ask-order", [(1, 2)], 1)
    before = cluster.throttles()
    run = begin_run(cluster, {("ask-a", 0): (3, 1), ("ask-order", 0): (2, 1)})
    assert cluster.trimtab("runs", "pause", run, "--floor").returncode == ExitCode.DONE
    eventually(lambda: rate(cluster, 3, FOLLOWER_RATE) == "1")
    assert rate(cluster, 2, LEADER_RATE) == "1000000"
    assert cluster.show(run)["state"] == "paused"
    assert cluster.trimtab("runs", "resume", run).returncode == ExitCode.DONE
    eventually(lambda: int(rate(cluster, 3, FOLLOWER_RATE) or 0) > 1)
    assert cluster.trimtab("runs", "throttle", run, "2MB/s").returncode == ExitCode.DONE
    # It rises bit by bit; how, the simulated cluster shows in no time.
    eventually(lambda: int(rate(cluster, 2, LEADER_RATE) or 0) > 1_000_000)
    assert cluster.show(run)["rate_bytes_per_s"] == 2_000_000
    assert cluster.trimtab("runs", "rollback", run, "--yes").returncode in (
        ExitCode.DONE,
        ExitCode.INCOMPLETE,
    )
    assert cluster.follow("runs", "attach", run).returncode == ExitCode.INCOMPLETE
    eventually(lambda: cluster.replicas("ask-a", 0) == (2, 1))
    eventually(lambda: cluster.replicas("ask-order", 0) == (1, 2))
    eventually(lambda: cluster.throttles() == before)
    assert not cluster.client.fetch_reassignments()


@pytest.mark.scenario
def test_throttles_deleted_during_a_run_are_restored(cluster: Cluster) -> None:
    cluster.topic("ask-b", [(1, 2)], LASTING_MEGABYTES)
    before = cluster.throttles()
    run = begin_run(cluster, {("ask-b", 0): (1, 3)})
    eventually(lambda: rate(cluster, 3, FOLLOWER_RATE) == "1000000")
    topic = Resource.topic("ask-b")
    changes = [  # the follower side still limits the copy: without both it is over in a moment
        ConfigChange(Resource.broker(1), LEADER_RATE, ConfigOp.DELETE),
        ConfigChange(topic, LEADER_LIST, ConfigOp.DELETE),
    ]
    assert set(cluster.client.alter_configs(changes).values()) == {None}
    eventually(lambda: any(event["kind"] == "disturbed" for event in cluster.show(run)["story"]))
    eventually(lambda: rate(cluster, 1, LEADER_RATE) == "1000000")
    eventually(
        lambda: (
            set((cluster.throttles()[topic][LEADER_LIST].value or "").split(","))
            == {"0:1", "0:2", "0:3"}
        )
    )
    assert cluster.trimtab("runs", "cancel", run, "--yes").returncode == ExitCode.DONE
    assert cluster.follow("runs", "attach", run).returncode == ExitCode.INCOMPLETE
    eventually(lambda: cluster.replicas("ask-b", 0) == (1, 2))
    eventually(lambda: cluster.throttles() == before)
