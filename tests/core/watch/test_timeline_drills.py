"""What was done on purpose is on the timeline, before what follows from it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from core import paths
from core.cluster.drills.drill import Drill, DrillKind, Offer, broker_drill
from core.cluster.state import ClusterState
from core.errors import TrimtabError
from core.watch.timeline.events import Event, Kind
from core.watch.timeline.publisher import run_drill
from core.watch.timeline.store import Timeline
from core.watch.timeline.text import format_event

KEPT = timedelta(milliseconds=1)
"""How exactly a timeline keeps times."""


class Ground:
    """A cluster that lets everything be done to it that `answer` says."""

    name = "sandbox demo"

    def __init__(self, timeline: str | None, answer: bool | TrimtabError = True) -> None:
        self.timeline_id, self._answer = timeline, answer
        self.begun_at: datetime | None = None

    def offers(self, state: ClusterState) -> tuple[Offer, ...]:
        return ()

    def run(self, drill: Drill) -> bool:
        self.begun_at = datetime.now(UTC)
        while datetime.now(UTC) - self.begun_at < 5 * KEPT:  # so that before and after differ
            pass
        if isinstance(self._answer, TrimtabError):
            raise self._answer
        return self._answer

    def close(self) -> None:
        pass


def recorded(cluster_id: str) -> list[Event]:
    path = paths.timeline_file(cluster_id)
    if not path.exists():
        return []
    timeline = Timeline.read(path)
    try:
        return list(timeline.events())
    finally:
        timeline.close()


def test_a_fault_is_told_by_the_sandbox_with_its_broker() -> None:
    ground = Ground("c")
    assert run_drill(ground, broker_drill(DrillKind.KILL, 2)) == "killed broker 2"
    (event,) = recorded("c")
    assert (event.kind, event.brokers) == (Kind.FAULT, {2})
    assert format_event(event) == "sandbox: killed broker 2"
    assert ground.begun_at is not None
    assert event.at <= ground.begun_at + KEPT


@pytest.mark.parametrize("ground", [Ground("c", False), Ground(None)])
def test_what_was_not_done_or_has_no_timeline_is_not_told(ground: Ground) -> None:
    run_drill(ground, broker_drill(DrillKind.START, 2))
    assert recorded("c") == []


def test_what_failed_is_raised_and_not_told() -> None:
    with pytest.raises(TrimtabError, match="not come up"):
        run_drill(
            Ground("c", TrimtabError("It did not come up.")), broker_drill(DrillKind.START, 2)
        )
    assert recorded("c") == []
