"""A cluster that does not take a cancel, or the order put back: all else of the run goes on."""

from __future__ import annotations

from typing import Any

import pytest
from run_help import MB, Faulty, Run, Start, ask, cluster, plan_of, spend, submitted, throttles

from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind

T = TopicPartition("t", 0)
TARGETS = {("t", 0): (3, 4, 1), ("u", 0): (5, 3), ("v", 0): (6, 3)}


def three() -> SimulatedCluster:
    sizes = {T: 900 * MB, TopicPartition("u", 0): 40 * MB, TopicPartition("v", 0): 40 * MB}
    return cluster({"t": [(1, 2, 3)], "u": [(1, 3)], "v": [(1, 3)]}, size_bytes=sizes)


def of_three_moves(start: Start, client: SimulatedCluster) -> tuple[Run, Faulty]:
    faulty = Faulty(client)
    run = start(client, plan_of(client, TARGETS), through=faulty, batch_size=2)
    run.until(submitted)
    spend(run, 3)
    return run, faulty


def not_taken(real: Any, wanted: Any, fault: str) -> Any:
    rest = {tp: target for tp, target in wanted.items() if target is not None and tp != T}
    return (real(rest) if rest else {}) | {tp: Fault(fault) for tp in wanted if tp == T}


def test_an_order_that_is_refused_for_good_ends_its_move_alone(start: Start) -> None:
    client = three()
    before = throttles(client)
    run, faulty = of_three_moves(start, client)
    name = "INVALID_REPLICA_ASSIGNMENT"
    faulty.replaced["alter_reassignments"] = lambda real, wanted: not_taken(real, wanted, name)
    ask(run, "cancel", moves=[0])
    assert run.to_the_end(600) is Outcome.INCOMPLETE
    phases = [m.phase for m in run.runner.state.moves]
    assert phases == [Phase.FAILED, Phase.DONE, Phase.DONE]
    why = "t-0: cancelled, but its order as before was refused: INVALID_REPLICA_ASSIGNMENT"
    assert run.runner.state.ended_why == why
    assert throttles(run.client) == before


@pytest.mark.parametrize("call", ["alter_reassignments", "cancel_reassignments"])
def test_what_is_not_taken_back_yet_holds_no_other_throttle(start: Start, call: str) -> None:
    run, faulty = of_three_moves(start, three())

    def busy(real: Any, wanted: Any) -> Any:
        if call == "alter_reassignments":
            return not_taken(real, wanted, "REQUEST_TIMED_OUT")
        return {tp: Fault("REQUEST_TIMED_OUT") for tp in wanted}

    faulty.replaced[call] = busy
    ask(run, "cancel", moves=[0])
    run.until(lambda _: run.runner.state.moves[1].phase is Phase.DONE, seconds=120)
    run.until(
        lambda _: "u" not in {topic for topic, _ in run.runner.state.throttles.lists}, seconds=20
    )
    asked, written = faulty.calls.count(call), len(run.journal.records())
    spend(run, 60)
    assert "(REQUEST_TIMED_OUT): it is asked again" in run.runner.state.waiting
    assert faulty.calls.count(call) >= asked + 9
    assert len(run.journal.records()) <= written + 4, "asked again without filling the journal"
    faulty.replaced.clear()
    assert run.to_the_end(600) is Outcome.INCOMPLETE
    assert run.replicas()["t-0"] == (1, 2, 3)
    assert Kind.REORDERED in [record.kind for record in run.journal.records()]
