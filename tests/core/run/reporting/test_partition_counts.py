"""What is told of runs that were changed on their way: partitions are counted, not their moves."""

from __future__ import annotations

from dataclasses import replace

from run_help import MB, Run, Start, ask, cluster, plan_of, spend, submitted

from core.run.journal.move_state import Outcome, Phase
from core.run.reporting.alerts import NoticeTracker
from core.run.reporting.documents import end
from core.run.reporting.notifier import notice
from core.run.reporting.report import headline, markdown
from core.run.reporting.views import RunStatus, summary


def told(run: Run) -> list[str]:
    """Return each place that counts what a run has done."""
    view, history = run.view(), run.runner.state
    notices = NoticeTracker()
    notices.seen(replace(view, state=RunStatus.RUNNING))
    called_out = notices.seen(view)
    assert called_out is not None
    document = notice("ended", history, run.client.now, "")
    listed = summary(view)
    return [
        headline(view),
        view.events[-1].text,
        markdown(run.look()),
        called_out.text,
        document["text"],
        f"{document['done']} of {document['moves']} done",
        f"{listed.done} of {listed.moves} done",
    ]


def test_a_partition_that_went_elsewhere_is_counted_once(start: Start) -> None:
    client = cluster({"t": [(1, 2)] * 2}, size_bytes=60 * MB)
    run = start(client, plan_of(client, {("t", p): (3, 2) for p in range(2)}))
    run.until(submitted)
    ask(run, "retarget", move=0, after=[4, 2])
    assert run.to_the_end() is Outcome.DONE
    assert len(run.runner.state.moves) == 3
    assert all("2 of 2" in words for words in told(run)), told(run)
    view = run.view()
    assert (view.undone, view.moved_away) == (0, 2)


def test_a_run_that_is_rolled_back_says_so_to_its_end_and_leaves_nothing_to_roll_back(
    start: Start,
) -> None:
    client = cluster({"t": [(1, 2)] * 4})
    run = start(client, plan_of(client, {("t", p): (3, 2) for p in range(4)}), batch_size=1)
    run.until(lambda _: sum(m.phase is Phase.DONE for m in run.runner.state.moves) == 2)
    ask(run, "pause", floor=False)
    spend(run, 20)
    assert run.view().state is RunStatus.PAUSED
    ask(run, "rollback")
    states, away = set(), []
    while run.runner.state.ended is None:
        run.runner.advance()
        states.add(run.view().state)
        away.append(run.view().moved_away)
        assert summary(run.view()).moved_away == away[-1]
    assert states == {RunStatus.ROLLING_BACK, RunStatus.ROLLED_BACK}
    assert len(run.runner.state.moves) == 6
    assert all("2 of 4" in words for words in told(run)), told(run)
    assert headline(run.view()).split(": ")[1].startswith("rolled-back, 2 of 4 done")
    assert run.view().events[-1].text.startswith("rolled back: 2 of 4 partitions")
    ended = end(run.view())
    assert (ended["outcome"], ended["why"]) == ("cancelled", "rolled back")
    assert sorted(set(away), reverse=True) == [2, 1, 0]


def test_a_roll_back_that_is_paused_says_so(start: Start) -> None:
    client = cluster({"t": [(1, 2)] * 4})
    run = start(client, plan_of(client, {("t", p): (3, 2) for p in range(4)}), batch_size=1)
    run.until(lambda _: sum(m.phase is Phase.DONE for m in run.runner.state.moves) == 2)
    ask(run, "rollback")
    run.until(lambda step: submitted(step) and run.runner.state.rolling_back)
    ask(run, "pause", floor=False)
    spend(run, 5)
    assert run.view().state is RunStatus.PAUSED
