"""A description of real brokers' answers: what is in flight while the controller is away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from core.cluster.kafka.metadata import describe_cluster, fetch_denied_topics
from core.cluster.state import ClusterState

DENIED = SimpleNamespace(error_code=31, error_message=None)
NOTHING = SimpleNamespace(error_code=0, error_message=None, topics=[])
TIMED_OUT = SimpleNamespace(error_code=7, error_message=None)


class Answered:
    """A wire on which metadata and cluster always come, and reassignments as given."""

    def __init__(self) -> None:
        self.metadata_timeout = None
        self.controller: int | None = None
        self.last_reassignments: dict[Any, Any] = {}
        self.moves_unknown = ""
        self.moves: object = None

    def set_controller(self, broker: int) -> None:
        self.controller = broker

    def check_cluster_id(self, cluster_id: str) -> None:
        assert cluster_id == "c"

    def ask_any(self, ask: object, patience: object) -> tuple[Any, Any, Any, Any]:
        metadata = SimpleNamespace(topics=[], controller_id=1)
        described = SimpleNamespace(error_code=0, error_message=None, cluster_id="c", brokers=[])
        return metadata, described, self.moves, None


def looked(wire: Answered, moves: object) -> ClusterState:
    wire.moves = moves
    return describe_cluster(wire)  # type: ignore[arg-type]


def test_that_moves_may_not_be_seen_holds_until_a_controller_says_otherwise() -> None:
    wire = Answered()
    assert looked(wire, DENIED).moves_unknown == "This user may not list partition reassignments."
    for silent in (None, TIMED_OUT):
        assert looked(wire, silent).moves_unknown
    assert looked(wire, NOTHING).moves_unknown == ""
    assert looked(wire, None).moves_unknown == ""


def test_for_no_name_no_broker_is_asked() -> None:
    nobody: Any = None
    assert fetch_denied_topics(nobody, []) == frozenset()
