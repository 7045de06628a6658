"""One thing the user can do, and the places where things can be done."""

from __future__ import annotations

from dataclasses import dataclass, replace

GLOBAL = "all"
MAP = "map"
CARRY = "carry"
"""Not a screen of its own: the map while a replica is being carried."""
PAST_MAP = "then"
"""The map, too: while it shows the cluster as it was."""
PLAN = "plan"
MOVES = "moves"
LOAD = "load"
TIMELINE = "timeline"
GROUPS = "groups"
SCREENS = {
    MAP: "Map",
    PLAN: "Plan",
    MOVES: "Moves",
    LOAD: "Load",
    TIMELINE: "Timeline",
    GROUPS: "Groups",
}
PLACES = {
    GLOBAL: "Everywhere",
    MAP: "Map",
    CARRY: "While carrying a replica",
    PAST_MAP: "While the map shows the past",
} | {name: title for name, title in SCREENS.items() if name != MAP}

KEY_NAMES = {
    "?": "question_mark",
    ":": "colon",
    "/": "slash",
    "%": "percent_sign",
    "+": "plus",
    "-": "minus",
    "esc": "escape",
    "[": "left_square_bracket",
    "]": "right_square_bracket",
    "{": "left_curly_bracket",
    "}": "right_curly_bracket",
    "pgdn": "pagedown",
    "pgup": "pageup",
}
"""Textual's names of keys, by how people write them."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing the user can do; `footer` orders, 0 keeps it out of the footer."""

    id: str
    name: str
    written_keys: str
    """Its keys as people write them, with blanks between."""
    help: str
    screens: tuple[str, ...] = ()
    """The places where it can be done; none stands for that of its part of the table."""
    needs_write: bool = False
    footer: int = 0
    footer_key: str = ""
    """How the footer writes the keys of an action that stands for several."""
    for_drills: bool = False
    """Whether nothing shows it but on a cluster that was made for drills."""
    call: str = ""
    """How the handler is called, when it has an argument; `{key}` stands for the key."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Return Textual's names of its keys."""
        return tuple(KEY_NAMES.get(key, key) for key in self.written_keys.split())

    @property
    def binding_id(self) -> str:
        return self.id if self.screens == (GLOBAL,) else f"{self.screens[0]}.{self.id}"


def at(place: str, *actions: Action) -> tuple[Action, ...]:
    """Return what can be done at a place."""
    return tuple(replace(action, screens=action.screens or (place,)) for action in actions)
