"""A cluster that config.toml marks with a colour is known by it, in the header and in dialogs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hands import operated
from textual.color import Color

from core import paths
from core.cli.common.context import Target
from core.settings import COLORS
from tui.app import TrimtabApp
from tui.dialogs.base import ConfirmDialog, Question
from tui.screen.header import header_row
from tui.session import Session
from tui.theming import CLUSTER_COLORS, Glyphs, Palette, load_palettes


def palette() -> Palette:
    return load_palettes()["dark"]


def test_each_colour_allowed_in_the_config_file_can_be_drawn() -> None:
    assert tuple(CLUSTER_COLORS) == COLORS


@pytest.mark.parametrize("color", COLORS)
def test_cluster_name_is_readable_on_its_colour(color: str) -> None:
    style = palette().cluster(color)
    assert style.color is not None
    assert style.bgcolor is not None
    text, ground = (
        Color.from_rich_color(rich_color) for rich_color in (style.color, style.bgcolor)
    )
    assert contrast(text, ground) >= 4.5


def contrast(a: Color, b: Color) -> float:
    """Return the contrast of WCAG 2.1."""

    def luminance(color: Color) -> float:
        parts = [part / 255 for part in color.rgb]
        red, green, blue = (
            part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def drawn(color: str | None) -> str:
    row, _ = header_row(Session("prod-eu", cluster_color=color), "map", 80, palette(), Glyphs())
    return row.text


def test_cluster_colour_fills_the_name_in_the_header_without_moving_it() -> None:
    assert drawn("red") == drawn(None)
    row, _ = header_row(Session("prod-eu", cluster_color="red"), "map", 80, palette(), Glyphs())
    first, *_ = row.strip()
    assert first.text == " prod-eu "
    assert first.style is not None
    assert first.style.bgcolor == palette().cluster("red").bgcolor


async def test_cluster_colour_is_the_edge_of_a_dialog_without_taking_width() -> None:
    widths = set()
    for marked in ("blue", None):
        app = TrimtabApp(Session("prod-eu", cluster_color=marked))
        async with operated(app, (80, 24)) as pilot:
            app.push_screen(ConfirmDialog("Sure?", lambda _: Question(()), no="No", yes="Yes"))
            await pilot.pause()
            box = app.screen.query_one(".dialog")
            widths.add(box.content_size.width)
            if marked is not None:
                kind, color = box.styles.border_left
                assert (kind, color.hex.lower()) == ("thick", CLUSTER_COLORS[marked])
    assert len(widths) == 1


def test_cluster_colour_is_found_by_name_and_by_any_bootstrap_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    paths.config_dir().mkdir(parents=True)
    paths.config_file().write_text(
        '[clusters.prod]\nbootstrap = "b1:9092,b2:9092"\ncolor = "red"\n'
    )
    for words in ({"cluster_name": "prod"}, {"bootstrap": "b2:9092"}):
        options: dict[str, Any] = {"bootstrap": None, "cluster_name": None, **words}
        target = Target.choose(**options, command_config=None, from_file=None, snapshots=None)
        assert target.color == "red"
