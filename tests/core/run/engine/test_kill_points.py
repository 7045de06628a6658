"""A run that dies goes on: a part of the kill points, on the simulator; `make chaos` plays all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from chaos.dying import Doom, Where
from chaos.kill_points import (
    AuditVerdict,
    Case,
    cancelled_and_killed,
    every_cancel,
    every_death,
    judged,
    repeated_deaths,
)
from chaos.storm import Storm

from core.run.journal.move_state import Outcome

pytestmark = pytest.mark.long

CANCELLED = (Outcome.CANCELLED, Outcome.DONE)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> AuditVerdict:
    """The run that nothing befalls: how many records, calls and looks it has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRIMTAB_HOME", str(tmp_path_factory.mktemp("quiet")))
        return judged(Case())


def play(cases: Sequence[Case], ends: Sequence[Outcome] = (Outcome.DONE,)) -> None:
    wrong = [(str(v.case), v.wrong) for v in (judged(case, ends) for case in cases) if v.wrong]
    assert cases
    assert not wrong


def test_run_among_foreign_throttles_leaves_everything_as_it_was(quiet: AuditVerdict) -> None:
    assert (quiet.outcome, quiet.wrong) == (Outcome.DONE, ())


@pytest.mark.parametrize("where", [w for w in Where if w.kills])
def test_a_run_that_is_killed_anywhere_ends_as_planned(quiet: AuditVerdict, where: Where) -> None:
    points = list(every_death(quiet, where))
    play(points[:: max(1, len(points) // 4)])


@pytest.mark.parametrize("where", [Where.LOST, Where.NEVER, Where.FULL])
def test_lost_answer_or_full_disk_only_delays_the_run(quiet: AuditVerdict, where: Where) -> None:
    points = list(every_death(quiet, where))
    play(points[1 :: max(1, len(points) // 2)])


@pytest.mark.parametrize("call", [1, 2, 12])
def test_timed_out_call_that_takes_effect_late_leaves_nothing_wrong_in_the_cluster(
    quiet: AuditVerdict, call: int
) -> None:
    play([Case((Doom(Where.LATE, call),))], tuple(Outcome))


def test_a_run_that_dies_while_it_recovers_ends_as_planned(quiet: AuditVerdict) -> None:
    play(list(repeated_deaths(quiet, seed=1, count=3)))


def test_run_whose_every_process_writes_only_an_intent_and_its_end_ends_as_planned(
    quiet: AuditVerdict,
) -> None:
    """Each life writes that it started, and two records more."""
    play([Case((Doom(Where.AFTER, 3),) * quiet.records)])


def test_cancel_at_any_step_restores_the_replica_order_and_every_throttle(
    quiet: AuditVerdict,
) -> None:
    cases = list(every_cancel(quiet))
    play(cases[2 :: len(cases) // 4], CANCELLED)
    play(list(cancelled_and_killed(quiet, seed=1, count=2)), CANCELLED)


@pytest.mark.parametrize("seed", range(1, 6))
def test_run_amid_random_faults_and_edits_loses_nothing_and_leaves_nothing_behind(
    seed: int,
) -> None:
    """Brokers go and return, others move and edit, answers are lost, the process is killed."""
    report = Storm(seed).play()
    assert not report.wrong, report.happened
