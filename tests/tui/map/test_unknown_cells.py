"""A fact that is withheld is drawn as unknown, never as 0, even, √ or safe; no screen is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from clusters import MB, cluster, load_of, tp

from core.cluster.access.hidden_topics import HiddenLogDir, HiddenTopics
from core.cluster.metadata import UNKNOWN
from core.cluster.state import ClusterState
from core.load.load import Load
from core.load.view.heat import Metric
from core.load.view.text import heat_text
from core.plan.plan import Move, Plan
from core.plan.planner.evenness import evenness
from tui.drawing.spans import text_of
from tui.map.drawing.columns import topic_columns
from tui.map.drawing.preview import plan_words
from tui.map.drawing.topic_rows import Brush, Grid, draw_topic, table_scale
from tui.map.drawing.totals import draw_totals, totals_lines
from tui.map.view import MapView, build_model
from tui.plan.assessment import assess_plan
from tui.plan.drawing.broker_tables import balance_spans
from tui.plan.drawing.page import PlanView, title_line
from tui.theming import Glyphs, choose_palette, load_palettes

HELD = {f"t-{n}": [1 + n % 3, 1 + (n + 1) % 3] for n in range(6)} | {"u-0": [1, 2], "u-1": [2, 3]}
DISK = (1000 * MB, 900 * MB)
Picture = tuple[ClusterState, Load]


def picture() -> Picture:
    """Return three brokers, of which all is known."""
    state = cluster(HELD, brokers=[1, 2, 3, 4], size_bytes=MB, disk_bytes=DISK)
    return state, load_of(state, 1000.0)


def without_sizes(of: Picture, rows: slice = slice(None)) -> Picture:
    state, load = of
    unknown = np.isin(state.partition_of_replica, np.arange(state.partition_count)[rows])
    return replace(state, size_bytes=np.where(unknown, UNKNOWN, state.size_bytes)), load


def without_rates(of: Picture, rows: slice = slice(None)) -> Picture:
    state, load = of
    given, read = load.in_bytes_per_s.copy(), load.out_bytes_per_s.copy()
    given[rows] = read[rows] = np.nan
    return state, replace(load, in_bytes_per_s=given, out_bytes_per_s=read)


def without_disks(of: Picture) -> Picture:
    state, load = of
    return state.with_brokers([replace(b, log_dirs=()) for b in state.brokers]), load


def with_hidden(of: Picture) -> Picture:
    logs = (HiddenLogDir(1, "/data", 1, 1, MB),)
    return replace(of[0], hidden=HiddenTopics(1, logs)), of[1]


def brush(*, few_colors: bool = False) -> Brush:
    return Brush(choose_palette(load_palettes(), None), Glyphs(), few_colors)


@pytest.mark.parametrize("few_colors", [False, True])
@pytest.mark.parametrize("width", [30, 40, 60, 120])
@pytest.mark.parametrize(
    ("metric", "withheld"), [(Metric.IN, without_rates), (Metric.SIZE, without_sizes)]
)
def test_cell_with_unknown_value_is_drawn_as_a_question_mark(
    metric: Metric, withheld: Callable[[Picture, slice], Picture], width: int, few_colors: bool
) -> None:
    last_topic = slice(6, 8)
    for of, brokers in (
        (withheld(picture(), last_topic), 0),
        (withheld(picture(), slice(None)), 3),
    ):
        model = build_model(*of, MapView(metric=metric, metric_chosen=True))
        columns = topic_columns(width, 4)
        grid = Grid(model, columns, brush(few_colors=few_colors))
        row = grid.brush.row(width)
        draw_topic(row, grid, 1, selected=False, scale=table_scale(model.heat))
        drawn = "".join(row.chars)
        held = 2 if metric is Metric.IN else 3
        assert drawn.count("?") == held + bool(columns.total), drawn
        assert "×" not in drawn
        lines = {line.title.split()[0]: line for line in totals_lines(model, 4)}
        if metric is Metric.IN:
            row = grid.brush.row(width)
            draw_totals(row, grid, lines["in"])
            assert "".join(row.chars).count("?") == (4 if brokers else 0)
        assert "0.0×" not in heat_text(*of, metric)
        assert "nan" not in heat_text(*of, metric)


MOVE = Plan.of([Move(tp("t-0"), (1, 2), (1, 4))])


@pytest.mark.parametrize(
    ("withheld", "balanced", "safe", "words"),
    [
        (lambda of: of, "balanced yes", "√ safe", "1 move, 1.0 MB"),
        (without_sizes, "balanced as far as known", "? safe", "1 move, of unknown size"),
        (lambda of: without_sizes(of, slice(7, 8)), "balanced as far as known", "√ safe", ""),
        (without_rates, "balanced as far as known", "? safe", "1 move, 1.0 MB"),
        (lambda of: without_rates(of, slice(7, 8)), "balanced as far as known", "√ safe", ""),
        (without_disks, "balanced yes", "? safe", "1 move, 1.0 MB"),
        (with_hidden, "balanced as far as known", "? safe", "1 move, 1.0 MB"),
    ],
)
def test_a_plan_is_balanced_and_safe_only_where_all_is_known(
    withheld: Callable[[Picture], Picture], balanced: str, safe: str, words: str
) -> None:
    state, load = withheld(picture())
    even = evenness(state, load, Plan(), band=2.0)
    assert text_of(balance_spans(even)) == balanced
    assessed = assess_plan(state, load, MOVE, 10 * MB)
    view = PlanView(state, MOVE, assessed, 10 * MB, cursor=0)
    title = text_of(title_line(view))
    assert safe in title
    assert " 0 B" not in title
    assert words in plan_words(state, MOVE)
