"""Topics of probes that nobody will delete: their runs died and were never brought back."""

from __future__ import annotations

from collections.abc import Iterable

from core.cluster.probe import TOPIC_PREFIX
from core.cluster.state import ClusterState
from core.run.others.throttles import Known

REMEDY = (
    "Bring the run back with `runs attach`, which deletes it; where the run is unknown and nobody "
    "else's, delete the topic: nothing reads it."
)


def left_probes(state: ClusterState, runs: Iterable[Known]) -> tuple[str, ...]:
    """Return in words which topics of probes belong to no run that is in progress here."""
    living = {run.history.run for run in runs if run.living}
    found = ((topic.name, topic.name.removeprefix(TOPIC_PREFIX)) for topic in state.topics)
    return tuple(
        f"topic {topic} is of the probe of run {run}, which is not in progress here"
        for topic, run in found
        if topic.startswith(TOPIC_PREFIX) and run not in living
    )
