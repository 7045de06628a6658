"""The fewest bytes that any plan must copy: a linear program over all measures at once.

What is left out makes it smaller, never larger: parts of replicas may move. HiGHS solves it.
"""

from __future__ import annotations

import highspy
import numpy as np

from core.plan.planner.model.measures import LEADER_MEASURES, NOBODY, REPLICA_MEASURES, Measure
from core.plan.planner.model.placement import Placement


def least_bytes(start: Placement) -> float | None:
    """Return the bound for clusters of one replication factor; None when no plan reaches the band.

    Variables are, for partition p and broker b, how much of a replica is there (P × B), then how
    much of its leadership (P × B).
    """
    given = start.problem
    partitions, brokers = len(given.items), given.brokers
    band, inf = given.band, highspy.kHighsInf
    at = np.arange(partitions * brokers).reshape(partitions, brokers)
    led = at + at.size
    here = np.zeros((partitions, brokers), np.bool_)
    for column in start.at.T:
        here[np.flatnonzero(column != NOBODY), column[column != NOBODY]] = True
    rows = _Rows()
    held = here.sum(axis=1)
    rows.add(at, np.ones(at.shape), held, held)
    rows.add(led, np.ones(at.shape), np.ones(partitions), np.ones(partitions))
    pairs = np.stack([at.ravel(), led.ravel()], axis=1)
    signs = np.tile([1.0, -1.0], (at.size, 1))
    rows.add(pairs, signs, np.zeros(at.size), np.full(at.size, inf))  # leaders hold a replica
    for rack in np.unique(given.racks):
        inside = at[:, given.racks == rack]
        fullest = _fullest(here, given.racks)
        rows.add(inside, np.ones(inside.shape), np.zeros(partitions), fullest)
    for measures, where in ((REPLICA_MEASURES, at), (LEADER_MEASURES, led)):
        for measure in measures:
            if measure is Measure.MAY_SEND or not given.active[measure]:
                continue
            shares = given.items[:, measure][None, :] * start.per_share[:, measure][:, None]
            rows.add(where.T, shares, np.full(brokers, 1 - band), np.full(brokers, 1 + band))
    sizes = np.where(here, 0.0, given.items[:, Measure.DISK][:, None])
    cost = np.concatenate([sizes.ravel() / 1e6, np.zeros(at.size)])
    solved = rows.solved(cost)
    return None if solved is None else solved * 1e6


def _fullest(here: np.ndarray, racks: np.ndarray) -> np.ndarray:
    """Return how many replicas each partition has in its fullest rack: no plan puts more there."""
    return np.max([here[:, racks == rack].sum(axis=1) for rack in np.unique(racks)], axis=0)


class _Rows:
    """Rows of a linear program, each of some variables with their factors."""

    def __init__(self) -> None:
        self._index: list[np.ndarray] = []
        self._value: list[np.ndarray] = []
        self._length: list[np.ndarray] = []
        self._bounds: list[tuple[np.ndarray, np.ndarray]] = []

    def add(
        self, index: np.ndarray, value: np.ndarray, lower: np.ndarray, upper: np.ndarray
    ) -> None:
        self._index.append(index.ravel())
        self._value.append(value.ravel())
        self._length.append(np.full(len(index), index.shape[1]))
        self._bounds.append((lower, upper))

    def solved(self, cost: np.ndarray) -> float | None:
        """Return the least cost with every variable in 0 … 1, None when nothing satisfies all."""
        program = highspy.HighsLp()
        lower, upper = (
            np.concatenate(side).astype(float) for side in zip(*self._bounds, strict=True)
        )
        program.num_col_, program.num_row_ = len(cost), len(lower)
        program.col_cost_, program.row_lower_, program.row_upper_ = cost, lower, upper
        program.col_lower_, program.col_upper_ = np.zeros(len(cost)), np.ones(len(cost))
        matrix = program.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        matrix.start_ = np.concatenate([[0], np.cumsum(np.concatenate(self._length))])
        matrix.index_ = np.concatenate(self._index)
        matrix.value_ = np.concatenate(self._value)
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("solver", "ipm")  # the simplex method takes many minutes
        solver.setOptionValue("run_crossover", "off")
        solver.passModel(program)
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise RuntimeError(f"HiGHS says {solver.modelStatusToString(status)}")
        return float(solver.getInfo().objective_function_value)
