"""One thing the user can do, and the places where things can be done."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Action:
    """One thing the user can do. `keys` are Textual's names; `footer` orders, 0 keeps it out."""

    id: str
    name: str
    keys: tuple[str, ...]
    help: str
    screens: tuple[str, ...] = (GLOBAL,)
    needs_write: bool = False
    footer: int = 0
    footer_key: str = ""
    """How the footer writes the keys of an action that stands for several."""
    for_drills: bool = False
    """Whether nothing shows it but on a cluster that was made for drills."""
    call: str = ""
    """How the handler is called, when it has an argument; `{key}` stands for the key."""

    @property
    def binding_id(self) -> str:
        return self.id if self.screens == (GLOBAL,) else f"{self.screens[0]}.{self.id}"
