"""What a run does next, decided from the journal's fold and what the cluster shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import run_states_page
from clusters import cluster
from next_step_help import ALIVE, MOVE, NOON, cancel, history, observed
from run_help import move

from core.cluster.configs import ConfigSource
from core.cluster.metadata import PartitionRow, Reassignment, TopicPartition
from core.plan.copies import Side
from core.plan.plan import Move
from core.run.engine import run_completion as finishing
from core.run.engine.move_outcome import CANCELLED_ELSEWHERE, CHANGED_ELSEWHERE, GONE
from core.run.engine.next_step import RULES, next_step
from core.run.journal.held_throttles import BatchThrottles, HeldThrottles
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind, Record
from core.run.journal.replay import fold_record
from core.run.journal.throttle_values import Key, ListIntent, RateIntent
from core.run.steps import (
    Cancel,
    ElectLeaders,
    End,
    Ending,
    IntendRates,
    IntendThrottles,
    NoteEnded,
    Observation,
    Poll,
    Postpone,
    Preflight,
    RemovePairs,
    Reorder,
    RestoreRates,
    SetRates,
    SetThrottles,
    Step,
    Submit,
)
from core.run.throttles.changes import sides
from core.run.throttles.rate_signals import out_of_step

LISTED = Reassignment((0, 2, 1, 3), (0,), (3,))
IN_FLIGHT = observed((0, 2, 1, 3), (3, 2, 1), listed=LISTED)


KEPT = {
    (broker, side): RateIntent(broker, side, "50", ConfigSource.BROKER, None)
    for broker, side in sides(MOVE)
}
"""Lower rates of somebody else's wherever the move needs one."""


def limited(rates: Mapping[Key, RateIntent]) -> dict[str, Any]:
    """Return a batch whose throttles are set, with these rates."""
    return {
        "throttles": HeldThrottles(batches={0: BatchThrottles((), (), set=True)}, rates={**rates})
    }


LIMITED = limited(KEPT)


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        ({"preflight": False}, Preflight()),
        ({}, IntendThrottles(0, (0,))),
        ({"throttles": HeldThrottles(batches={0: BatchThrottles((), ())})}, SetThrottles(0)),
        (LIMITED, Submit((0,))),
        (limited({k: r for k, r in KEPT.items() if k[0] != 2}), IntendRates(0, (2,))),
        ({"rate_bytes_per_s": -1}, Submit((0,))),
    ],
)
def test_steps_from_preflight_to_submission_come_in_order(
    past: dict[str, Any], expected: Step
) -> None:
    assert next_step(history(MOVE, **past), observed((3, 2, 1))) == expected


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        pytest.param(IN_FLIGHT, Poll(), id="in flight"),
        pytest.param(
            observed((0, 2, 1)),
            NoteEnded((Ending(0, Phase.DONE, leader=0),)),
            id="unlisted, as planned, in sync",
        ),
        pytest.param(
            observed((0, 2, 1), (2, 1)),
            Poll("foo-1 has moved, but broker 0 is not in its ISR"),
            id="not in sync yet",
        ),
        pytest.param(
            observed((0, 2, 1), (0, 2), alive=ALIVE - {1}),
            Poll("foo-1 has moved, but broker 1 is not in its ISR: it is down"),
            id="not in sync, for one that stays is down",
        ),
        pytest.param(observed((2, 0, 1)), Poll(), id="another order, perhaps only late"),
        pytest.param(
            observed((2, 0, 1), steady=5),
            NoteEnded(
                (Ending(0, Phase.FAILED, CHANGED_ELSEWHERE, 2),), f"foo-1 {CHANGED_ELSEWHERE}"
            ),
            id="another order for good",
        ),
        pytest.param(observed((3, 2, 1)), Poll(), id="as before, perhaps only late"),
        pytest.param(
            observed((3, 2, 1), steady=5),
            NoteEnded(
                (Ending(0, Phase.FAILED, CANCELLED_ELSEWHERE, 3),), f"foo-1 {CANCELLED_ELSEWHERE}"
            ),
            id="as before for good",
        ),
        pytest.param(
            observed((5, 2, 1, 3), listed=Reassignment((5, 2, 1, 3), (5,), (3,)), steady=5),
            NoteEnded((Ending(0, Phase.FAILED, CHANGED_ELSEWHERE),), f"foo-1 {CHANGED_ELSEWHERE}"),
            id="overridden",
        ),
        pytest.param(
            observed(None, steady=5, gone=True),
            NoteEnded((Ending(0, Phase.CANCELLED, GONE),)),
            id="deleted",
        ),
        pytest.param(
            observed(None, steady=5),
            Poll("foo-1 is not in the cluster's description: looked for again"),
            id="not shown",
        ),
        pytest.param(
            observed(None, steady=5, hidden="not to be seen"), Poll("not to be seen"), id="hidden"
        ),
        pytest.param(
            observed((0, 2, 1, 3), listed=LISTED, alive=frozenset((1, 2, 3))),
            Poll("broker 0 is down: foo-1 waits for it"),
            id="destination down",
        ),
    ],
)
def test_submitted_move_is_polled_or_ended_according_to_the_observation(
    observation: Observation, expected: Step
) -> None:
    assert next_step(history(MOVE, phase=Phase.SUBMITTED), observation) == expected


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        pytest.param(IN_FLIGHT, Poll(), id="it arrived"),
        pytest.param(
            observed((0, 2, 1)), NoteEnded((Ending(0, Phase.DONE, leader=0),)), id="it is done"
        ),
        pytest.param(observed((3, 2, 1)), Poll(), id="perhaps it comes"),
        pytest.param(observed((3, 2, 1), steady=5), Submit((0,)), id="it was lost"),
    ],
)
def test_unanswered_submission_is_polled_ended_or_repeated_when_lost(
    observation: Observation, expected: Step
) -> None:
    assert next_step(history(MOVE, phase=Phase.SUBMITTING), observation) == expected


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        pytest.param(
            observed(None, steady=5),
            Poll("foo-1 is not in the cluster's description: looked for again"),
            id="not shown",
        ),
        pytest.param(
            observed(None, steady=5, hidden="not to be seen"), Poll("not to be seen"), id="hidden"
        ),
        pytest.param(
            observed(None, steady=5, gone=True),
            NoteEnded((Ending(0, Phase.CANCELLED, GONE),)),
            id="deleted",
        ),
        pytest.param(
            observed((4, 2, 1)),
            Poll("foo-1 has other replicas than planned from: looked at again"),
            id="other replicas, perhaps of a broker that lags",
        ),
        pytest.param(
            observed((4, 2, 1), steady=5),
            NoteEnded((Ending(0, Phase.FAILED, "has other replicas than planned from", 4),)),
            id="other replicas for good",
        ),
    ],
)
def test_queued_move_with_unexpected_replicas_or_none_is_polled_or_ended(
    observation: Observation, expected: Step
) -> None:
    assert next_step(history(MOVE), observation) == expected


THEIRS = Reassignment((5, 2, 1, 3), (5,), (3,))
WAITS = "foo-1 is being moved by somebody else: waited for, never overridden"


def test_a_move_of_somebody_else_is_waited_for_and_never_overridden() -> None:
    past = history(MOVE, **LIMITED)
    assert next_step(past, observed((5, 2, 1, 3), listed=THEIRS, steady=9)) == Poll(WAITS)
    assert next_step(past, observed((3, 2, 1))) == Submit((0,))
    cancel(past)
    step = next_step(past, observed((5, 2, 1, 3), listed=THEIRS))
    assert step == NoteEnded((Ending(0, Phase.CANCELLED, "not started"),))


def test_a_move_of_somebody_else_holds_up_no_other_partition() -> None:
    other = move("foo", 2, (3, 2, 1), (0, 2, 1))
    past = history(MOVE, other)
    seen = observed((5, 2, 1, 3), listed=THEIRS)
    rows = {**seen.rows, other.tp: PartitionRow("foo", 2, 3, (3, 2, 1), (3, 2, 1))}
    seen = replace(seen, rows=rows)
    assert next_step(past, seen) == Postpone((0,), WAITS)
    fold_record(
        past,
        Record(1, NOON, Kind.POSTPONED, {"moves": [0], "why": WAITS}),
    )
    assert (past.moves[0].batch, past.batches, past.batch(0), past.batch(1)) == (1, 2, [1], [0])
    assert next_step(past, seen) == IntendThrottles(0, (1,))
    past.moves[1].phase = Phase.DONE
    assert next_step(past, seen) == Poll(WAITS)


def test_no_batch_starts_while_a_partition_is_under_min_insync() -> None:
    step = next_step(history(MOVE, min_insync={"foo": 2}), observed((3, 2, 1), (3,)))
    assert step == Poll("foo-1 has fewer than 2 replicas in sync: no further batch starts")


@pytest.mark.parametrize(
    ("replicas", "isr", "starts"),
    [
        ((3, 2, 1), (3, 2, 1), True),
        ((3, 2, 1), (3, 2), True),
        ((3, 2, 1), (3,), False),
        ((3, 2), (3,), True),
        ((3,), (3,), True),
    ],
)
def test_unknown_min_insync_counts_as_the_highest_that_tolerates_a_lost_broker(
    replicas: tuple[int, ...], isr: tuple[int, ...], starts: bool
) -> None:
    """Not known is not fine: it is taken for the most with which a broker may be lost."""
    past = history(move("foo", 1, replicas, (*replicas[:-1], 4)), min_insync={})
    step = next_step(past, observed(replicas, isr))
    if starts:
        assert step == IntendThrottles(0, (0,))
    else:
        assert step == Poll(
            "foo-1 has fewer than 2 replicas in sync, min.insync.replicas is not known: "
            "no further batch starts"
        )


UNDER = "foo-1 has fewer than 2 replicas in sync: no further batch starts"


@pytest.mark.parametrize(
    ("min_insync", "online", "slows", "step"),
    [
        (1, True, True, IntendThrottles(0, (0,))),
        (2, True, True, Poll(UNDER)),
        (1, False, False, IntendThrottles(0, (0,))),
        (2, False, False, IntendThrottles(0, (0,))),
    ],
    ids=["slow down", "stop", "offline", "offline, under min.insync"],
)
def test_run_slows_down_or_stops_only_for_lagging_replicas_whose_broker_is_up(
    min_insync: int, online: bool, slows: bool, step: Step
) -> None:
    """Two replicas, one in sync: nothing is to be won by waiting for one whose broker is down."""
    lost = () if online else (2,)
    state = cluster({"foo-1": [3, 2]}, isr={"foo-1": [3]}, dead=lost, brokers=range(4))
    assert bool(out_of_step(state)) is slows
    past = history(move("foo", 1, (3, 2), (3, 0)), min_insync={"foo": min_insync})
    assert next_step(past, observed((3, 2), (3,), alive=ALIVE - {*lost})) == step


def test_new_replicas_not_in_sync_yet_do_not_stop_the_next_batch() -> None:
    past = history(move("foo", 2, (3, 2), (3, 0)), min_insync={"foo": 3})
    seen = observed((0, 2, 1, 3), (2, 1), listed=LISTED, alive=ALIVE - {3})
    own = PartitionRow("foo", 2, 2, (3, 2), (3, 2))
    seen = replace(seen, rows={**seen.rows, TopicPartition("foo", 2): own})
    assert next_step(past, seen) == IntendThrottles(0, (0,))


def test_no_more_leaders_change_at_a_time_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cruise Control's case: of four leader moves a cap of three lets three go first."""
    monkeypatch.setattr(finishing, "MAX_ELECTED_AT_ONCE", 3)
    moves = [move("foo", n, (n, 2), (2, n)) for n in (3, 4, 5, 6)]
    past = history(*moves, phase=Phase.DONE, elect=True)
    seen = observed(None)
    assert finishing.elect(past, seen) == ElectLeaders((0, 1, 2))
    fold_record(past, Record(1, NOON, Kind.ELECTED, {"moves": [0, 2], "again": {"1": "why"}}))
    assert finishing.elect(past, seen) == ElectLeaders((3,)), "who has not had a turn goes first"


# -- cancelling, Kafka's cases --------------------------------------------------------------------


def cancelled(
    m: Move, observation: Observation, *, sent: bool = False, min_insync: int = 1
) -> Step:
    past = history(m, phase=Phase.SUBMITTED, cancel_requested=True, min_insync={"foo": min_insync})
    past.moves[0].cancel_intended = past.moves[0].cancel_sent = sent
    return next_step(past, observation)


def test_cancel_with_unknown_min_insync_requires_all_but_one_old_replica_in_sync() -> None:
    past = history(WIDE, phase=Phase.SUBMITTED, cancel_requested=True, min_insync={})
    seen = observed((4, 5, 3, 2, 1), (4, 5, 2), listed=WIDE_LISTED)
    assert isinstance(next_step(past, seen), Poll)
    seen = observed((4, 5, 3, 2, 1), (4, 5, 2, 1), listed=WIDE_LISTED)
    assert next_step(past, seen) == Cancel((0,))


WIDE = move("foo", 1, (3, 2, 1), (4, 5))
WIDE_LISTED = Reassignment((4, 5, 3, 2, 1), (4, 5), (3, 2, 1))


@pytest.mark.parametrize(
    ("isr", "min_insync", "clean"),
    [((4, 5, 2), 1, True), ((4, 5, 2), 2, False), ((4, 5), 1, False)],
)
def test_a_cancel_is_sent_only_when_it_would_be_clean(
    isr: tuple[int, ...], min_insync: int, clean: bool
) -> None:
    seen = observed((4, 5, 3, 2, 1), isr, listed=WIDE_LISTED)
    step = cancelled(WIDE, seen, min_insync=min_insync)
    if clean:
        assert step == Cancel((0,))
    else:
        assert isinstance(step, Poll)
        assert "cannot be cancelled" in step.waiting


@pytest.mark.parametrize(
    ("isr", "alive", "disks", "clean"),
    [
        ((1,), {1, 3}, {}, False),
        ((1,), {1}, {}, True),
        ((1,), {1, 3}, {3: "broker 3: log dir /d has failed"}, True),
        ((1, 4), {1, 4}, {}, False),
        ((4,), {4}, {}, False),
    ],
    ids=["3 comes", "3 is down", "3 has no disk", "4 would be lost", "none would be left"],
)
def test_move_that_can_never_finish_is_cancelled_only_if_no_in_sync_replica_is_lost(
    isr: tuple[int, ...], alive: set[int], disks: dict[int, str], clean: bool
) -> None:
    """Its other first replica is down, so that min.insync.replicas is not met either way."""
    m = move("foo", 1, (1, 2), (1, 3, 4))
    listed = Reassignment((1, 3, 4, 2), (3, 4), (2,))
    seen = observed((1, 3, 4, 2), isr, listed=listed, alive=frozenset(alive))
    step = cancelled(m, replace(seen, disks=disks), min_insync=2)
    if clean:
        assert step == Cancel((0,))
    else:
        assert isinstance(step, Poll)
        assert "cannot be cancelled" in step.waiting
        assert "bring broker" in step.waiting


def test_move_of_a_topic_with_fewer_replicas_than_min_insync_can_be_cancelled() -> None:
    m = move("foo", 1, (3,), (0,))
    listed = Reassignment((0, 3), (0,), (3,))
    assert cancelled(m, observed((0, 3), (3,), listed=listed), min_insync=2) == Cancel((0,))


@pytest.mark.parametrize(
    ("before", "after", "reverted"),
    [
        ((3, 2, 1), (0, 2, 1), (2, 1, 3)),
        ((4, 3, 2), (1, 2, 3, 4, 0), (2, 3, 4)),
    ],
)
def test_journalled_replica_order_is_submitted_after_a_cancel(
    before: tuple[int, ...], after: tuple[int, ...], reverted: tuple[int, ...]
) -> None:
    m = move("foo", 1, before, after)
    assert cancelled(m, observed(reverted), sent=True) == Reorder((0,))
    assert isinstance(cancelled(m, observed(before), sent=True), Poll), "it may be an old sight"
    assert cancelled(m, observed(before, steady=3), sent=True) == NoteEnded(
        (Ending(0, Phase.CANCELLED, "cancelled, order as before", before[0]),)
    )


def test_cancel_comes_before_throttle_cleanup_and_cleanup_before_polling() -> None:
    """What cannot be given back now must not keep moves from being cancelled."""
    past = history(MOVE, phase=Phase.SUBMITTED, cancel_requested=True)
    past.throttles.lists = {
        ("foo", Side.LEADER): ListIntent("foo", Side.LEADER, None, ("7:1", "1:3"))
    }
    assert next_step(past, IN_FLIGHT) == Cancel((0,))
    past.moves[0].cancel_sent = True
    assert next_step(past, IN_FLIGHT) == RemovePairs((("foo", Side.LEADER, ("7:1",)),))


def test_a_cancel_that_is_on_its_way_is_waited_for_and_then_repeated() -> None:
    assert cancelled(MOVE, IN_FLIGHT, sent=True) == Poll()
    late = observed((0, 2, 1, 3), (3, 2, 1), listed=LISTED, steady=5)
    assert cancelled(MOVE, late, sent=True) == Cancel((0,))


def test_cancel_does_not_wait_for_the_isr_of_a_move_that_has_finished() -> None:
    assert isinstance(cancelled(MOVE, observed((0, 2, 1), (2, 1))), Poll)
    assert cancelled(MOVE, observed((0, 2, 1), (2, 1), steady=5)) == NoteEnded(
        (Ending(0, Phase.DONE, "done, but broker 0 is not in its ISR", 2),)
    )


def test_a_move_that_was_done_before_the_cancel_came_stays_done() -> None:
    """A look right after it may still show both replicas, and that nothing is in flight."""
    in_doubt = cancelled(MOVE, observed((0, 2, 1, 3), (0, 2, 1, 3)), sent=True)
    assert isinstance(in_doubt, Poll)
    step = cancelled(MOVE, observed((0, 2, 1)), sent=True)
    assert step == NoteEnded((Ending(0, Phase.DONE, leader=0),))


# -- giving back ----------------------------------------------------------------------------------


def rate(broker: int, side: Side) -> RateIntent:
    return RateIntent(broker, side, None, ConfigSource.DEFAULT, 100)


def test_throttle_list_pairs_are_removed_before_rates_and_rates_before_the_end() -> None:
    past = history(MOVE, phase=Phase.DONE)
    past.throttles.lists = {
        ("foo", Side.LEADER): ListIntent("foo", Side.LEADER, None, ("1:0", "1:2"))
    }
    past.throttles.rates = {(0, Side.LEADER): rate(0, Side.LEADER)}
    seen = observed((0, 2, 1))
    assert next_step(past, seen) == RemovePairs((("foo", Side.LEADER, ("1:0", "1:2")),))
    past.throttles.lists = {}
    assert next_step(past, seen) == RestoreRates(((0, Side.LEADER),))
    past.throttles.rates = {}
    assert next_step(past, seen) == End(Outcome.DONE)


def test_throttle_rate_stays_while_a_foreign_move_begun_during_the_run_uses_it() -> None:
    past = history(MOVE, phase=Phase.DONE)
    past.throttles.rates = {(5, Side.FOLLOWER): rate(5, Side.FOLLOWER)}
    foreign = {TopicPartition("bar", 0): Reassignment((1, 5), (5,), ())}
    seen = observed((0, 2, 1), external_moves=foreign)
    assert next_step(past, seen) == Poll(
        "bar-0, not ours, still uses the throttle of broker 5 (a cancel leaves it)"
    )
    past.foreign_before = frozenset(foreign)
    assert next_step(past, seen) == RestoreRates(((5, Side.FOLLOWER),))


def test_throttles_of_an_overridden_partition_stay_until_its_foreign_move_has_ended() -> None:
    """Their move may need the very same entries and rates."""
    past = history(MOVE, phase=Phase.FAILED)
    past.moves[0].why = CHANGED_ELSEWHERE
    past.throttles.lists = {("foo", Side.LEADER): ListIntent("foo", Side.LEADER, None, ("1:2",))}
    theirs = observed((5, 2, 1, 3), listed=Reassignment((5, 2, 1, 3), (5,), (3,)), steady=5)
    waits = Poll("foo-1, not ours, still uses the throttle list of foo (a cancel leaves it)")
    assert next_step(past, theirs) == waits
    past.throttles.rates = {(2, Side.LEADER): rate(2, Side.LEADER)}
    assert next_step(past, theirs) == waits
    there = observed((5, 2, 1))
    assert next_step(past, there) == RemovePairs((("foo", Side.LEADER, ("1:2",)),))
    past.throttles.lists = {}
    assert next_step(past, theirs) == Poll(
        "foo-1, not ours, still uses the throttle of broker 2 (a cancel leaves it)"
    )
    assert next_step(past, there) == RestoreRates(((2, Side.LEADER),))


@pytest.mark.parametrize(
    ("phases", "past", "outcome"),
    [
        ((Phase.DONE, Phase.DONE), {}, Outcome.DONE),
        ((Phase.DONE, Phase.FAILED), {}, Outcome.INCOMPLETE),
        ((Phase.FAILED, Phase.FAILED), {}, Outcome.FAILED),
        ((Phase.DONE, Phase.CANCELLED), {"cancel_requested": True}, Outcome.CANCELLED),
        ((Phase.DONE, Phase.DONE), {"cancel_requested": True}, Outcome.DONE),
        ((Phase.CANCELLED, Phase.FAILED), {"cancel_requested": True}, Outcome.INCOMPLETE),
    ],
)
def test_outcome_of_a_run_follows_from_the_phases_of_its_moves(
    phases: tuple[Phase, ...], past: dict[str, Any], outcome: Outcome
) -> None:
    run = history(MOVE, move("foo", 2, (1,), (2,)), **past)
    for m, phase in zip(run.moves, phases, strict=True):
        m.phase = phase
    step = next_step(run, observed((0, 2, 1)))
    assert isinstance(step, End)
    assert step.outcome is outcome


def test_rate_of_a_broker_that_returned_is_intended_first_and_then_set() -> None:
    past = history(MOVE, phase=Phase.SUBMITTED, **limited({}))
    past.throttles.rates = {(b, Side.LEADER): rate(b, Side.LEADER) for b in (0, 2, 3)}
    past.throttles.rates[0, Side.FOLLOWER] = rate(0, Side.FOLLOWER)
    down = observed((0, 2, 1, 3), (3, 2), listed=LISTED, alive=frozenset((0, 2, 3)))
    assert next_step(past, down) == Poll()
    assert next_step(past, IN_FLIGHT) == IntendRates(0, (1,))
    intent = rate(1, Side.LEADER).to_json()
    fold_record(past, Record(1, NOON, Kind.RATE_INTENT, {"batch": 0, "rates": [intent]}))
    assert next_step(past, IN_FLIGHT) == SetRates(0, ((1, Side.LEADER),))
    assert next_step(past, down) == Poll(), "it is down again"
    fold_record(past, Record(2, NOON, Kind.RATE_SET, {"batch": 0, "rates": [[1, "leader"]]}))
    assert next_step(past, IN_FLIGHT) == Poll()


@pytest.mark.parametrize(
    ("phases", "outcome"),
    [
        ((Phase.CANCELLED, Phase.CANCELLED), Outcome.INCOMPLETE),
        ((Phase.DONE, Phase.CANCELLED), Outcome.DONE),
    ],
)
def test_run_whose_topics_were_all_deleted_is_incomplete_not_done(
    phases: tuple[Phase, ...], outcome: Outcome
) -> None:
    run = history(MOVE, move("foo", 2, (1,), (2,)))
    for m, phase in zip(run.moves, phases, strict=True):
        m.phase, m.why = phase, GONE if phase is Phase.CANCELLED else ""
    why = "" if outcome is Outcome.DONE else "nothing was left to move: every topic was deleted"
    assert next_step(run, observed(None)) == End(outcome, why)


def test_cancelled_run_that_left_a_replica_out_of_sync_is_cancelled_not_done() -> None:
    run = history(MOVE, phase=Phase.DONE, cancel_requested=True)
    run.moves[0].why = "done, but broker 0 is not in its ISR"
    assert next_step(run, observed((0, 2, 1), (2, 1))) == End(Outcome.CANCELLED)


def test_replica_left_out_of_sync_by_one_cancelled_move_makes_the_run_incomplete() -> None:
    run = history(MOVE, phase=Phase.DONE)
    run.moves[0].why = "done, but broker 0 is not in its ISR"
    ended = End(Outcome.INCOMPLETE, f"{MOVE.tp}: done, but broker 0 is not in its ISR")
    assert next_step(run, observed((0, 2, 1), (2, 1))) == ended


DOCS = Path(__file__).resolve().parents[4] / "docs" / "reference" / "run-states.md"


def test_run_states_document_matches_the_code() -> None:
    assert DOCS.read_text(encoding="utf-8") == run_states_page.document(), "run: make docs"


def test_every_rule_says_when_it_holds_and_which_steps_it_takes() -> None:
    assert len(run_states_page.rows()) == len(RULES)
    for name, when, chosen in run_states_page.rows():
        assert when.endswith("."), name
        assert chosen, name
