"""The actions of the Groups: finding a group, looking into it, seeing its partitions elsewhere."""

from __future__ import annotations

from tui.action import GROUPS, Action

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
