"""The Load screen: windows over time, the numbers beside them, and what they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from clusters import tp
from hands import rested
from maps import text
from pictures import LOAD, MB, SIZES, STATE, a_session, at, body, dashboard, drawn, pressed, spot

from core.load import windows
from core.load.load import Source
from core.load.snapshot.format import HORIZONS, RATES, STATISTICS, BrokerLoad, Counts, LoadSnapshot
from core.load.windows import LoadHistory
from tui.drawing.page import Page
from tui.drawing.spans import text_of
from tui.load.page import LoadView, Metric, load_lines
from tui.load.screen import broker_choices, hottest_partitions
from tui.load.statistics import broker_numbers, partition_numbers, row_of, snapshot_lines
from tui.session import Freshness, Session

START = at(9, 0)
COUNT = 24
BROKERS = tuple(
    BrokerLoad(b, b * 1e6, 2e6, b * 2e6, 1000 * MB, leaders=2, replicas=3) for b in range(1, 7)
)


def a_snapshot(**other: object) -> LoadSnapshot:
    """All partitions of STATE; the first row's 1 h average in is 3 MB/s, its quality half."""
    count = STATE.partition_count
    rates = {
        (horizon, rate, statistic): np.linspace(1e6, 9e6, count)
        for horizon in HORIZONS
        for rate in RATES
        for statistic in STATISTICS
    }
    rates["1h", "in_bytes_per_s", "avg"] = np.full(count, 3e6)
    snapshot = LoadSnapshot(
        cluster_id=STATE.cluster_id,
        snapshot_id="000000000042",
        source=Source.SPARK,
        published_at=at(11, 0),
        window_end=at(11, 0),
        topics=tuple(topic.name for topic in STATE.topics),
        topic_of=STATE.topic_of,
        partition=STATE.partition,
        rates=rates,
        size_bytes=np.arange(count, dtype=np.int64) * 1000 * MB,
        growth_bytes_per_s=np.full(count, 2e6),
        quality=np.array([1] + [0] * (count - 1), np.int8),
        method=np.zeros(count, np.int8),
        brokers=BROKERS,
        counts=Counts(1200, 1000, 100, 40, {"clock-ahead": 50, "no-key": 10}),
    )
    return replace(snapshot, **other)  # type: ignore[arg-type]


def a_history(values: list[float], sizes: list[float] | None = None) -> LoadHistory:
    return LoadHistory(
        START.timestamp() + np.arange(len(values)) * 300.0,
        {("in_bytes_per_s", "avg"): np.array(values, np.float64)},
        np.array(sizes if sizes is not None else [np.nan] * len(values), np.float64),
    )


def published(root: Path) -> None:
    """Write two hours of windows."""
    count = STATE.partition_count
    for i in range(COUNT):
        rates: Mapping[tuple[str, str], np.ndarray] = {  # type: ignore[type-arg]
            (rate, "avg"): np.full(count, (i + 1) * 1e6) for rate in RATES
        }
        windows.write_window(
            root,
            STATE.cluster_id,
            windows.Window(
                start=START + i * windows.LENGTH,
                topics=tuple(topic.name for topic in STATE.topics),
                topic_of=STATE.topic_of,
                partition=STATE.partition,
                leader=STATE.leader,
                rates=rates,
                size_bytes=np.full(count, 1000, np.int64),
                brokers=BROKERS,
            ),
        )


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A session whose snapshots are real files, of a day that is long past."""
    published(tmp_path)
    session = a_session()
    session.snapshots = str(tmp_path)
    session.snapshot = a_snapshot()
    session.load_age = Freshness(-42.0, 60)
    return session


# -- numbers and renderers -----------------------------------------------------------------------


def test_numbers_of_a_partition_are_those_published_in_the_snapshot() -> None:
    numbers = partition_numbers(a_snapshot(), tp("clicks-0"))
    assert numbers is not None
    assert numbers.rates["in_bytes_per_s", "avg"] == (1e6, 3e6, 1e6)
    assert (numbers.quality, numbers.growth_bytes_per_s) == ("half", 2e6)
    assert partition_numbers(a_snapshot(), tp("nowhere-0")) is None


@pytest.mark.parametrize("index", range(STATE.partition_count))
def test_rows_are_found_by_topic_and_partition_number(index: int) -> None:
    assert row_of(a_snapshot(), STATE.tp(index)) == index
    assert row_of(a_snapshot(), tp("orders-77")) is None


def test_numbers_of_a_broker_are_computed_from_its_windows() -> None:
    values = [1.0] * 12 + [2.0] * 11 + [5.0]
    numbers = broker_numbers(a_history(values, [100.0 + 600 * i for i in range(24)]))
    five, hour, day = numbers.rates["in_bytes_per_s", "avg"]
    assert five == 5.0
    assert hour == pytest.approx((2 * 11 + 5) / 12)
    assert day == pytest.approx(np.mean(values))
    assert numbers.rates["in_bytes_per_s", "max"] == (5.0, 5.0, 5.0)
    assert numbers.growth_bytes_per_s == pytest.approx(2.0)


def test_unknown_broker_numbers_stay_unknown_and_gaps_are_ignored() -> None:
    nothing = broker_numbers(a_history([]))
    assert all(np.isnan(v) for vs in nothing.rates.values() for v in vs)
    assert np.isnan(nothing.size_bytes)
    gaps = broker_numbers(a_history([float("nan"), 4.0]))
    assert gaps.rates["in_bytes_per_s", "avg"] == (4.0, 4.0, 4.0)


def test_counts_of_samples_are_shown_with_reasons() -> None:
    text = drawn(snapshot_lines(a_snapshot(), "30 s old", 90))
    for words in (
        "Spark, 30 s old",
        "1,200 read, 1,000 accepted, 100 duplicate, 40 late",
        "60 in quarantine",
        "50 clock-ahead",
    ):
        assert words in text


def test_brokers_and_their_hottest_partitions_can_be_chosen() -> None:
    choices = broker_choices(a_snapshot(), {1: "a"})
    assert [choice.of for choice in choices] == [1, 2, 3, 4, 5, 6]
    assert choices[0].notes == ("2 leaders", "3 replicas", "rack a")
    hottest = hottest_partitions(STATE, LOAD, 1)
    assert [choice.name for choice in hottest] == ["orders-0", "orders-1", "clicks-0"]


def a_view(**other: object) -> LoadView:
    history = a_history([float(i) * 1e6 for i in range(COUNT)])
    view = LoadView(
        choices=broker_choices(a_snapshot(), {}),
        cursor=2,
        heading="brokers",
        history=history,
        numbers=broker_numbers(history),
        snapshot=a_snapshot(),
        age="now",
        nothing="nothing",
        metric=Metric.BYTES,
        hours=6,
        plain=False,
    )
    return replace(view, **other)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "other",
    [
        {},
        {"history": None, "numbers": None},
        {"snapshot": None},
        {"metric": Metric.MESSAGES},
        {"history": a_history([])},
    ],
)
def test_load_page_never_exceeds_its_height(
    size: tuple[int, int], other: dict[str, object]
) -> None:
    lines = load_lines(a_view(**other), size[0], size[1] - 2)
    assert len(lines) <= size[1] - 2


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"snapshot": None}, "No load yet."),
        ({"history": None}, "reading"),
        ({"history": a_history([])}, "no windows yet"),
        ({"history": a_history([]), "in_store": True}, "an object store has snapshots"),
        ({"metric": Metric.MESSAGES}, "no messages are published for this"),
    ],
)
def test_missing_load_data_is_reported(other: dict[str, object], words: str) -> None:
    assert words in drawn(load_lines(a_view(**other), 120, 38))


@pytest.mark.parametrize(
    ("width", "words"),
    [(65, "2 leaders"), (75, "2 leaders  3 replicas"), (100, "2 leaders  3 replicas  rack a")],
)
def test_a_note_is_shown_whole_or_not_at_all(width: int, words: str) -> None:
    view = a_view(choices=broker_choices(a_snapshot(), {1: "a"}), cursor=0)
    row = next(line for line in map(text_of, load_lines(view, width, 24)) if "▸ broker 1" in line)
    row = row.partition("│")[0]
    assert row.rstrip().endswith(f"GB  {words}")


# -- the screen ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_load_screen_draws_the_windows_of_the_chosen_broker(
    size: tuple[int, int], session: Session
) -> None:
    async with dashboard(session, "load", size) as pilot:
        assert "broker 1   last 6 h" in body(pilot)
        await pressed(pilot, "l", "l")
        assert "broker 3   last 6 h" in body(pilot)
        assert "━ in" in body(pilot)
        assert "10:00" in body(pilot)
        assert "Spark, 30 s old" in body(pilot)
        await pilot.click(Page, offset=spot(pilot, "broker 4"))
        await rested(pilot)
        assert "broker 4   last 6 h" in body(pilot)


async def test_hottest_partitions_of_a_broker_can_be_opened_and_left(session: Session) -> None:
    async with dashboard(session, "load") as pilot:
        await pressed(pilot, "enter")
        assert "hottest partitions led by broker 1" in body(pilot)
        assert "orders-0   last 6 h" in body(pilot)
        await pressed(pilot, "m")
        assert "━ messages" in body(pilot)
        await pressed(pilot, "m", "s")
        assert "last 24 h" in body(pilot)
        assert "━ size" in body(pilot)
        await pressed(pilot, "escape")
        assert "broker 1   last 24 h" in body(pilot)


async def test_broker_that_leads_nothing_is_reported_and_its_page_can_be_left(
    session: Session,
) -> None:
    assert session.state is not None
    session.state = replace(session.state, leader=np.full_like(session.state.leader, 2))
    async with dashboard(session, "load") as pilot:
        await pressed(pilot, "enter")
        assert "Broker 1 leads no partition." in body(pilot)
        assert "No load yet" not in body(pilot)
        await pressed(pilot, "l", "m", "enter")
        assert "broker 1   last 6 h" in body(pilot)


async def test_missing_snapshot_is_reported_as_no_load_yet() -> None:
    async with dashboard(a_session(), "load") as pilot:
        assert "No load yet." in body(pilot)
        await pressed(pilot, "l", "enter", "m")


async def test_charts_are_drawn_with_ascii_only_in_ascii_mode(session: Session) -> None:
    async with dashboard(session, "load", ascii_only=True) as pilot:
        assert text(pilot).isascii()
