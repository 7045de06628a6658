"""A run that is told in mid-run to adapt its rate: its own load is not what producers waited."""

from __future__ import annotations

from run_help import MB, Start, cluster, plan_of

from core.run.control import request
from core.run.journal.move_state import Outcome
from core.run.journal.rates import RateBounds
from core.run.journal.records import Kind
from core.run.steps import NoteBaseline, Submit


def test_nothing_is_measured_under_its_own_load_and_no_batch_waits_for_that(start: Start) -> None:
    client = cluster({"t": [(1, 2)] * 2}, size_bytes=60 * MB)
    plan = plan_of(client, {("t", p): (3, 2) for p in range(2)})
    run = start(client, plan, batch_size=1)
    run.until(lambda step: isinstance(step, Submit))
    history = run.runner.state
    bounds = RateBounds(2 * MB, 20 * MB).to_json()
    request(history.cluster_id, history.run_id, "throttle", {"auto": bounds})
    asked_at = client.elapsed_seconds
    run.until(lambda step: isinstance(step, NoteBaseline))
    assert client.elapsed_seconds - asked_at < 5
    (measured,) = (r.payload for r in run.journal.records() if r.kind is Kind.MEASURED)
    assert measured == {
        "before": [],
        "trouble": "what producers waited before the run is not known: it has begun",
    }
    assert run.to_the_end() is Outcome.DONE
