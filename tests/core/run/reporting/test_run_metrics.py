"""A run's metrics say what `runs show --json` says of it, from its start to its end."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from run_help import MB, Run, Start, ask, cluster, set_config
from waiting import eventually

from core.cluster.configs import FOLLOWER_RATE, Resource
from core.daemons.metrics import open_place
from core.run import service
from core.run.journal.journal import Journal
from core.run.journal.records import Kind
from core.run.reporting import metrics
from core.run.reporting.documents import run_document
from core.run.reporting.metrics import LABELS, RunMetrics, build_metric, run_metrics
from core.run.reporting.runs import read_journal
from core.run.reporting.views import MoveStatus, RunStatus
from core.run.steps import Poll
from core.units import UNLIMITED


class Samples:
    """Samples by name and by the labels that are not every run's."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self.families = tuple(families)
        self.of = {
            (
                sample.name.removeprefix("trimtab_run_"),
                *(value for name, value in sorted(sample.labels.items()) if name not in LABELS),
            ): sample.value
            for family in self.families
            for sample in family.samples
        }

    def __getitem__(self, key: str | tuple[str, ...]) -> float | None:
        return self.of.get((key,) if isinstance(key, str) else key)

    def states(self, name: str) -> dict[str, float]:
        return {key[1]: value for key, value in self.of.items() if key[0] == name}


def read(run: Run) -> tuple[Samples, dict[str, Any]]:
    run.journal.write(run.client.now, Kind.NOTIFIED, {"event": "x", "by": "x", "why": ""})
    reading = read_journal(run.client.describe_cluster().cluster_id, run.path.stem)
    return Samples(run_metrics([reading])), run_document(reading)


def in_flight(start: Start, **more: Any) -> Run:
    client = cluster({"t": [(1, 2)] * 3}, size_bytes=40 * MB)
    set_config(client, Resource.broker(4), FOLLOWER_RATE, str(2 * MB))
    run = start(client, {("t", 0): (3, 2), ("t", 1): (4, 2), ("t", 2): (3, 2)}, **more)
    run.journal.write(client.now, Kind.STARTED, {"pid": 2**30, "pid_started": "once"})
    began = client.now
    run.until(lambda step: isinstance(step, Poll) and client.now - began > timedelta(seconds=15))
    return run


@pytest.fixture(autouse=True)
def _lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.daemons.process.Process.alive", property(lambda self: True))


def test_metrics_agree_with_the_run_document_during_a_run(start: Start) -> None:
    scrape, document = read(in_flight(start))
    assert document["state"] == "running"
    assert 0 < document["moved_bytes"] < document["total_bytes"]
    assert scrape["moved_bytes"] == document["moved_bytes"]
    assert scrape["left_bytes"] == document["total_bytes"] - document["moved_bytes"]
    for name, key in (
        ("left_seconds", "left_seconds"),
        ("elapsed_seconds", "seconds"),
        ("bytes_per_second", "bytes_per_s"),
    ):
        assert scrape[name] == pytest.approx(document[key], abs=0.06)
    assert scrape["requested_bytes_per_second"] == document["rate_bytes_per_s"] == 5 * MB
    assert scrape["estimated_seconds"] is None, "nobody has estimated it"
    assert scrape["stuck"] == 0
    assert scrape["idle_seconds"] is not None
    assert scrape["info", document["cluster_id"]] == 1
    assert scrape.states("state") == {
        status.value: float(status.value == "running") for status in RunStatus
    }
    of = [move["state"] for move in document["moves"]]
    assert scrape.states("moves") == {status.value: of.count(status.value) for status in MoveStatus}
    sides = {"sends": "leader", "receives": "follower"}
    for row in document["brokers"]:
        broker, side = str(row["broker"]), sides[row["side"]]
        rate = scrape["broker_bytes_per_second", broker, side]
        assert rate == pytest.approx(row["bytes_per_s"], abs=0.06)


def test_throttle_metrics_are_distinguished_by_their_owner(start: Start) -> None:
    scrape, _ = read(in_flight(start))
    rates = {key[1:]: value for key, value in scrape.of.items() if key[0].startswith("throttle")}
    assert rates["3", "run", "follower"] == 5 * MB
    assert rates["4", "other", "follower"] == 2 * MB, "a lower one, which it keeps to"
    assert {key[1] for key in rates} == {"run", "other"}


def test_metrics_of_an_ended_run_have_no_rates_and_no_time_left(start: Start) -> None:
    run = in_flight(start)
    run.to_the_end()
    scrape, document = read(run)
    assert document["state"] == "done"
    assert (scrape["left_bytes"], scrape["left_seconds"], scrape["stuck"]) == (0, None, 0)
    assert scrape["bytes_per_second"] is scrape["idle_seconds"] is None
    assert scrape["moves", "done"] == 3
    assert not scrape.states("throttle_bytes_per_second")


def test_waiting_run_is_reported_as_stalled_in_metrics(start: Start) -> None:
    run = in_flight(start)
    run.runner._recorder.note_waiting("No broker answers")
    scrape, document = read(run)
    assert document["state"] == "waiting"
    assert scrape["stuck"] == 1


def test_requested_pause_is_not_reported_as_stalled_in_metrics(start: Start) -> None:
    run = in_flight(start)
    ask(run, "pause")
    run.until(lambda _: run.state.paused)
    scrape, document = read(run)
    assert document["state"] == "paused"
    assert scrape["stuck"] == 0


def test_unknown_value_has_no_metric_sample(start: Start) -> None:
    run = start(rate=UNLIMITED)
    run.journal.write(run.client.now, Kind.STARTED, {"pid": 2**30, "pid_started": "once"})
    scrape, _ = read(run)
    for name in ("left_seconds", "bytes_per_second", "idle_seconds", "requested_bytes_per_second"):
        assert scrape[name] is None, name
    assert not [value for value in scrape.of.values() if value != value]


def test_several_runs_are_samples_of_the_same_metrics(start: Start) -> None:
    runs = [in_flight(start), in_flight(start)]
    readings = [
        read_journal(run.client.describe_cluster().cluster_id, run.path.stem) for run in runs
    ]
    families = tuple(run_metrics(readings))
    assert len({family.name for family in families}) == len(families)
    moved = next(family for family in families if family.name == "trimtab_run_moved_bytes")
    assert [sample.labels["run"] for sample in moved.samples] == [run.path.stem for run in runs]


def test_metrics_file_is_published_until_the_run_has_ended(start: Start, tmp_path: Path) -> None:
    """The file has how it ended: nobody would scrape it in time."""
    run = in_flight(start)
    path = tmp_path / "run.prom"
    publishing = RunMetrics(
        open_place(str(path)), run.client.describe_cluster().cluster_id, run.path.stem
    )
    eventually(path.exists)
    run.to_the_end()
    publishing.end()
    scrape = Samples(text_string_to_metric_families(path.read_text()))
    assert scrape.states("state")["done"] == 1
    assert scrape["trimtab_build_info", next(iter(build_metric().samples)).labels["version"]] == 1


def test_unwritable_metrics_file_is_journalled_and_does_not_stop_the_run(
    start: Start, tmp_path: Path
) -> None:
    run = start(metrics=str(tmp_path / "gone" / "run.prom"))
    with Journal.open(run.path) as journal:
        assert service._start_metrics(journal) is None
    (note,) = run.payloads(Kind.NOTIFIED)
    assert (note["by"], "gone" in note["why"]) == ("metrics", True)
    assert run.view().events[-1].text.startswith("no metrics: Metrics cannot be written to ")


def test_journal_that_takes_long_to_publish_is_published_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    clock = iter(range(0, 1000, 7))

    class Event:
        def wait(self, seconds: float) -> bool:
            waits.append(seconds)
            return len(waits) > 2

    monkeypatch.setattr(metrics.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(RunMetrics, "_publish", lambda self: None)
    publishing = object.__new__(RunMetrics)
    publishing._ended = Event()  # type: ignore[assignment]
    publishing._publish_on()
    assert waits == [0, 7 * metrics.DUTY, 7 * metrics.DUTY]
