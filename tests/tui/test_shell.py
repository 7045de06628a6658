"""What carries the screens: ages, undo, canvas, clipboard, feed, themes, import hygiene, bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from clusters import cluster, load_of
from hands import operated, rested
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.style import Style
from textual.drivers import headless_driver
from textual.drivers.headless_driver import HeadlessDriver
from textual.events import Key
from textual.pilot import Pilot
from textual.worker import WorkerFailed

from core.cli.common.context import Target
from core.cluster.connect import Address
from core.errors import ExitCode, UnreachableError, UsageError
from core.load.load import Load, realign_load
from core.load.view.text import scale_of
from core.plan.plan import Plan
from tests.bench.terminal_bytes import BUDGETS, BenchFeed
from tui import terminal
from tui.app import FeedMessage, TrimtabApp
from tui.drawing.canvas import Row
from tui.feed.events import ClusterLost, Event, GroupsChanged, PictureChanged, Trouble
from tui.feed.feed import Feed
from tui.map.drawing.columns import partition_columns, topic_columns
from tui.session import Freshness, PlanHistory, Session, age_words, seconds_to_next_age
from tui.theming import choose_palette, load_palettes, parse_palette

ROOT = Path(__file__).resolve().parents[2]


def strips(app: TrimtabApp) -> list[str]:
    return [strip.text for strip in app.screen._compositor.render_strips()]


async def see(pilot: Pilot[int], *events: Event) -> None:
    for event in events:
        pilot.app.post_message(FeedMessage(event))
    await pilot.pause()


def one_broker() -> PictureChanged:
    state = cluster({"t-0": [1]})
    return PictureChanged(state, Load.unknown(state), None, None, None)


def printed(program: str) -> str:
    """Return what a program of its own says."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


# -- ages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "now"),
        (4.9, "now"),
        (5, "5 s"),
        (29, "10 s"),
        (59, "30 s"),
        (60, "1 min"),
        (3599, "30 min"),
        (3600, "1 h"),
        (100_000, "1 d"),
    ],
)
def test_ages_are_rounded_down_to_coarse_steps(seconds: float, words: str) -> None:
    assert age_words(seconds) == words


@given(st.floats(0, 1e6))
def test_an_age_reads_the_same_until_its_next_step(seconds: float) -> None:
    left = seconds_to_next_age(seconds)
    assert left > 0
    assert age_words(seconds + left * 0.99) == age_words(seconds)


def test_stale_is_older_than_twice_the_interval() -> None:
    age = Freshness(at=0.0, interval_seconds=10.0)
    assert not age.stale(20.0)
    assert age.stale(20.1)


def test_undo_and_redo_restore_plans_and_an_unchanged_plan_adds_no_step() -> None:
    state = cluster({"t-0": [1, 2]}, brokers=[1, 2, 3])
    first = Plan().with_move(state, state.tp(0), 1, 3)
    history = PlanHistory().edited(first)
    assert history.undone().plan == Plan()
    assert history.undone().redone() == history
    assert history.edited(first) is history
    assert PlanHistory().undone() == PlanHistory()


# -- drawing ---------------------------------------------------------------------------------------

STYLES = [Style(color="red"), Style(color="blue"), Style(bold=True)]
CELL = st.tuples(st.sampled_from("ab●"), st.sampled_from(STYLES))
CELLS = st.lists(CELL, min_size=30, max_size=30)


def row_from(cells: list[tuple[str, Style]]) -> Row:
    row = Row(len(cells), STYLES[0])
    for x, (char, style) in enumerate(cells):
        row.put(x, char, style)
    return row


@given(CELLS, CELLS)
def test_repainting_the_changed_spans_gives_the_new_line(
    old: list[tuple[str, Style]], new: list[tuple[str, Style]]
) -> None:
    before, after = row_from(old), row_from(new)
    for start, end in after.changed_spans(before):
        before.chars[start:end] = after.chars[start:end]
        before.styles[start:end] = after.styles[start:end]
    assert (before.chars, before.styles) == (after.chars, after.styles)


@given(CELLS)
def test_strip_has_the_text_and_styles_of_its_cells(cells: list[tuple[str, Style]]) -> None:
    row = row_from(cells)
    strip = row.strip()
    assert strip.text == row.text
    assert strip.cell_length == row.width
    styles = [segment.style for segment in strip for _ in segment.text]
    assert styles == row.styles


def test_wide_characters_do_not_shift_a_row() -> None:
    row = Row(10, Style())
    row.put(0, "東京x", Style())
    assert row.text == "??x       "


@settings(max_examples=200)
@given(st.integers(1, 300), st.integers(0, 200), st.integers(0, 60))
def test_columns_fit_their_width_and_every_broker_can_be_reached(
    width: int, brokers: int, name: int
) -> None:
    for columns in (topic_columns(width, brokers, name), partition_columns(width, brokers, name)):
        if width >= 32:
            assert columns.cells_end <= width
        for broker in range(brokers):
            scrolled = columns.showing(broker)
            at = scrolled.at(broker)
            assert at is not None
            assert scrolled.broker_at(at) == broker


@given(st.floats(1, 1e15))
def test_numbers_of_a_scale_have_at_most_three_digits(value: float) -> None:
    assert len(scale_of(value).text(value).replace(".", "")) <= 3


# -- terminal --------------------------------------------------------------------------------------


def test_the_clipboard_sequence_is_wrapped_for_tmux_and_screen() -> None:
    plain = terminal.clipboard_sequence("hi", {})
    assert plain == "\x1b]52;c;aGk=\x07"
    wrap_text = terminal.clipboard_sequence("hi", {"TMUX": "/tmp/x"})
    assert wrap_text == "\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\"
    parts = terminal.clipboard_sequence("x" * 200, {"TERM": "screen"})
    assert parts is not None
    assert all(len(part) < 768 for part in parts.split("\x1b\\"))
    assert terminal.clipboard_sequence("x" * 100_000, {}) is None


def test_start_without_a_terminal_fails_with_one_sentence_and_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tui", "-b", "localhost:1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.USAGE
    assert "needs a terminal" in done.stderr
    assert "Traceback" not in done.stderr


# -- feed ------------------------------------------------------------------------------------------


def test_load_stays_with_its_partitions_when_topics_come_and_go() -> None:
    old = cluster({"a-0": [1], "b-0": [1], "b-1": [1]})
    new = cluster({"b-0": [1], "b-1": [1], "b-2": [1], "c-0": [1]})
    load = load_of(old, {"a-0": 1.0, "b-0": 2.0, "b-1": 3.0})
    rates = realign_load(load, old, new).in_bytes_per_s
    assert rates[:2].tolist() == [2.0, 3.0]
    assert np.isnan(rates[2:]).all()
    assert realign_load(load, old, old) is load


def test_unreadable_document_is_reported_as_a_lost_cluster_with_a_usage_error(
    tmp_path: Path,
) -> None:
    path = tmp_path / "cluster.json"
    path.write_text("{", encoding="utf-8")
    feed = Feed(Target(from_file=path))
    feed._guard(feed._read_document)
    got: list[Event] = []
    feed.attach(got.append)
    (event,) = got
    assert isinstance(event, ClusterLost)
    assert isinstance(event.error, UsageError)


def test_groups_of_a_document_are_published_and_absent_groups_stay_unknown(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    least = '"brokers": [{"id": 1}], "partitions": []'
    for groups, group_ids in ((', "groups": [{"id": "etl", "lag": []}]', ["etl"]), ("", None)):
        path.write_text(f"{{{least}{groups}}}", encoding="utf-8")
        feed, got = Feed(Target(from_file=path)), list[Event]()
        feed.attach(got.append)
        feed._read_document()
        seen = [[g.id for g in event.groups] for event in got if isinstance(event, GroupsChanged)]
        assert seen == ([group_ids] if group_ids is not None else [])


async def test_cluster_unreachable_at_start_ends_the_dashboard_with_its_exit_code() -> None:
    lost = ClusterLost(UnreachableError("No broker answers."))
    app = TrimtabApp(Session("x"))
    async with operated(app) as pilot:
        await see(pilot, lost)
    assert app.failure is lost.error
    assert app.return_code == ExitCode.UNREACHABLE


async def test_trouble_is_reported_in_one_footer_line_with_its_next_step() -> None:
    app = TrimtabApp(Session("x"))
    error = UsageError("Java is missing.", next="trimtab doctor")
    async with operated(app, (120, 40)) as pilot:
        await see(pilot, one_broker(), Trouble(error))
        assert "Java is missing. trimtab doctor — E shows it" in strips(app)[-1]


async def test_failing_worker_thread_of_a_screen_fails_the_test() -> None:
    def work() -> None:
        raise RuntimeError("no such window")

    async def a_test() -> None:
        async with operated(TrimtabApp(Session("x"))) as pilot:
            pilot.app.run_worker(work, thread=True)
            await rested(pilot)

    with pytest.raises(WorkerFailed, match="no such window"):
        await a_test()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_trouble_hint_is_shown_until_the_full_error_has_been_viewed(
    size: tuple[int, int],
) -> None:
    app = TrimtabApp(Session("x"))
    error = UsageError("Spark stopped, " * 9, detail="It ran out of memory.", next="trimtab doctor")

    def shown() -> str:
        return "\n".join(strips(app))

    async with operated(app, size) as pilot:
        await see(pilot, one_broker())
        assert "E trouble" not in shown()
        await see(pilot, Trouble(error))
        assert "E shows it" in shown()
        await pilot.press("j")
        assert "E trouble" in shown()
        await pilot.press("E")
        await pilot.pause()
        assert "It ran out of memory." in shown()
        assert "trimtab doctor" in shown()
        await pilot.press("enter")
        await pilot.pause()
        assert "E trouble" not in shown()
        assert app.session.troubles == (error,)


@pytest.mark.parametrize(("length", "lines"), [(60, 1), (150, 2), (220, 3), (400, 3)])
async def test_a_message_covers_the_lines_that_it_needs_until_the_next_key(
    length: int, lines: int
) -> None:
    app = TrimtabApp(Session("x"))
    message = ("Broker 4 would take what it can. " * 20)[:length].strip()
    async with operated(app, (80, 24)) as pilot:
        await see(pilot, one_broker())
        before = strips(app)
        app.say(message, "look")
        await pilot.pause()
        below = strips(app)
        assert below[:-lines] == before[:-lines]
        text = " ".join(line.strip() for line in below[-lines:])
        assert (
            text == message if length < 400 else message.startswith(text[:-1]) and len(text) > 200
        )
        await pilot.press("j")
        await pilot.pause()
        assert strips(app)[-lines:] == before[-lines:]


def test_unreachable_address_is_reported_as_a_lost_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Feed(Target(address=Address("sim:/nowhere/at/all")), start_load=False)
    feed._guard(feed._read_cluster)
    got: list[Event] = []
    feed.attach(got.append)
    assert isinstance(got[-1], ClusterLost)


# -- themes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_stylesheet_uses_the_themes_background_from_the_first_paint(theme: str) -> None:
    app = TrimtabApp(Session("x"), theme=theme)
    ground = app.palette.colors["background"]
    assert app.stylesheet._variables["background"].lower() == ground.lower()


def test_dark_and_light_themes_load_with_every_colour() -> None:
    palettes = load_palettes()
    assert {"dark", "light"} <= palettes.keys()
    assert palettes["dark"].dark
    assert not palettes["light"].dark


@pytest.mark.parametrize("text", ["", "name = 1", "[colors]\nbackground = 'nope'", "x ="])
def test_invalid_theme_file_is_rejected_with_its_file_name(text: str) -> None:
    with pytest.raises(UsageError, match=r"mine\.toml"):
        parse_palette(text, "mine.toml")


def test_unknown_theme_error_lists_the_available_themes() -> None:
    with pytest.raises(UsageError) as caught:
        choose_palette(load_palettes(), "nope")
    assert "dark, light" in caught.value.next


# -- imports and bytes -----------------------------------------------------------------------------

AFTER_FIRST_PAINT = """
import asyncio, sys
from tui.app import TrimtabApp
from tui.session import Session
sys.path.insert(0, "tests")
from clusters import cluster, load_of
from tui.app import FeedMessage
from tui.feed.events import PictureChanged
from tui.map import estimates
estimates.REST_SECONDS = 600  # what is worked out once the cursor rests comes after the paint
state = cluster({"t-0": [1, 2]})
async def main():
    app = TrimtabApp(Session("x"))
    async with app.run_test(size=(120, 40)) as pilot:
        app.post_message(FeedMessage(PictureChanged(state, load_of(state, 1.0), None, None, None)))
        await pilot.pause()
asyncio.run(main())
bad = {"pyspark", "pandas", "pyarrow", "plotext", "confluent_kafka", "kafka", "numpy.ma"}
bad |= {"core.plan.estimate.estimate", "core.run.reporting.views", "core.watch.timeline.store"}
bad &= set(sys.modules)
print(sorted(bad))
"""


def test_first_paint_imports_no_slow_modules() -> None:
    assert printed(AFTER_FIRST_PAINT) == "[]"


AHEAD = """
import asyncio, sys, time
from tests.bench.terminal_bytes import BenchFeed
from tui.app import SCREEN_CLASSES, TrimtabApp
from tui.session import Session
sys.path.insert(0, "tests")
from clusters import cluster, load_of
from tui.app import FeedMessage
from tui.feed.events import PictureChanged
state = cluster({"t-0": [1, 2]})
wanted = {module for module, _ in SCREEN_CLASSES.values()}
async def main():
    app = TrimtabApp(Session("x"), feed=BenchFeed())
    async with app.run_test(size=(120, 40)) as pilot:
        print(len(wanted - set(sys.modules)))
        app.post_message(FeedMessage(PictureChanged(state, load_of(state, 1.0), None, None, None)))
        until = time.monotonic() + 30
        while wanted - set(sys.modules) and time.monotonic() < until:
            await pilot.pause()
        print(len(wanted - set(sys.modules)))
asyncio.run(main())
"""


def test_other_screens_are_imported_after_the_first_paint_without_a_key_press() -> None:
    assert printed(AHEAD).split() == ["5", "0"]


class Counting(HeadlessDriver):
    """A terminal that is not there, and counts what it would get."""

    received = 0

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        self.received += len(data.encode())


async def test_bytes_written_to_the_terminal_stay_within_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(headless_driver, "HeadlessDriver", Counting)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    now = 1000.0
    feed = BenchFeed(lambda: now)
    app = TrimtabApp(Session("bench"), feed=feed, monotonic=lambda: now)
    async with operated(app, (120, 40)) as pilot:
        counted = app._driver
        assert isinstance(counted, Counting)

        async def reaction() -> int:
            """Return the bytes of what is on its way, once all of it is drawn."""
            before = counted.received
            await rested(pilot)
            return counted.received - before

        await rested(pilot)
        assert counted.received > 10_000, "the first paint"
        traffic = dict.fromkeys(BUDGETS, 0)
        for _ in range(10):
            feed.publish()
            traffic["idle_10_s"] += await reaction()
            now += 1.0
            app.draw()  # as when an age reads differently
            traffic["idle_10_s"] += await reaction()
        feed.one_cell()
        feed.publish()
        traffic["one_cell"] = await reaction()
        await pilot.press(*"j" * 28)
        await reaction()
        app.post_message(Key("j", "j"))
        traffic["one_row_scrolled"] = await reaction()
    over = {case: traffic[case] for case, budget in BUDGETS.items() if traffic[case] > budget}
    assert over == {}
    assert traffic["one_cell"] > 0
    assert traffic["one_row_scrolled"] > 0
