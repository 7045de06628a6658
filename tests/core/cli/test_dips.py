"""A steady producer's rate: when it fell while a leader was looked for, and when it was back."""

from __future__ import annotations

from core.cli.scenarios.dips import CALM, Dips

EACH = 10


def played(*slices: tuple[int, int], looking: dict[int, int] | None = None) -> list[str]:
    """Return what is told of two partitions with so many records in each slice, and calm after."""
    dips, told = Dips(2, EACH), list[str]()
    for at, counts in enumerate((*slices, *[(EACH, EACH)] * CALM)):
        for partition, count in enumerate(counts):
            for _ in range(count):
                dips.acknowledge(at, partition)
        if looking and at in looking:
            dips.look_for_leader(at, looking[at])
        told += dips.told(at + 1)
    assert dips.is_over
    return told


def test_a_dip_is_told_as_it_begins_and_when_it_is_over() -> None:
    assert played((10, 10), (10, 4), (10, 0), looking={1: 1, 2: 1}) == [
        "rate fell to 40% in 1 of 2 partitions",
        "rate recovered after 0.2 s, at least 0%",
    ]


def test_what_comes_late_without_a_leader_looked_for_is_no_dip() -> None:
    assert played((10, 10), (10, 0), (0, 0)) == []
    assert played((10, 10), (0, 9), looking={1: 1}) == []


def test_dips_that_follow_closely_are_one() -> None:
    told = played((10, 5), (10, 10), (7, 10), looking={0: 1, 2: 0})
    assert told == [
        "rate fell to 50% in 1 of 2 partitions",
        "rate recovered after 0.3 s, at least 50%",
    ]
