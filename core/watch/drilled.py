"""A drill done, and told to the timeline: by the command line and the dashboard alike."""

from __future__ import annotations

from datetime import UTC, datetime

from core.cluster.drills.drill import Drill, DrillGround, told
from core.watch.timeline.events import Kind
from core.watch.timeline.telling import Teller


def carry_out(ground: DrillGround, drill: Drill) -> str | None:
    """Do a drill, and return what was done; None where there was nothing to do.

    It is told as of when it began: what follows from it comes after it. Raises TrimtabError when
    it could not be done.
    """
    began = datetime.now(UTC)
    if not ground.carry_out(drill):
        return None
    text = told(drill)
    if ground.timeline is not None:
        with Teller(ground.timeline) as teller:
            brokers = () if drill.broker is None else (drill.broker,)
            teller.tell(Kind.FAULT, by="sandbox", text=text, brokers=brokers, at=began)
    return text
