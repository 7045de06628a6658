"""The map: triage at a glance at every size, zoom, order, filter, troubles, ages."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from clusters import cluster, load_of, tp
from hands import rested
from maps import (
    NOW,
    SIZES,
    column_of,
    demo_picture,
    lines,
    look,
    map_of,
    picture_changed,
    press,
    publish_events,
    row_of,
    session,
    text,
    the_map,
)
from pictures import a_run
from textual.pilot import Pilot

from core.cluster.access.hidden_topics import HiddenLogDir, HiddenTopics
from core.cluster.state import ClusterState
from core.errors import UnreachableError
from core.load.load import Load
from core.load.view.heat import Metric
from core.run.reporting.views import RunStatus
from tui.feed.events import ClusterLost
from tui.map import estimates as map_ahead
from tui.map import view as map_view
from tui.map.drag_controller import MapCanvas
from tui.map.drawing.topic_rows import short_racks
from tui.map.view import Zoom
from tui.screen.header import HeaderLine
from tui.screen.text_filter import matches, type_filter
from tui.session import Freshness, PastMoment


def topics(pilot: Pilot[int]) -> list[str]:
    """Return the topics in their rows' order."""
    model = the_map(pilot).model
    return [model.heat.topics[row] for row in model.rows]


@pytest.mark.parametrize("size", SIZES)
async def test_first_screen_shows_cluster_troubles_rows_totals_and_keys(
    size: tuple[int, int],
) -> None:
    async with map_of(size) as pilot:
        shown = lines(pilot)
        assert shown[0].split()[0] == "prod-eu"
        assert "READ" in shown[0]
        assert "kafka now · load 30 s" in shown[0]
        assert "▲ b7 in 2." in shown[1]
        assert "payments.v2" in text(pilot)
        assert any(line.startswith("  in MB/s") for line in shown)
        assert "try " in text(pilot)
        assert shown[-1].startswith(" enter ")
        assert shown[-1].rstrip().endswith("? keys")
        assert all(len(line) == size[0] for line in shown)


@pytest.mark.parametrize("size", [(60, 20), (40, 12), (32, 8), (32, 6)])
async def test_smaller_screens_lose_the_panel_first_then_the_totals_and_never_the_rows(
    size: tuple[int, int],
) -> None:
    async with map_of(size) as pilot:
        shown = text(pilot)
        assert topics(pilot)[0][:8] in shown
        assert "try " not in shown
        assert ("leaders " in shown) == (size[1] >= 16)


@pytest.mark.parametrize("size", [(20, 5), (10, 3), (5, 2), (1, 1)])
async def test_a_tiny_terminal_gets_a_line_and_no_traceback(size: tuple[int, int]) -> None:
    async with map_of(size) as pilot:
        await press(pilot, "j", "l", "enter", "space", "escape", "question_mark", "escape")
        assert len(lines(pilot)) == size[1]
        if size == (20, 5):
            assert "b7 in" in text(pilot) or "out of sync" in text(pilot)
            assert "a map needs 32×6" in text(pilot)


@pytest.mark.parametrize(("brokers", "size"), [(30, (80, 24)), (30, (120, 40)), (60, (80, 24))])
async def test_many_brokers_get_narrow_columns_and_then_scroll(
    brokers: int, size: tuple[int, int]
) -> None:
    async with map_of(size, picture=demo_picture(brokers)) as pilot:
        screen = the_map(pilot)
        look(pilot, broker=brokers - 2)
        await press(pilot, "l", "l", "l")
        assert screen.model.broker == brokers
        assert column_of(pilot, brokers) < size[0]


async def test_before_load_is_known_the_map_shows_leaders() -> None:
    state, load = demo_picture()
    async with map_of(picture=(state, Load.unknown(state))) as pilot:
        assert "metric: leaders" in lines(pilot)[-1]
        assert "load waiting" in lines(pilot)[0]
        session(pilot).load_enabled = False
        await publish_events(pilot, picture_changed(state, Load.unknown(state)))
        assert "no load" in lines(pilot)[0], "none is collected"
        await publish_events(pilot, picture_changed(state, load))
        assert "metric: in" in lines(pilot)[-1]


# -- moving about ----------------------------------------------------------------------------------


async def test_keys_move_the_cursor_and_stop_at_the_edges() -> None:
    async with map_of() as pilot:
        model = the_map(pilot).model
        excess = model.heat.excess[list(model.rows)]
        assert (np.diff(excess) <= 0).all(), "rows come by what could be moved away"
        await press(pilot, "g", "k", "k")
        screen = the_map(pilot)
        assert screen.model.cursor == 0
        await press(pilot, "j", "j")
        assert screen.model.cursor == 2
        await press(pilot, "G")
        assert screen.model.cursor == len(screen.model.rows) - 1
        assert row_of(pilot, screen.model.topic)
        look(pilot, broker=2)
        await press(pilot, "h", "h", "h")
        assert screen.model.broker == 1
        await press(pilot, "l")
        assert screen.model.broker == 2


async def test_the_cursor_stays_on_its_topic_when_rows_change_places() -> None:
    state, load = demo_picture()
    async with map_of() as pilot:
        await press(pilot, "j", "j")
        topic = the_map(pilot).model.topic
        rates = load.in_bytes_per_s.copy()
        rates[state.partitions_of(topic).start : state.partitions_of(topic).stop] = 0.0
        await publish_events(pilot, picture_changed(state, replace(load, in_bytes_per_s=rates)))
        assert the_map(pilot).model.topic == topic
        assert the_map(pilot).model.cursor > 2


async def test_enter_zooms_to_partitions_then_to_one_partition_and_escape_zooms_out() -> None:
    async with map_of() as pilot:
        topic, state = the_map(pilot).model.topic, session(pilot).state
        await press(pilot, "enter")
        model = the_map(pilot).model
        assert model.view.zoom is Zoom.PARTITIONS
        assert model.broker == state.leader[model.partition_row] == 7, "the cell's hottest"
        assert topic in lines(pilot)[3]
        assert "●" in text(pilot)
        await press(pilot, "enter")
        assert the_map(pilot).model.view.zoom is Zoom.PARTITION
        assert "/var/lib/kafka" in text(pilot)
        await press(pilot, "escape", "escape")
        assert the_map(pilot).model.view.zoom is Zoom.TOPICS
        assert the_map(pilot).model.topic == topic


@pytest.mark.parametrize(
    ("name", "words", "passes"),
    [
        ("payments.v2", "", True),
        ("payments.v2", "PAY", True),
        ("payments.v2", "pay v2", True),
        ("payments.v2", "pay orders", False),
        ("payments.v2", "!pay", False),
        ("orders", "!pay", True),
        ("orders", "!", True),
        ("orders", "ord !ers", False),
    ],
)
def test_filter_matches_all_words_and_excludes_negated_words(
    name: str, words: str, passes: bool
) -> None:
    assert matches(name, words) is passes


async def test_slash_filters_while_typing_and_escape_clears_the_filter() -> None:
    async with map_of() as pilot:
        every = len(the_map(pilot).model.rows)
        await press(pilot, "slash", "p", "a", "y")
        assert topics(pilot) == ["payments.v2"]
        assert "/pay" in text(pilot)
        await press(pilot, "enter", "escape")
        assert len(the_map(pilot).model.rows) == every
        await press(pilot, "slash", "x", "x", "x")
        assert "no topic matches" in text(pilot)
        await press(pilot, "escape")
        assert len(the_map(pilot).model.rows) == every


async def test_suggestion_key_reports_a_filter_that_matches_nothing() -> None:
    async with map_of() as pilot:
        await press(pilot, "slash", "x", "x", "x", "enter", "a")
        assert "No topic matches: esc drops the filter." in lines(pilot)[-1]
        await press(pilot, "escape", "enter", "slash", "x", "x", "enter")
        assert "no partition matches" in text(pilot)
        await press(pilot, "a")
        assert "No partition matches: esc drops the filter." in lines(pilot)[-1]


async def test_suggestion_key_reports_unknown_load_instead_of_calling_it_even() -> None:
    state, _ = two_topics("a", "b")
    async with map_of(picture=(state, Load.unknown(state))) as pilot:
        look(pilot, metric=Metric.IN, metric_chosen=True)
        await press(pilot, "a")
        assert "is not known yet: nothing can be suggested." in lines(pilot)[-1]


async def test_estimate_not_yet_computed_is_shown_as_being_worked_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("compute_soon", "compute"):  # whoever waits for rest asks for it at once
        monkeypatch.setattr(map_ahead.MapEstimates, name, lambda self: None)
    async with map_of() as pilot:
        await press(pilot, "a")
        assert "is being worked out" in lines(pilot)[-1]


async def test_keys_cycle_through_metrics_and_sort_orders() -> None:
    async with map_of() as pilot:
        metrics = []
        for _ in Metric:
            await press(pilot, "m")
            metrics.append(the_map(pilot).model.view.metric)
        assert metrics == [*list(Metric)[1:], Metric.IN]
        await press(pilot, "s", "s", "s")
        assert topics(pilot) == sorted(topics(pilot))


@pytest.mark.parametrize("metric", list(Metric))
async def test_every_metric_draws_in_both_colourings(metric: Metric) -> None:
    async with map_of((80, 24)) as pilot:
        look(pilot, metric=metric, metric_chosen=True)
        await press(pilot, "c")
        assert metric.value in text(pilot)
        assert "little" not in text(pilot)
        await pilot.resize_terminal(120, 40)
        await rested(pilot)
        assert "little" in text(pilot)


# -- troubles --------------------------------------------------------------------------------------


async def test_click_on_a_trouble_goes_to_its_broker_and_metric() -> None:
    async with map_of() as pilot:
        await press(pilot, "m", "m", "h", "h", "h")
        x = lines(pilot)[1].index("b7 in")
        await pilot.click(MapCanvas, offset=(x, 0))
        await rested(pilot)
        assert the_map(pilot).model.broker == 7
        assert the_map(pilot).model.view.metric is Metric.IN


async def test_heat_map_is_computed_once_per_metric_and_totals_are_not_recomputed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reckoned of a million partitions, each of these is what a key takes longest for."""
    reckoned: list[str] = []

    def counted(module: ModuleType, name: str) -> None:
        real = getattr(module, name)

        def reckon(*args: Any) -> Any:
            reckoned.append(name)
            return real(*args)

        monkeypatch.setattr(module, name, reckon)

    counted(map_view, "heat_map")
    counted(map_view, "broker_totals")
    counted(map_ahead, "current_totals")
    async with map_of() as pilot:
        await press(pilot, "m", "m")
        hot = next(v for v in the_map(pilot).scene.verdicts if v.id == "skew-in")
        reckoned.clear()
        the_map(pilot).go_to(hot)
        await rested(pilot)
        assert the_map(pilot).model.view.metric is Metric.IN
        assert reckoned == ["heat_map"]
        await press(pilot, "j", "l", "s", "c", "enter", "j", "escape")
        assert reckoned == ["heat_map"]


async def test_n_key_goes_through_the_troubles_worst_first() -> None:
    async with map_of() as pilot:
        await press(pilot, "n")
        assert the_map(pilot).model.topic == "audit"
        await press(pilot, "n")
        assert the_map(pilot).model.broker == 7
        await press(pilot, "N")
        assert the_map(pilot).model.topic == "audit"


async def test_healthy_cluster_is_reported_as_such_only_as_far_as_known() -> None:
    state = cluster(
        {f"t-{n}": [1 + n % 3, 1 + (n + 1) % 3] for n in range(9)},
        racks={1: "a", 2: "b", 3: "c"},
        size_bytes=1,
    )
    load = load_of(state, 1e6)
    async with map_of(picture=(state, load)) as pilot:
        await press(pilot, "n")
        assert "Nothing is wrong here." in lines(pilot)[-1]
        assert "√ racks" in lines(pilot)[1]
        unsized = replace(state, size_bytes=np.full_like(state.size_bytes, -1))
        await publish_events(pilot, picture_changed(unsized, load))
        await press(pilot, "n")
        assert "Nothing is wrong as far as is known." in lines(pilot)[-1]
        hidden = HiddenTopics(1, (HiddenLogDir(1, "/d", 1, 1, 1),))
        await publish_events(pilot, picture_changed(replace(state, hidden=hidden), load))
        assert "▲ 1 topic hidden" in lines(pilot)[1]
        await press(pilot, "n")
        assert "Allow DESCRIBE on these topics." in text(pilot)


@pytest.mark.parametrize(
    ("racks", "room", "shown"),
    [
        (["a", "b", ""], 4, ["a", "b", ""]),
        (["eu-west-1a", "eu-west-1b", "eu-west-1c"], 4, ["1a", "1b", "1c"]),
        (["eu-west-1a", "eu-west-1b", ""], 2, ["1a", "1b", ""]),
        (["rack-east", "rack-west"], 4, ["east", "west"]),
        (["east-1", "west-1"], 4, ["east", "west"]),
        (["rack1", "rack10"], 4, ["ck1", "ck10"]),
        (["aaaaaaa1", "aaaaaaa2"], 3, ["aa1", "aa2"]),
        (["eu-west-1a", "eu-west-1a"], 4, ["1a", "1a"]),
        (["消費者a", "消費者b"], 2, ["?a", "?b"]),
    ],
)
def test_short_rack_names_distinguish_racks_in_little_room(
    racks: list[str], room: int, shown: list[str]
) -> None:
    assert short_racks(racks, room) == shown


async def test_cluster_without_topics_is_not_reported_as_filtered() -> None:
    state = cluster({}, racks={1: "a", 2: "b", 3: "c"})
    async with map_of(picture=(state, load_of(state, 0.0))) as pilot:
        assert "no topics yet" in text(pilot)
        assert "filter" not in "\n".join(lines(pilot)[:-1])
        await press(pilot, "slash", "x")
        assert "no topics yet" in text(pilot)


async def test_lost_cluster_leaves_the_map_stale_and_shows_the_reason() -> None:
    async with map_of() as pilot:
        await publish_events(
            pilot, ClusterLost(UnreachableError("No broker answers.", next="Wait."))
        )
        assert "No broker answers." in lines(pilot)[1]
        assert "payments.v2" in text(pilot)
        assert the_map(pilot).scene.stale
        await publish_events(pilot, picture_changed(*demo_picture()))
        assert "No broker answers." not in text(pilot)


async def test_age_of_load_turns_amber_when_older_than_twice_its_interval() -> None:
    state, load = demo_picture()
    async with map_of() as pilot:
        picture = replace(picture_changed(state, load), load_age=Freshness(NOW - 121, 60.0))
        await publish_events(pilot, picture)
        assert "load 2 min" in lines(pilot)[0]
        row = pilot.app.screen._compositor.render_strips()[0]
        words = [s for s in row if "load" in s.text]
        assert words[0].style.color.name == the_map(pilot).palette.colors["look"]


# -- drawing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run_state", "words"),
    [
        (RunStatus.RUNNING, "● 1 moving, 1 h 07 m"),
        (RunStatus.PAUSED, "▲ run paused, 1 in flight"),
        (RunStatus.DIED, "✗ run died, 1 in flight"),
        (RunStatus.DONE, "● 1 moving"),
    ],
)
async def test_paused_or_died_run_is_reported_while_moves_are_in_flight(
    run_state: RunStatus, words: str
) -> None:
    state = cluster(
        {"t-0": [1, 2, 3], "t-1": [1, 2, 3]}, adding={"t-0": [3]}, removing={"t-0": [2]}
    )
    async with map_of(picture=(state, Load.unknown(state))) as pilot:
        session(pilot).run = a_run(run_state)
        the_map(pilot).show(session(pilot))
        assert f" {words} " in lines(pilot)[1]
        left = cluster({"t-0": [1, 2, 3], "t-1": [1, 2, 3]})
        await publish_events(pilot, picture_changed(left, Load.unknown(left)))
        halted, _, count = words.partition(", ")
        assert (halted in lines(pilot)[1]) == ("in flight" in count)


async def test_moving_and_lagging_replicas_are_marked() -> None:
    state = cluster(
        {"t-0": [1, 2, 3, 4], "t-1": [2, 3, 1]},
        isr={"t-0": [1, 2], "t-1": [2, 3, 1]},
        adding={"t-0": [4]},
        removing={"t-0": [2]},
    )
    async with map_of(picture=(state, load_of(state, 1e6))) as pilot:
        await press(pilot, "enter")
        line = next(line for line in lines(pilot) if line[2:].startswith("p0 "))
        assert [c for c in line if c in "●○!▸◂"][-4:] == ["●", "◂", "!", "▸"]


def cells_of(pilot: Pilot[int], line: str) -> list[str]:
    """Return what stands in each broker's cell of a line."""
    columns = the_map(pilot).scene.columns
    starts = [columns.at(n) for n in range(columns.brokers)]
    return [line[at : at + columns.cell].strip(" []") for at in starts if at is not None]


async def test_legend_explains_the_marks_when_colours_are_few() -> None:
    async with map_of(few_colors=True, ascii_only=True) as pilot:
        assert "- below share   + above share" in lines(pilot)[-3]
        await press(pilot, "c")
        assert "little . 1 3 6 9  much" in lines(pilot)[-3]


@pytest.mark.parametrize("width", [48, 64, 70, 80, 120])
@pytest.mark.parametrize("metric", [Metric.SIZE, Metric.OUT, Metric.LEADERS])
async def test_cells_far_from_their_share_are_marked_when_colours_are_few(
    width: int, metric: Metric
) -> None:
    async with map_of((width, 24), few_colors=True, ascii_only=True) as pilot:
        look(pilot, metric=metric)
        screen = the_map(pilot)
        heat, totals = screen.model.heat, screen.model.totals
        shown = {heat.topics[row]: heat.level[row].tolist() for row in screen.model.rows[:10]}
        assert max(max(levels) for levels in shown.values()) >= 2
        for name, levels in shown.items():
            at = 1 + screen.places.rows_at + list(shown).index(name)
            for cell, level in zip(cells_of(pilot, lines(pilot)[at]), levels, strict=False):
                assert abs(level) < 2 or set(cell) & set("+-!><."), (name, cell)
        line = next(line for line in lines(pilot) if line[2:].startswith("leaders  "))
        off = totals.level(Metric.LEADERS).tolist()
        marks = [cell[:1] for cell in cells_of(pilot, line)]
        assert all(mark in ("+", "-") for mark, level in zip(marks, off, strict=False) if level > 1)


async def test_single_leader_is_shown_in_the_singular() -> None:
    state = cluster({"t-0": [1, 2]})
    async with map_of(picture=(state, load_of(state, 1e6))) as pilot:
        look(pilot, metric=Metric.LEADERS, broker=1)
        assert " 1 leader (fair share 0.5)" in text(pilot)


@pytest.mark.parametrize("width", [64, 70, 80, 120])
async def test_adjacent_numbers_never_touch(width: int) -> None:
    async with map_of((width, 40)) as pilot:
        look(pilot, metric=Metric.SIZE)
        screen = the_map(pilot)
        columns, rows = screen.scene.columns, screen.places.rows_at
        totals = [line for line in lines(pilot) if line[2:9] in ("leaders", "in MB/s", "disk % ")]
        assert len(totals) == 3
        for line in (*lines(pilot)[1 + rows : 1 + rows + screen.places.rows], *totals):
            for at in (columns.at(broker) for broker in range(1, columns.brokers)):
                assert not (line[at - 1].isdigit() and line[at].isdigit()), line


async def test_no_color_variable_disables_all_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with map_of() as pilot:
        styles = [s.style for strip in pilot.app.screen._compositor.render_strips() for s in strip]
        assert not any(style and style.color and style.color.triplet for style in styles)
        assert "payments.v2" in text(pilot)
        await press(pilot, ":")
        assert "payments.v2" in text(pilot), "the palette of commands leaves the rest in sight"


async def test_theme_key_switches_to_the_other_theme_and_back() -> None:
    async with map_of() as pilot:
        grounds = []
        for _ in range(3):
            strip = pilot.app.screen._compositor.render_strips()[10]
            grounds.append(next(iter(strip)).style.bgcolor.name)
            await press(pilot, "t")
        assert grounds[0] == grounds[2] != grounds[1]


async def test_cells_and_row_totals_share_one_unit_shown_in_the_header() -> None:
    state = cluster({"big-0": [1, 2], "big-1": [2, 1], "tiny-0": [1, 2]})
    load = load_of(state, {"big-0": 889e3, "big-1": 400e3, "tiny-0": 90.0})
    async with map_of(picture=(state, load)) as pilot:
        big, tiny = (lines(pilot)[1 + row_of(pilot, name)] for name in ("big", "tiny"))
        assert "in kB/s" in text(pilot)
        assert big.replace("[", " ").replace("]", " ").split()[1:5] == ["big", "2", "1289", "889"]
        assert tiny.split()[:4] == ["tiny", "1", "·", "·"]


@pytest.mark.parametrize(
    ("key", "character", "expected"),
    [
        ("x", "x", ("clix", True)),
        ("backspace", None, ("cl", True)),
        ("enter", None, ("cli", False)),
        ("escape", None, ("", False)),
        # Esc and s in one piece, as a slow line delivers them.
        ("alt+s", "s", ("", False)),
        ("f1", None, None),
    ],
)
def test_key_edits_confirms_or_clears_the_filter(
    key: str, character: str | None, expected: tuple[str, bool] | None
) -> None:
    assert type_filter("cli", key, character) == expected


async def test_update_arriving_while_the_dashboard_closes_is_not_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with map_of() as pilot:
        screen = the_map(pilot)
        await screen.query_one(HeaderLine).remove()
        with monkeypatch.context() as closing:
            closing.setattr(type(pilot.app), "is_running", property(lambda app: False))
            screen.show(screen.session)


# -- a topic that is not there (any more) ----------------------------------------------------------


def two_topics(*names: str) -> tuple[ClusterState, Load]:
    state = cluster({f"{name}-{n}": [1, 2, 3] for name in names for n in range(2)})
    return state, load_of(state, 1e6)


async def test_when_the_open_topic_is_deleted_all_topics_are_shown_and_keys_work() -> None:
    async with map_of(picture=two_topics("a", "b")) as pilot:
        look(pilot, topic="a", filter="p1", detail=True, marked=frozenset({tp("a-1")}))
        await publish_events(pilot, picture_changed(*two_topics("b", "c")))
        screen = the_map(pilot)
        assert topics(pilot) == ["b", "c"]
        assert screen.view.zoom is Zoom.TOPICS
        assert screen.view.marked == frozenset()
        look(pilot, cursor_topic="c")
        await press(pilot, "enter")
        assert screen.model.partitions.topic == "c"
        await press(pilot, "space")
        assert screen.drag is not None


async def test_filter_being_entered_is_cleared_when_its_topic_is_deleted() -> None:
    async with map_of(picture=two_topics("a", "b")) as pilot:
        look(pilot, topic="a")
        await press(pilot, "slash", "p", "1")
        await publish_events(pilot, picture_changed(*two_topics("b", "c")))
        assert "no topic matches" not in text(pilot)
        await press(pilot, "j", "enter")
        assert the_map(pilot).model.partitions.topic == "c"


def look_past_b(pilot: Pilot[int]) -> None:
    """Open topic b, and travel to a moment before there was one."""
    look(pilot, topic="b", cursor_partition=1)
    before, _ = two_topics("a")
    pilot.app.session.past_moment = PastMoment(before.fetched_at, before)  # type: ignore[attr-defined]
    pilot.app.draw()  # type: ignore[attr-defined]


async def test_past_moment_before_the_open_topic_existed_shows_all_topics() -> None:
    async with map_of(picture=two_topics("a", "b")) as pilot:
        look_past_b(pilot)
        assert the_map(pilot).model.topic == "a"
        await press(pilot, "enter")
        assert the_map(pilot).model.partitions.topic == "a"
        await press(pilot, "escape", "0")
        assert the_map(pilot).then is None
        await press(pilot, "enter")
        assert the_map(pilot).model.partitions is not None


async def test_topic_missing_at_a_past_moment_is_under_the_cursor_on_coming_back() -> None:
    async with map_of(picture=two_topics("a", "b")) as pilot:
        look_past_b(pilot)
        await press(pilot, "0")
        assert the_map(pilot).model.topic == "b"
        await press(pilot, "enter")
        assert the_map(pilot).model.partitions.topic == "b"
