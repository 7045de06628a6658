"""What clients feel on the map: the switch, the line, the sentence, the strip; and its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event as Flag

import pytest
from hands import rested
from maps import demo_picture, lines, map_of, press, publish_events, text
from simulated import small_spec
from textual.pilot import Pilot

from core import paths
from core.cluster.connect import Address
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import TrimtabError
from core.load import load_paths as layout
from core.watch.client_health import daemon as background
from core.watch.client_health.health_detector import BrokerHealth, Health
from core.watch.client_health.latency import Latency
from core.watch.client_health.report import ProbeReport, report_to_json
from tui.app import TrimtabApp
from tui.dialogs.base import ConfirmDialog
from tui.feed.events import ClientsChanged, Event
from tui.feed.watchers import watch_clients
from tui.map.drawing.clients import client_number, client_verdicts, client_words

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOTHING = Latency(0, None, None)


def fine(broker: int, p99: float = 8.0) -> BrokerHealth:
    return BrokerHealth(
        broker, Health.FINE, None, (), 0, Latency(120, 2.1, p99), Latency(120, 2.4, p99 + 1)
    )


FAILING = BrokerHealth(7, Health.FAILING, 4.1, ("transport failure",), 9, NOTHING, NOTHING)
SLOW = BrokerHealth(
    2, Health.SLOW, 12.0, (), 0, Latency(120, 30.0, 310.0), Latency(120, 31.0, 320.0)
)


def report(*troubled: BrokerHealth) -> ProbeReport:
    state, _ = demo_picture()
    known = {seen.broker: seen for seen in troubled}
    brokers = tuple(known.get(b.id) or fine(b.id) for b in state.brokers)
    return ProbeReport(NOON, "c", brokers)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_client_p99_of_each_broker_is_shown_while_a_probe_runs(size: tuple[int, int]) -> None:
    async with map_of(size) as pilot:
        before = text(pilot)
        await publish_events(pilot, ClientsChanged(report()))
        assert "clients p99" in text(pilot)
        narrow = size[0] < 100
        assert ("produce 8.0 ms" if narrow else "produce 2.1 ms/8.0 ms") in text(pilot)
        assert ("fetch 9.0 ms" if narrow else "fetch 2.4 ms/9.0 ms") in text(pilot)
        await publish_events(pilot, ClientsChanged(None))
        assert text(pilot) == before


async def test_broker_with_failing_or_slow_clients_is_shown_at_first_glance() -> None:
    async with map_of((200, 60)) as pilot:
        await publish_events(pilot, ClientsChanged(report(FAILING, SLOW)))
        assert "✗ clients of b7: transport failure" in lines(pilot)[1]
        assert "▲ b2 slow for clients: p99 320 ms" in lines(pilot)[1]
        shown = next(line for line in lines(pilot) if "clients p99 ms" in line)
        assert "✗" in shown
        assert "320" in shown


async def test_stepping_to_a_verdict_selects_its_broker_and_shows_its_latencies() -> None:
    async with map_of((120, 40)) as pilot:
        await publish_events(pilot, ClientsChanged(report(SLOW)))
        for _ in range(6):
            await press(pilot, "n")
            if "on broker 2 " in text(pilot):
                break
        assert "produce 30 ms/310 ms" in text(pilot)


async def test_client_verdict_is_also_shown_on_the_partitions_view() -> None:
    async with map_of((120, 40)) as pilot:
        await publish_events(pilot, ClientsChanged(report(FAILING)))
        await press(pilot, "enter")
        assert "clients" in text(pilot)
        assert "b7 fails clients" in lines(pilot)[1]


def test_dead_broker_is_not_reported_twice() -> None:
    cluster = SimulatedCluster(small_spec({"t": [(7, 2)]}, brokers=(2, 7)), seed=1)
    assert [v.id for v in client_verdicts(report(FAILING), cluster.describe_cluster())] == [
        "clients-7"
    ]
    cluster.stop_broker(7)
    assert client_verdicts(report(FAILING), cluster.describe_cluster()) == ()


@pytest.mark.parametrize(
    ("health", "words", "number"),
    [
        (fine(1), "clients p50/p99  produce 2.1 ms/8.0 ms  fetch 2.4 ms/9.0 ms  ", 9.0),
        (FAILING, "clients: transport failure for 4.1 s", None),
        (
            BrokerHealth(3, Health.WAITING, None, (), 0, NOTHING, NOTHING),
            "clients: nothing heard yet",
            None,
        ),
    ],
)
def test_client_health_of_a_broker_is_shown_in_words_and_as_a_number(
    health: BrokerHealth, words: str, number: float | None
) -> None:
    assert "".join(word.text for word in client_words(health)) == words
    assert client_number(health)[0] == number


# -- the switch ------------------------------------------------------------------------------------


class Begun:
    """A probe that was begun, without a process."""

    def __init__(self, trouble: Exception | None = None) -> None:
        self.trouble, self.closed = trouble, False

    def wait(self) -> None:
        if self.trouble is not None:
            raise self.trouble

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Begun:
    probe = Begun()
    monkeypatch.setattr(background, "start_probe", lambda address, cluster_id: probe)
    monkeypatch.setattr(background, "stop_probe", lambda cluster_id: None)
    return probe


def real(pilot: Pilot[int]) -> TrimtabApp:
    app = pilot.app
    assert isinstance(app, TrimtabApp)
    app.session.address = Address("kafka-1:9092")
    return app


async def test_probe_starts_only_after_its_effect_and_cost_are_shown_and_confirmed(
    begun: Begun,
) -> None:
    async with map_of((120, 40), writable=True) as pilot:
        app = real(pilot)
        await press(pilot, "W")
        assert isinstance(app.screen, ConfirmDialog)
        shown = text(pilot)
        assert "48 messages/s" in shown
        assert "__trimtab_probe" in shown
        assert "trimtab probe --remove" in shown
        await press(pilot, "enter")
        assert app.probe_switch.begun is None, "the way back has the focus"
        await press(pilot, "W", "right", "enter")
        await rested(pilot)
        assert app.probe_switch.begun is begun
    assert begun.closed, "it ends with the dashboard"


async def test_probe_is_stopped_by_the_key_that_started_it(begun: Begun) -> None:
    async with map_of((120, 40), writable=True) as pilot:
        app = real(pilot)
        await press(pilot, "W", "right", "enter")
        await rested(pilot)
        await publish_events(pilot, ClientsChanged(report()))
        await press(pilot, "W")
        await rested(pilot)
        assert begun.closed
        assert app.session.clients is None
        assert "The probe has ended" in lines(pilot)[-1]


async def test_failure_that_ends_the_probe_at_once_is_reported(begun: Begun) -> None:
    begun.trouble = TrimtabError("The probe may not write to its topic.")
    async with map_of((120, 40), writable=True) as pilot:
        app = real(pilot)
        await press(pilot, "W", "right", "enter")
        await rested(pilot)
        assert app.probe_switch.begun is None
        assert "The probe may not write to its topic." in lines(pilot)[-1]


async def test_bug_in_the_background_probe_is_reported_and_logged_and_blocks_nothing(
    begun: Begun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "log_dir", lambda: tmp_path)
    begun.trouble = ZeroDivisionError("a bug")
    async with map_of((120, 40), writable=True) as pilot:
        app = real(pilot)
        await press(pilot, "W", "right", "enter")
        await rested(pilot)
        assert "This is a bug in trimtab" in lines(pilot)[-1]
        assert "ZeroDivisionError: a bug" in (tmp_path / "bugs.log").read_text()
        begun.trouble = None
        await press(pilot, "W", "right", "enter")
        await rested(pilot)
        assert app.probe_switch.begun is begun


async def test_probe_is_refused_in_read_only_mode(begun: Begun) -> None:
    async with map_of((120, 40)) as pilot:
        app = real(pilot)
        await press(pilot, "W")
        assert "Read-only: start with --write." in lines(pilot)[-1]
        assert not isinstance(app.screen, ConfirmDialog)


async def test_a_simulated_cluster_is_not_probed(begun: Begun) -> None:
    async with map_of((120, 40), writable=True) as pilot:
        real(pilot).session.address = Address("sim:/nowhere")
        await press(pilot, "W")
        assert "no clients" in lines(pilot)[-1]


# -- what is read of a probe -----------------------------------------------------------------------


def test_only_a_recent_and_readable_probe_report_is_read() -> None:
    where = layout.clients(paths.load_root(), "c")
    assert background.read_newest_report("c", NOON) is None
    where.parent.mkdir(parents=True)
    where.write_text(json.dumps(report_to_json(report(FAILING))))
    assert background.read_newest_report("c", NOON + timedelta(seconds=5)) == report(FAILING)
    assert background.read_newest_report("c", NOON + timedelta(seconds=11)) is None
    where.write_text("{")
    assert background.read_newest_report("c", NOON) is None


class Looked(Flag):
    """A flag that lets so many looks pass, and changes what is there before each next one."""

    def __init__(self, *changes: Callable[[], object]) -> None:
        super().__init__()
        self.changes = list(changes)

    def wait(self, timeout: float | None = None) -> bool:
        if self.changes:
            self.changes.pop(0)()
        else:
            self.set()
        return True


def test_feed_publishes_changed_probe_reports_and_the_end_of_the_probe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there: list[ProbeReport | None] = [None]
    monkeypatch.setattr(background, "read_newest_report", lambda cluster_id, now: there[0])
    seen: list[Event] = []

    def becomes(now: ProbeReport | None) -> Callable[[], object]:
        return lambda: there.__setitem__(0, now)

    stopped = Looked(becomes(report()), becomes(report()), becomes(report(SLOW)), becomes(None))
    watch_clients("c", seen.append, stopped)
    assert seen == [ClientsChanged(report()), ClientsChanged(report(SLOW)), ClientsChanged(None)]
