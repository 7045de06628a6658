"""What can be done on the timeline, and while the map shows the past: a part of the table."""

from __future__ import annotations

from tui.action import THEN, TIMELINE, Action

TIMELINE_ACTIONS: tuple[Action, ...] = (
    Action(
        "earlier",
        "step",
        ("left_square_bracket",),
        "To what happened before.",
        (TIMELINE,),
        footer=10,
        footer_key="[ ]",
    ),
    Action("later", "later", ("right_square_bracket",), "To what happened next.", (TIMELINE,)),
    Action(
        "ten_earlier",
        "ten",
        ("left_curly_bracket",),
        "Ten happenings back.",
        (TIMELINE,),
        footer=60,
        footer_key="{ }",
    ),
    Action("ten_later", "ten later", ("right_curly_bracket",), "Ten happenings on.", (TIMELINE,)),
    Action(
        "map_then",
        "map then",
        ("m",),
        "The map of the cluster as it was after this.",
        (TIMELINE,),
        footer=15,
    ),
    Action("up", "up", ("k", "up"), "One row up.", (TIMELINE,)),
    Action("down", "down", ("j", "down"), "One row down.", (TIMELINE,)),
    Action("top", "top", ("g", "home"), "The oldest.", (TIMELINE,)),
    Action("bottom", "bottom", ("G", "end"), "The newest, and follow.", (TIMELINE,)),
    Action("page_down", "page down", ("ctrl+d", "pagedown"), "Ten rows down.", (TIMELINE,)),
    Action("page_up", "page up", ("ctrl+u", "pageup"), "Ten rows up.", (TIMELINE,)),
    Action(
        "enter",
        "unfold",
        ("enter",),
        "Show each change of what happened to many, or fold it again.",
        (TIMELINE,),
        footer=20,
    ),
    Action(
        "filter",
        "filter",
        ("slash",),
        "By topic, broker (b2) and kind (leader); !x leaves out.",
        (TIMELINE,),
        footer=30,
    ),
    Action(
        "kind",
        "kind",
        ("f",),
        "Only one kind of change: broker, controller, leader, isr…",
        (TIMELINE,),
        footer=40,
    ),
    Action(
        "horizon",
        "horizon",
        ("s",),
        "How much time the brokers' lanes show.",
        (TIMELINE,),
        footer=50,
    ),
    Action("export", "export…", ("e",), "Write what is listed as Markdown.", (TIMELINE,)),
    Action("back", "back", ("escape",), "Drop the filter; at last follow again.", (TIMELINE,)),
    # -- the map of the past
    Action(
        "earlier",
        "step",
        ("left_square_bracket",),
        "To before what happened last.",
        (THEN,),
        footer=2,
        footer_key="[ ]",
    ),
    Action("later", "later", ("right_square_bracket",), "To after what happened next.", (THEN,)),
    Action(
        "ten_earlier",
        "ten",
        ("left_curly_bracket",),
        "Ten happenings back.",
        (THEN,),
        footer=60,
        footer_key="{ }",
    ),
    Action("ten_later", "ten later", ("right_curly_bracket",), "Ten happenings on.", (THEN,)),
    Action(
        "now", "back to now", ("0",), "The cluster as it is, to be worked on.", (THEN,), footer=1
    ),
)
