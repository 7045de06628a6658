"""`trimtab probe`: asked for, told, recorded, ended, and its topic taken away."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from clients_help import Pings
from in_process import Hand, audited
from run_help import cluster

from core import paths
from core.cli.cluster.probe import _Table
from core.cluster.connect import Address
from core.cluster.probe.round_trip import ProbeLayout
from core.cluster.simulation.cluster import SimulatedCluster
from core.daemons.lease import hold_lease, lease_file
from core.watch.client_health import probe_loop as work
from core.watch.client_health.daemon import read_newest_report
from core.watch.client_health.health_detector import BrokerHealth, Health
from core.watch.client_health.latency import Latency
from core.watch.client_health.probe_loop import TOPIC
from core.watch.client_health.report import ProbeReport
from core.watch.timeline.events import Note
from core.watch.timeline.store import Timeline


class Stand:
    """The probe's clients and its follower, on the cluster that the hand types at."""

    def __init__(self, hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hand = hand
        self.then: list[tuple[float, object]] = []
        self.pings: Pings | None = None
        monkeypatch.setattr(work, "RoundTripProbe", self.open)
        monkeypatch.setattr(work, "LayoutFollower", lambda pings, changer, say: self)

    def open(self, address: Address, topic: str) -> Pings:
        assert topic == TOPIC
        self.pings = Pings(self.hand.cluster, self.hand.cluster.clock)
        self.pings.then = list(self.then)  # type: ignore[arg-type]
        return self.pings

    def layout(self) -> ProbeLayout:
        assert self.pings is not None
        return self.pings.fetch_layout()

    def close(self) -> None: ...


@pytest.fixture
def living() -> SimulatedCluster:
    return cluster({"orders": [(1, 2), (2, 3)]})


@pytest.fixture
def trimtab(hand: Hand, living: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> Hand:
    monkeypatch.setattr("core.cli.cluster.probe.start_recording", lambda *words: None)
    return hand.on(living)


@pytest.fixture
def stand(trimtab: Hand, monkeypatch: pytest.MonkeyPatch) -> Stand:
    return Stand(trimtab, monkeypatch)


def topics(living: SimulatedCluster) -> set[str]:
    return {topic.name for topic in living.describe_cluster().topics}


def test_probe_reports_once_a_second_and_leaves_no_report_behind(
    trimtab: Hand, stand: Stand, living: SimulatedCluster
) -> None:
    code, out, err = trimtab("probe", "--for", "20s", "--yes", "--json")
    assert code == 0, err
    lines = out.splitlines()
    assert len(lines) == pytest.approx(20, abs=1)
    assert "24 messages/s" in err
    assert stand.pings is not None
    assert stand.pings.closed
    cluster_id = living.describe_cluster().cluster_id
    assert read_newest_report(cluster_id, living.clock.now()) is None
    assert audited() == ["create topics", "answer"]


def test_broker_outage_is_noted_on_the_timeline_and_above_the_table(
    trimtab: Hand, stand: Stand, living: SimulatedCluster
) -> None:
    began = living.clock.monotonic()
    stand.then = [
        (began + 10, lambda: living.stop_broker(2)),
        (began + 16, lambda: living.start_broker(2)),
    ]
    code, out, _ = trimtab("probe", "--for", "30s", "--yes")
    assert code == 0
    assert "broker 2: transport failure" in out
    assert "produce p50" in out
    assert "down for" in out
    timeline = Timeline.read(paths.timeline_file(living.describe_cluster().cluster_id))
    notes = [event.after for event in timeline.events() if isinstance(event.after, Note)]
    timeline.close()
    assert [note.by for note in notes] == ["probe", "probe"]
    assert notes[0].text == "broker 2: transport failure"
    assert notes[1].text.startswith("broker 2: answers again after 6")


def test_short_probe_without_a_terminal_ends_with_the_table_of_brokers(
    trimtab: Hand, stand: Stand
) -> None:
    code, out, _ = trimtab("probe", "--for", "10s", "--yes")
    assert code == 0
    *_, table = out.split("broker ")
    header, *rows = table.splitlines()
    assert header.split()[0] == "produce"
    assert [row.split()[:2] for row in rows] == [[str(b), "2.0"] for b in (1, 2, 3, 4, 5, 6)]


def test_table_without_a_terminal_skips_reports_without_brokers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = datetime(2026, 7, 30, tzinfo=UTC)
    table = _Table(live=False)
    seen = BrokerHealth(7, Health.FINE, None, (), 0, Latency(1, 2.0, 3.0), Latency(1, 2.0, 3.0))
    for second in range(5):
        brokers = (seen,) if second > 1 else ()
        table.show(ProbeReport(at + timedelta(seconds=second), "c", brokers))
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["broker", "7"]
    table.end()
    table.end()
    assert len(capsys.readouterr().out.splitlines()) == 2, "the newest, once"


def test_table_is_redrawn_in_place_on_a_terminal(
    trimtab: Hand, stand: Stand, living: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.cli.cluster.probe._is_stdout_tty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: (60, 6))
    began = living.clock.monotonic()
    stand.then = [(began + 3, lambda: living.stop_broker(1))]
    code, out, _ = trimtab("probe", "--for", "12s", "--yes")
    assert code == 0
    assert "\x1b[4F\x1b[J" in out, "four lines: a head, two brokers, and how many more"
    assert "… and 4 more brokers" in out
    shown = [line.replace("\x1b[4F\x1b[J", "") for line in out.splitlines()]
    assert max(map(len, shown)) < 60
    assert out.count("broker 1: transport failure") == 1, "what is told stays above it"


def test_probe_topic_is_created_only_after_confirmation(
    trimtab: Hand, stand: Stand, living: SimulatedCluster
) -> None:
    trimtab.types("no")
    code, _, err = trimtab("probe", "--for", "5s")
    assert code == 2
    assert "nothing was made" in err
    assert "one on each broker" in err
    assert topics(living) == {"orders"}
    trimtab.types(living.describe_cluster().cluster_id[:8])
    assert trimtab("probe", "--for", "5s")[0] == 0
    assert TOPIC in topics(living)
    trimtab.types("no")
    assert trimtab("probe", "--for", "5s")[0] == 0, "it is there: nothing is made, nothing asked"


def test_probe_topic_is_deleted_only_after_confirmation(
    trimtab: Hand, stand: Stand, living: SimulatedCluster
) -> None:
    trimtab("probe", "--for", "2s", "--yes")
    trimtab.types("no")
    assert trimtab("probe", "--remove")[0] == 2
    assert TOPIC in topics(living)
    answer = trimtab.json("probe", "--remove", "--yes")
    assert answer == {"topic": TOPIC, "deleted": True}
    assert topics(living) == {"orders"}
    code, _, err = trimtab("probe", "--remove")
    assert code == 0
    assert "nothing to delete" in err


def test_second_probe_is_refused_while_another_one_holds_the_lease(
    trimtab: Hand, stand: Stand, living: SimulatedCluster
) -> None:
    trimtab("probe", "--for", "2s", "--yes")
    path = lease_file(paths.load_root(), living.describe_cluster().cluster_id, "probe")
    with hold_lease(path):
        for words in (("probe",), ("probe", "--remove", "--yes")):
            code, _, err = trimtab(*words)
            assert code == 3, err
    assert TOPIC in topics(living)


def test_deletion_of_the_topic_during_a_probe_is_reported(
    trimtab: Hand, stand: Stand, living: SimulatedCluster
) -> None:
    stand.then = [(living.clock.monotonic() + 5, lambda: living.delete_topics([TOPIC]))]
    code, _, err = trimtab("probe", "--yes")
    assert code == 5
    assert "somebody has deleted it" in err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("probe", "--for", "0s"), "must be positive"),
        (("probe", "--for", "soon"), "soon"),
        (("probe", "--remove", "--for", "5s"), "exclude each other"),
    ],
)
def test_invalid_probe_options_are_refused(
    trimtab: Hand, stand: Stand, words: tuple[str, ...], expected: str
) -> None:
    code, _, err = trimtab(*words)
    assert code == 2
    assert expected in err


def test_probe_of_a_simulated_cluster_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from core.cli.main import run

    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    assert run(lambda context: None, ["-b", "sim:/nowhere", "probe"]) == 2
    assert "no clients" in capsys.readouterr().err
