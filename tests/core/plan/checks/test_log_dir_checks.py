"""What speaks against the log dirs that a plan names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import MB, cluster, load_of, tp

from core.cluster.metadata import FutureReplica, LogDir
from core.cluster.state import ClusterState
from core.plan.checks.catalogue import Severity
from core.plan.checks.check_plan import check_plan
from core.plan.plan import ANY, Move, Plan

DIRS = (
    LogDir("/data", 100 * MB, 50 * MB),
    LogDir("/d2", 100 * MB, 5 * MB),
    LogDir("/bad", error="x"),
)


def placed(*, dirs: tuple[LogDir, ...] = DIRS, dead: tuple[int, ...] = ()) -> ClusterState:
    """Return t-0 on brokers 0 and 1, 6 MB in /data on each."""
    return cluster({"t-0": [0, 1]}, brokers=range(3), dead=dead, size_bytes=6 * MB, log_dirs=dirs)


def moved(path: str, *, found: str = "/data") -> Move:
    return Move(tp("t-0"), (0, 1), (0, 1), None, (ANY, path), (ANY, found))


def ids(state: ClusterState, move: Move) -> list[str]:
    return [finding.id for finding in check_plan(state, load_of(state), Plan.of([move]))]


def test_replica_already_being_copied_to_a_log_dir_is_a_foreign_move() -> None:
    there = placed(dirs=ROOMY)
    copied = replace(there, future_replicas=(FutureReplica(tp("t-0"), 1, "/d2", MB),))
    assert ids(copied, moved("/d2")) == ["foreign-move"]
    assert ids(copied, Move(tp("t-0"), (0, 1), (0, 2))) == ["foreign-move"]
    assert ids(copied, Move(tp("t-0"), (0, 1), (2, 1))) == []


ROOMY = (LogDir("/data", 100 * MB, 50 * MB), LogDir("/d2", 100 * MB, 50 * MB))
CASES = {
    "room for it": (moved("/d2"), {"dirs": ROOMY}, []),
    "too little room": (moved("/d2"), {}, ["disk"]),
    "no such log dir": (moved("/d9"), {}, ["no-log-dir"]),
    "offline": (moved("/bad"), {}, ["no-log-dir"]),
    "its broker is down": (moved("/d2"), {"dirs": (), "dead": (1,)}, ["dead-broker"]),
    "log dirs not known": (moved("/d2"), {"dirs": ()}, ["log-dirs"]),
    "found elsewhere": (moved("/d2", found="/d3"), {"dirs": ROOMY}, ["stale"]),
    "arrives with room": (
        Move(tp("t-0"), (0, 1), (0, 2), None, (ANY, "/d2"), (ANY, "/data")),
        {"dirs": ROOMY},
        [],
    ),
    "arrives without room": (
        Move(tp("t-0"), (0, 1), (0, 2), None, (ANY, "/d2"), (ANY, "/data")),
        {},
        ["disk"],
    ),
    "arrives in no log dir": (
        Move(tp("t-0"), (0, 1), (0, 2), None, (ANY, "/d9"), (ANY, "/data")),
        {},
        ["no-log-dir"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_log_dir_moves_report_the_expected_check_ids(name: str) -> None:
    move, options, expected = CASES[name]
    assert ids(placed(**options), move) == expected


def test_missing_log_dir_is_illegal_and_named() -> None:
    state = placed()
    (finding,) = check_plan(state, load_of(state), Plan.of([moved("/d9")]))
    assert finding.severity is Severity.ILLEGAL
    assert finding.sentence == "Broker 1 has no log dir /d9; t-0 should lie there."


@pytest.mark.parametrize(
    ("paths", "has"),
    [
        (("/d2", "/d2"), "Log dir /d2 of broker 0 has 10 MB free"),
        (("/d2", "/d3"), "Log dirs /d2 and /d3 of broker 0 have 10 MB free, on one disk"),
    ],
)
def test_sizes_of_replicas_arriving_on_one_disk_are_added_up(
    paths: tuple[str, str], has: str
) -> None:
    dirs = (LogDir("/data", 100 * MB, 0), *(LogDir(d, 90 * MB, 10 * MB) for d in ("/d2", "/d3")))
    state = cluster({"t-0": [0], "t-1": [0]}, size_bytes=6 * MB, log_dirs=dirs)
    first_move, second_move = (
        Move(tp(f"t-{n}"), (0,), (0,), None, (path,), ("/data",)) for n, path in enumerate(paths)
    )
    assert ids(state, first_move) == ids(state, second_move) == []
    (finding,) = check_plan(state, load_of(state), Plan.of([first_move, second_move]))
    assert (finding.id, len(finding.partitions)) == ("disk", 2)
    assert finding.sentence == f"{has}; the plan brings 12 MB, growth meanwhile included."
