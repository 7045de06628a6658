"""The one table of actions, for the footer, the help screen, the palette and the docs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.binding import Binding, BindingType

from tui.actions.action import (
    CARRY,
    GLOBAL,
    GROUPS,
    LOAD,
    MAP,
    MOVES,
    PAST_MAP,
    PLACES,
    PLAN,
    SCREENS,
    TIMELINE,
    Action,
)
from tui.actions.moves import RUN_ACTIONS
from tui.actions.timeline import TIMELINE_ACTIONS

GROUP_ACTIONS: tuple[Action, ...] = (
    Action("up", "up", ("k", "up"), "One group, or partition, up.", (GROUPS,)),
    Action("down", "down", ("j", "down"), "One group, or partition, down.", (GROUPS,)),
    Action("top", "top", ("g", "home"), "The first one.", (GROUPS,)),
    Action("bottom", "bottom", ("G", "end"), "The last one.", (GROUPS,)),
    Action("page_down", "page down", ("ctrl+d", "pagedown"), "Ten rows down.", (GROUPS,)),
    Action("page_up", "page up", ("ctrl+u", "pageup"), "Ten rows up.", (GROUPS,)),
    Action(
        "enter",
        "partitions",
        ("enter",),
        "Every partition of the group, or back to all groups.",
        (GROUPS,),
        footer=10,
    ),
    Action(
        "on_map",
        "on the map",
        ("m",),
        "Mark what the group reads on the map; esc there ends it.",
        (GROUPS,),
        footer=20,
    ),
    Action(
        "filter", "filter", ("slash",), "Show groups by id; !x leaves out.", (GROUPS,), footer=30
    ),
    Action("sort", "sort", ("s",), "By lag, or by name.", (GROUPS,), footer=40),
    Action("back", "back", ("escape",), "Back to all groups, or drop the filter.", (GROUPS,)),
)


__all__ = ["ACTIONS", "CARRY", "GLOBAL", "LOAD", "MAP", "MOVES", "PLACES", "PLAN", "SCREENS"]
__all__ += [
    "GROUPS",
    "PAST_MAP",
    "TIMELINE",
    "Action",
    "actions_of",
    "bindings_of",
    "footer_of",
    "keys_of",
    "written",
]

ACTIONS: tuple[Action, ...] = (
    # -- everywhere
    Action("go_map", "map", ("1",), "Open the map.", call="show_screen('map')"),
    Action("go_plan", "plan", ("2",), "Open the plan.", call="show_screen('plan')"),
    Action("go_moves", "moves", ("3",), "Open the moves.", call="show_screen('moves')"),
    Action("go_load", "load", ("4",), "Open load over time.", call="show_screen('load')"),
    Action("go_timeline", "timeline", ("5",), "Open the timeline.", call="show_screen('timeline')"),
    Action("go_groups", "groups", ("6",), "Open consumer groups.", call="show_screen('groups')"),
    Action("help", "keys", ("question_mark",), "Show all keys.", footer=90),
    Action("commands", "commands", ("colon", "ctrl+p"), "Find a command by its name."),
    Action("pause", "pause", ("p",), "Stop following the cluster; again to go on."),
    Action("refresh_now", "refresh", ("r",), "Ask the cluster now, and draw everything again."),
    Action("copy", "copy", ("y",), "Copy what is selected (OSC 52, also through tmux)."),
    Action("next_theme", "theme", ("t",), "Change to the next theme."),
    Action("toggle_mouse", "mouse", ("percent_sign",), "Leave the mouse to the terminal, or not."),
    Action("save_screenshot", "screenshot", ("S",), "Save the screen as SVG."),
    Action("show_problems", "trouble", ("E",), "Show in full what went wrong.", footer=1),
    Action("autopilot", "autopilot", ("O",), "Set the autopilot's mode: off, suggest or act."),
    Action(
        "drill",
        "break…",
        ("F",),
        "On a sandbox or demo only: kill a broker, fill a disk, skew the load, and mend it.",
        needs_write=True,
        footer=85,
        for_drills=True,
    ),
    Action(
        "probe",
        "clients",
        ("W",),
        "Measure client latency at each broker: start a probe, after asking; again to stop it.",
        needs_write=True,
    ),
    Action("quit", "quit", ("q",), "Leave; a run goes on without the dashboard."),
    # -- map
    Action(
        "enter",
        "partitions",
        ("enter",),
        "Zoom in: the partitions of a topic, then one partition.",
        (MAP, PAST_MAP),
        footer=10,
    ),
    Action("back", "back", ("escape",), "Zoom out, or drop the filter.", (MAP,)),
    Action("up", "up", ("k", "up"), "One row up.", (MAP,)),
    Action("down", "down", ("j", "down"), "One row down.", (MAP,)),
    Action("left", "left", ("h", "left"), "One broker to the left.", (MAP,)),
    Action("right", "right", ("l", "right"), "One broker to the right.", (MAP,)),
    Action("top", "top", ("g", "home"), "First row.", (MAP,)),
    Action("bottom", "bottom", ("G", "end"), "Last row.", (MAP,)),
    Action("page_down", "page down", ("ctrl+d", "pagedown"), "Half a page down.", (MAP,)),
    Action("page_up", "page up", ("ctrl+u", "pageup"), "Half a page up.", (MAP,)),
    Action("grab", "grab", ("space",), "Pick the replica under the cursor up.", (MAP,), footer=20),
    Action(
        "take_suggestion",
        "suggest",
        ("a",),
        "Put the suggested move into the plan.",
        (MAP,),
        footer=30,
    ),
    Action(
        "filter",
        "filter",
        ("slash",),
        "Show rows by name; !x leaves out.",
        (MAP, PAST_MAP),
        footer=40,
    ),
    Action(
        "sort", "sort", ("s",), "Next order: excess, name, total, skew.", (MAP, PAST_MAP), footer=50
    ),
    Action("metric", "metric", ("m",), "Next metric: in, out, size, leaders…", (MAP,), footer=60),
    Action("colors", "colour", ("c",), "Colour by deviation, or by amount.", (MAP,)),
    Action("next_trouble", "next", ("n",), "Go to the next trouble in the strip.", (MAP,)),
    Action("previous_trouble", "previous", ("N",), "Go to the trouble before.", (MAP,)),
    Action("mark", "mark", ("v",), "Mark the row; marked rows are carried together.", (MAP,)),
    Action("prefer", "make leader", ("L",), "Make this replica the preferred leader.", (MAP,)),
    Action("undo", "undo", ("u",), "Take the last edit back.", (MAP, PLAN), footer=70),
    Action("redo", "redo", ("U",), "Make the edit again.", (MAP, PLAN)),
    Action("export", "export…", ("e",), "Write the plan as Kafka's reassignment JSON.", (MAP,)),
    Action(
        "apply",
        "apply…",
        ("A",),
        "Carry the plan out, after you typed the cluster's name.",
        (MAP, PLAN),
        needs_write=True,
        footer=21,
    ),
    # -- carrying
    Action(
        "left",
        "carry",
        ("h", "left"),
        "Carry to the broker on the left.",
        (CARRY,),
        footer=10,
        footer_key="h l",
    ),
    Action("right", "carry", ("l", "right"), "Carry to the broker on the right.", (CARRY,)),
    Action(
        "digit",
        "to broker",
        tuple("0123456789"),
        "Carry to the broker typed.",
        (CARRY,),
        call="digit('{key}')",
        footer=20,
        footer_key="1-9",
    ),
    Action("drop", "drop", ("enter", "space"), "Drop it here, into the plan.", (CARRY,), footer=30),
    Action("let_go", "let go", ("escape",), "Let go; nothing changes.", (CARRY,), footer=40),
    Action(
        "prefer",
        "make leader",
        ("L",),
        "Make it the preferred leader there; again to undo.",
        (CARRY,),
        footer=50,
    ),
    # -- plan
    Action("up", "up", ("k", "up"), "The move, or the rate, above.", (PLAN,)),
    Action("down", "down", ("j", "down"), "The move, or the rate, below.", (PLAN,)),
    Action("top", "top", ("g", "home"), "First move, or slowest rate.", (PLAN,)),
    Action("bottom", "bottom", ("G", "end"), "Last move, or fastest rate.", (PLAN,)),
    Action(
        "throttle",
        "throttle",
        ("T", "tab"),
        "Choose the rate with up and down; again to go back to the moves.",
        (PLAN,),
        footer=10,
    ),
    Action(
        "export",
        "export…",
        ("e",),
        "Write the plan as Kafka's reassignment JSON.",
        (PLAN,),
        footer=75,
    ),
    Action(
        "suggest",
        "suggest…",
        ("a",),
        "Ask for a whole plan: balance, drain, fill, replace, racks, replication factor.",
        (PLAN,),
        footer=5,
    ),
    Action(
        "stop",
        "stop",
        ("escape",),
        "Stop the plan that is being made, or go back to the moves.",
        (PLAN,),
        footer=4,
    ),
    Action(
        "rebase",
        "rebase",
        ("R",),
        "Rebase the plan on the present cluster; what still holds is kept.",
        (PLAN,),
        footer=3,
    ),
    Action(
        "brokers",
        "brokers",
        ("b",),
        "Each broker before and after; again to go back to the moves.",
        (PLAN,),
        footer=15,
    ),
    Action(
        "impact",
        "impact",
        ("i",),
        "Impact on groups, producers and retention; again to go back to the moves.",
        (PLAN,),
        footer=17,
    ),
    Action(
        "drop_move",
        "drop move",
        ("x", "d", "delete"),
        "Take this move out.",
        (PLAN,),
        footer=22,
    ),
    *RUN_ACTIONS,
    # -- load
    Action(
        "left",
        "broker",
        ("h", "left"),
        "The broker, or partition, before.",
        (LOAD,),
        footer=10,
        footer_key="h l",
    ),
    Action("right", "next", ("l", "right"), "The broker, or partition, after.", (LOAD,)),
    Action("up", "up", ("k", "up"), "One row up.", (LOAD,)),
    Action("down", "down", ("j", "down"), "One row down.", (LOAD,)),
    Action("metric", "metric", ("m",), "In, out, or messages.", (LOAD,), footer=30),
    Action("horizon", "horizon", ("s",), "Over an hour, six hours, a day.", (LOAD,), footer=40),
    Action(
        "enter", "partitions", ("enter",), "Its hottest partitions, or back.", (LOAD,), footer=20
    ),
    Action("back", "back", ("escape",), "Back to the brokers.", (LOAD,)),
    *TIMELINE_ACTIONS,
    *GROUP_ACTIONS,
)

_WRITTEN = {
    "question_mark": "?",
    "colon": ":",
    "slash": "/",
    "percent_sign": "%",
    "plus": "+",
    "minus": "-",
    "escape": "esc",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "pagedown": "pgdn",
    "pageup": "pgup",
}


def written(key: str) -> str:
    """Return a key as people write it (`?` for `question_mark`)."""
    return _WRITTEN.get(key, key)


def keys_of(action: Action, keys: Mapping[str, str]) -> tuple[str, ...]:
    """Return an action's keys, the user's own (`keys` of config.toml) before the table's."""
    own = keys.get(action.binding_id)
    return tuple(own.split(",")) if own else action.keys


def actions_of(place: str, *, drills: bool = True) -> tuple[Action, ...]:
    """Return the actions of one place, without those that work everywhere.

    Without `drills` those are left out that break things on purpose.
    """
    return tuple(
        action
        for action in ACTIONS
        if place in action.screens and (drills or not action.for_drills)
    )


def bindings_of(place: str) -> list[BindingType]:
    """Return the Textual bindings of one place."""
    return [
        Binding(
            key,
            action.call.replace("{key}", key) if action.call else action.id,
            action.name,
            show=False,
            id=action.binding_id,
            tooltip=action.help,
        )
        for action in actions_of(place)
        if place != PAST_MAP or action.screens[0] == PAST_MAP  # the others are the map's own
        for key in (action.keys if "{key}" in action.call else (",".join(action.keys),))
    ]


def footer_of(places: Iterable[str], *, drills: bool = True) -> tuple[Action, ...]:
    """Return what the footer shows in these places, in order."""
    shown = {
        action.binding_id: action
        for place in places
        for action in actions_of(place, drills=drills)
        if action.footer
    }
    return tuple(sorted(shown.values(), key=lambda action: action.footer))


def key_table() -> str:
    """Return the table of all keys as Markdown (docs/keys.md is this text)."""
    lines = [
        "# Keys",
        "",
        "Made by `python -m tui.actions.table`; a test holds it current.",
    ]
    for place, title in PLACES.items():
        rows = actions_of(place)
        if not rows:
            continue
        lines += ["", f"## {title}", "", "| key | action | what it does |", "|---|---|---|"]
        for action in rows:
            keys = " ".join(f"`{written(key)}`" for key in action.keys)
            write = " Needs `--write`." if action.needs_write else ""
            lines.append(f"| {keys} | {action.name} | {action.help}{write} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(key_table(), end="")
