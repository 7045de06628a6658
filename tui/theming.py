"""Themes: TOML files read into a Palette of styles, and the characters that marks are drawn with.

A theme is data: themes/*.toml come with the product, the user's own lie in the config folder.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from rich.color import Color
from rich.style import Style
from textual.theme import Theme

from core import paths
from core.errors import UsageError

COLORS = (
    "background",
    "panel",
    "stripe",
    "raised",
    "cursor",
    "text",
    "bright",
    "dim",
    "faint",
    "look",
    "act",
    "fine",
    "yours",
    "on_strong",
)


CLUSTER_COLORS = {
    "red": "#e0594e",
    "orange": "#e08a2e",
    "yellow": "#e3c84b",
    "green": "#4fa35f",
    "blue": "#4b86d8",
    "purple": "#9d6bd0",
}
"""The grounds of clusters' names, the same in each theme: a colour is known again."""


@dataclass(frozen=True)
class Palette:
    """The colours of one theme by role; with `plain` there are no colours, only weights."""

    name: str
    dark: bool
    colors: Mapping[str, str]
    below: tuple[str, ...]
    share: str
    above: tuple[str, ...]
    share_text: str
    mild_text: str
    size: tuple[str, ...]
    plain: bool = False

    def style(self, role: str = "text", on: str = "background", *, bold: bool = False) -> Style:
        """Return the style of a role upon another role's colour."""
        return _style(self, role, on, bold)

    def cluster(self, color: str) -> Style:
        """Return the style of the name of a cluster that is marked with a colour."""
        if self.plain:
            return Style(bold=True, reverse=True)
        ground = Color.parse(CLUSTER_COLORS[color])
        return Style(color=Color.parse("#0b0e13"), bgcolor=ground, bold=True)

    def heat(self, level: int) -> Style:
        """Return a cell's style for a deviation from fair share, -4 … 4."""
        return _heat_style(self, level)

    def amount(self, level: int) -> Style:
        """Return a cell's style for a size, 0 … 4."""
        return _amount_style(self, level)

    def __hash__(self) -> int:
        return hash((self.name, self.plain))

    def theme(self) -> Theme:
        """Return the Textual theme that dialogs and inputs use."""
        c = self.colors
        return Theme(
            name=self.name,
            primary=c["yours"],
            secondary=c["raised"],
            warning=c["look"],
            error=c["act"],
            success=c["fine"],
            accent=c["yours"],
            foreground=c["text"],
            background=c["background"],
            surface=c["panel"],
            panel=c["panel"],
            dark=self.dark,
            variables={role: c[role] for role in ("bright", "dim", "faint", "cursor", "raised")},
        )


@lru_cache(maxsize=2048)
def _style(palette: Palette, role: str, on: str, bold: bool) -> Style:
    if palette.plain:
        return Style(
            bold=bold or role in ("bright", "look", "act", "yours") or None,
            dim=role in ("dim", "faint") or None,
            reverse=on in ("raised", "look", "act", "yours", "cursor") or None,
        )
    return Style(
        color=Color.parse(palette.colors[role]),
        bgcolor=Color.parse(palette.colors[on]),
        bold=bold or None,
    )


@lru_cache(maxsize=64)
def _heat_style(palette: Palette, level: int) -> Style:
    if palette.plain:
        return Style(bold=abs(level) >= 3 or None, reverse=level >= 3 or None)
    bold = False
    if level == 0:
        color, ground = palette.share_text, palette.share
    else:
        steps = len(palette.above)
        step = min(abs(level), steps)
        ground = palette.above[step - 1] if level > 0 else palette.below[steps - step]
        if step == steps and level > 0:
            color, bold = palette.colors["on_strong"], True
        elif step == 1:
            color = palette.mild_text
        else:
            color = palette.colors["bright"]
            if not palette.dark and step == steps:
                color = palette.colors["on_strong"]
    return Style(color=Color.parse(color), bgcolor=Color.parse(ground), bold=bold or None)


@lru_cache(maxsize=64)
def _amount_style(palette: Palette, level: int) -> Style:
    if palette.plain:
        return Style(bold=level >= 3 or None, reverse=level >= 4 or None)
    light_ground = (level >= 3) == palette.dark
    color = "#0b0e13" if light_ground else "#ffffff"
    if level == 0:
        color = palette.share_text
    return Style(color=Color.parse(color), bgcolor=Color.parse(palette.size[level]))


@dataclass(frozen=True, slots=True)
class Glyphs:
    """What ASCII alone draws otherwise than by the table of `in_ascii`."""

    dot: str = "·"
    fine: str = "√"
    eighths: str = " ▏▎▍▌▋▊▉█"
    levels: str = "·░▒▓█"


ASCII = Glyphs(dot="-", fine="ok", eighths="     ####", levels=".1369")
UNICODE = Glyphs()


def load_palettes() -> dict[str, Palette]:
    """Return all themes by name, the user's over the product's; raises UsageError for a bad one."""
    ours = [entry for entry in files("themes").iterdir() if entry.name.endswith(".toml")]
    texts = {e.name: e.read_text("utf-8") for e in sorted(ours, key=lambda entry: entry.name)}
    for path in sorted(paths.user_themes_dir().glob("*.toml")):
        texts[str(path)] = path.read_text("utf-8", errors="replace")
    palettes = [parse_palette(text, where) for where, text in texts.items()]
    return {palette.name: palette for palette in palettes}


def choose_palette(palettes: Mapping[str, Palette], name: str | None) -> Palette:
    """Return the theme of that name, dark by default; raises UsageError naming those there are."""
    if (name or "dark") not in palettes:
        raise UsageError(
            f"No theme named {name!r}.", next=f"There are: {', '.join(sorted(palettes))}."
        )
    return palettes[name or "dark"]


def parse_palette(text: str, where: str) -> Palette:
    """Return the Palette that a TOML text holds; raises UsageError when it holds none."""
    try:
        document: dict[str, Any] = tomllib.loads(text)
        heat = document["heat"]
        palette = Palette(
            name=document["name"],
            dark=document["dark"],
            colors={role: document["colors"][role] for role in COLORS},
            below=tuple(heat["below"]),
            share=heat["share"],
            above=tuple(heat["above"]),
            share_text=heat["share_text"],
            mild_text=heat["mild_text"],
            size=tuple(heat["size"]),
        )
        if (len(palette.below), len(palette.above), len(palette.size)) != (4, 4, 5):
            raise ValueError("heat needs 4 colours below, 4 above and 5 sizes")
        levels = (*palette.below, palette.share, *palette.above, *palette.size)
        texts = (palette.share_text, palette.mild_text)
        for color in (*palette.colors.values(), *levels, *texts):
            Color.parse(color)
    except KeyError as error:
        raise UsageError(
            f"{where} lacks {error}.", next="Compare it with themes/dark.toml."
        ) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"{where} is not a theme: {error}.", next="Mend that line.") from error
    return palette
