"""The planner's bench measures what it says: Kafka's own rule beside ours, and the least bytes."""

from __future__ import annotations

import ast
from random import Random
from typing import Any

import pytest
from bench.kafka_generate import Striped, generated
from bench.least_bytes import least_bytes
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of

from core.plan.planner.placement import Placement
from core.plan.planner.problem import problem

MASK = (1 << 48) - 1


class JavaRandom(Random):
    """java.util.Random, so that answers of Kafka's own class can be compared."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ 0x5DEECE66D) & MASK

    def _bits(self) -> int:
        self._state = (self._state * 0x5DEECE66D + 0xB) & MASK
        return self._state >> 17

    def randrange(self, start: int, stop: Any = None, step: int = 1) -> int:
        if start & (start - 1) == 0:
            return (start * self._bits()) >> 31
        while True:
            bits = self._bits()
            if bits - bits % start + start - 1 < 1 << 31:
                return bits % start

    def shuffle(self, x: Any) -> None:
        for count in range(len(x), 1, -1):
            other = self.randrange(count)
            x[count - 1], x[other] = x[other], x[count - 1]


# Of StripedReplicaPlacer (Kafka 4.3.1) with new Random(seed): racks in the order in which it
# starts them (its HashMap's), replicas, seed, and what it answered. Beyond as many partitions as
# there are brokers it shuffles them.
ANSWERS = [
    (
        {"r2": [2, 4], "r0": [0, 5], "r1": [1, 3]},
        3,
        2,
        "[[3,4,0],[2,5,1],[0,3,4],[1,2,5],[4,0,3],[5,1,2],[3,5,4],[0,2,1],[4,3,5],[1,0,2],[5,"
        "4,3],[2,1,0],[3,2,0],[4,5,1]]",
    ),
    (
        {"r2": [2, 4, 6], "r0": [0, 5], "r1": [1, 3]},
        2,
        3,
        "[[1,6],[2,0],[5,3],[1,4],[6,0],[5,3],[1,2],[5,4],[2,3],[1,0],[5,6],[4,3],[1,0],[5,2]"
        ",[1,5],[0,4],[6,3],[1,5],[0,2],[4,3]]",
    ),
    (
        {"r0": [0, 2, 3], "r1": [1, 4]},
        3,
        1,
        "[[0,1,2],[4,2,1],[3,1,0],[4,0,1],[2,1,3],[3,1,2],[4,2,1],[0,1,3],[4,3,1],[2,1,0],[1,"
        "3,4],[0,4,2],[1,2,4],[3,4,0],[1,0,4],[4,0,1],[2,1,3]]",
    ),
    (
        {"r0": [0, 1, 2, 3]},
        2,
        4,
        "[[2,3],[3,0],[0,1],[1,2],[1,3],[3,0],[0,2],[2,1],[2,0]]",
    ),
]


@pytest.mark.parametrize(("racks", "replicas", "seed", "answer"), ANSWERS)
def test_kafkas_rule_answers_as_kafka_does(
    racks: dict[str, list[int]], replicas: int, seed: int, answer: str
) -> None:
    placing, found = Striped(racks, JavaRandom(seed)), ast.literal_eval(answer)
    assert [placing.place(replicas) for _ in found] == found


def test_what_kafka_would_generate_keeps_racks_apart() -> None:
    state, _ = skewed(Shape(12, 300, "new"))
    rows = generated(state, 1)
    assert rows.shape == (300, 3)
    assert all(len({broker % 3 for broker in row}) == 3 for row in rows.tolist())


def test_no_plan_copies_less_than_the_linear_program_says() -> None:
    """One broker holds all that two should: half of it has to go, to the band's edge."""
    names = [f"t-{i}" for i in range(40)]
    state = cluster({name: [1] for name in names}, brokers=[1, 2], size_bytes=MB)
    start = Placement(problem(state, load_of(state, 1.0), band=0.1))
    assert least_bytes(start) == pytest.approx(18 * MB, rel=1e-4)
