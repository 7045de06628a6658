"""Computes ahead in threads: the suggestion for a cell, the plan's throttle table.

It begins once the cursor rests; an answer to something that is no longer asked is dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from core.cluster.access.hidden_topics import is_partial
from core.load.view.heat import Metric, carried_values
from core.plan.effect import BrokerUsage, compute_effect, current_totals
from core.plan.plan import Plan
from tui.map.drawing.preview import Preview
from tui.memoize import memoize_last
from tui.plan.assessment_worker import AssessmentWorker

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.timer import Timer

    from core.cluster.state import ClusterState
    from core.load.load import Load
    from core.plan.estimate.estimate import Estimate
    from core.plan.single_move import Suggestion
    from tui.map.drag import Drag
    from tui.map.view import Model
    from tui.screen.base import DashboardScreen

REST_SECONDS = 0.12
"""How long the cursor must rest before what is slow to work out is worked out."""


class RatesKey(NamedTuple):
    """What a throttle table hangs on."""

    moves: object
    facts: object
    calibration: object


class RatesReady(NamedTuple):
    """A throttle table for a key that may be old; `held` is what was carried upon which plan."""

    key: RatesKey | None
    held: object
    rates: tuple[Estimate, ...]


class SuggestionReady(NamedTuple):
    """The move suggested for what a key stands for, and what it takes; None for no move."""

    key: object
    suggestion: Suggestion | None
    estimate: Estimate | None


@dataclass(frozen=True, eq=False)
class PictureFacts:
    """What is reckoned of a picture once, however often it is drawn."""

    state: ClusterState
    load: Load

    @cached_property
    def totals(self) -> BrokerUsage:
        return current_totals(self.state, self.load)

    @cached_property
    def facts(self) -> object:
        """Return what answers hang on; sizes grow with every look, and count as known only."""
        state = self.state
        return (
            state.metadata_hash,
            tuple((broker.id, broker.alive) for broker in state.brokers),
            state.leader.tobytes(),
            state.in_sync.tobytes(),
            (state.partition_size_bytes < 0).tobytes(),
            self.load.as_of,
        )


class MapEstimates:
    """Has worked out what is missing for the `model` on the screen and the `drag` over it."""

    def __init__(
        self,
        screen: DashboardScreen,
        model: Callable[[], Model | None],
        drag: Callable[[], Drag | None],
    ) -> None:
        self._screen, self._model, self._drag = screen, model, drag
        self._suggestion: SuggestionReady | None = None
        self._rates: RatesReady | None = None
        self._assessing = AssessmentWorker(
            screen, self._store_rates, lambda error: None, group="rates", rest_seconds=0.0
        )
        self._pending_rates: RatesKey | None = None
        self._pending_suggestion: object = None
        self._timer: Timer | None = None
        self._facts = memoize_last(PictureFacts)

    @property
    def plan(self) -> Plan:
        """Return the plan, with what is carried dropped where it is."""
        session, drag = self._screen.session, self._drag()
        if drag is None or session.state is None:
            return session.plan
        return drag.dropped(session.state, session.plan)

    @property
    def preview(self) -> Preview:
        """Return what that plan would do, as far as it is known."""
        session = self._screen.session
        assert session.state is not None
        assert session.load is not None
        plan, known = self.plan, self._rates
        rates: tuple[Estimate, ...] | None = None
        of_before = False
        if not plan.moves:
            rates = ()
        elif known is not None and known.key is not None and known.key.moves == plan.moves:
            # Of facts of seconds ago, perhaps: until newer ones are worked out, they hold.
            rates = known.rates
        elif known is not None and known.held is not None and known.held == self._held:
            # While the same is carried, the table of the column before is better than none.
            rates, of_before = known.rates, True
        before = self._facts(session.state, session.load).totals
        effect = compute_effect(session.state, session.load, plan, before)
        return Preview(plan, effect, rates, session.rate_bytes_per_s, of_before)

    @property
    def _held(self) -> object:
        drag = self._drag()
        return None if drag is None else (self._screen.session.plan.moves, drag.sources)

    @property
    def suggestion(self) -> Suggestion | None:
        known = self._known_suggestion
        return known.suggestion if known else None

    @property
    def suggestion_estimate(self) -> Estimate | None:
        known = self._known_suggestion
        return known.estimate if known else None

    @property
    def why_none(self) -> str:
        """Return why no move is suggested: that is not worked out, not known, or there is none."""
        model = self._model()
        worked_out = "What would help here is being worked out: ask again in a moment."
        if model is None:
            return worked_out
        metric, column = model.view.metric, model.totals.brokers.tolist().index(model.broker)
        value = float(model.totals.values[metric][column])
        if math.isnan(value):
            return f"What broker {model.broker} carries is not known yet: nothing can be suggested."
        if self._known_suggestion is None:
            return worked_out
        if value <= float(model.totals.fair[metric][column]):
            known = self._is_whole(model, metric, column)
            far = "" if known else ", as far as is known"
            return f"Nothing to suggest here: this broker is at or below its fair share{far}."
        return f"No single move helps broker {model.broker} here."

    @staticmethod
    def _is_whole(model: Model, metric: Metric, column: int) -> bool:
        """Return whether all is known of what a broker carries, and no topic is hidden."""
        _, columns, values = carried_values(model.state, model.load, metric)
        unknown = np.isnan(values[columns == column]).any()
        return not (unknown or is_partial(model.state.hidden))

    @property
    def _known_suggestion(self) -> SuggestionReady | None:
        known = self._suggestion
        return known if known is not None and known.key == self._suggestion_key() else None

    def _rates_key(self, plan: Plan) -> RatesKey | None:
        session = self._screen.session
        if session.state is None or session.load is None:
            return None
        facts = self._facts(session.state, session.load).facts
        return RatesKey(plan.moves, facts, session.calibration)

    def _suggestion_key(self) -> object:
        model, session = self._model(), self._screen.session
        if model is None or self._drag() is not None:
            return None
        return (
            self._facts(model.state, model.load).facts,
            model.view.metric,
            model.topic if model.rows else None,
            model.broker,
            session.plan.moves,
            session.rate_bytes_per_s,
        )

    @property
    def _missing(self) -> tuple[bool, bool]:
        """Return whether the throttle table, and whether the suggestion, is yet to be found."""
        plan, key = self.plan, self._suggestion_key()
        rates = bool(plan.moves) and (
            self._rates is None or self._rates.key != self._rates_key(plan)
        )
        return rates, key is not None and self._known_suggestion is None

    @property
    def busy(self) -> bool:
        """Return whether something is still being worked out."""
        is_pending = self._timer is not None or self._pending_rates is not None
        return is_pending or self._pending_suggestion is not None

    def compute_soon(self) -> None:
        """Work out what is missing once the cursor rests."""
        self._stop_timer()
        if not self.plan.moves:
            self._assessing.forget()
            self._pending_rates = None
        if any(self._missing):
            self._timer = self._screen.set_timer(REST_SECONDS, self.compute)

    def compute(self) -> None:
        """Work out in threads what is missing and was not yet asked for."""
        session = self._screen.session
        if session.state is None or session.load is None or self._model() is None:
            return
        self._stop_timer()
        rates, suggestion = self._missing
        if rates:
            self._request_rates()
        if suggestion and self._pending_suggestion != self._suggestion_key():
            self._request_suggestion()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _request_rates(self) -> None:
        session, plan = self._screen.session, self.plan
        state, load = session.state, session.load
        assert state is not None
        assert load is not None
        key, held, learned = self._rates_key(plan), self._held, session.calibration

        def rates(go_on: Callable[[], None]) -> RatesReady:
            from core.plan.estimate.calibration import NOTHING_LEARNED
            from core.plan.estimate.rate_table import rate_table

            calibration = learned or NOTHING_LEARNED
            estimates = rate_table(state, load, plan, calibration=calibration, go_on=go_on)
            return RatesReady(key, held, estimates)

        if self._assessing.ask(plan, session.rate_bytes_per_s, rates):
            self._pending_rates = key

    def _store_rates(self, table: RatesReady) -> None:
        """Take a throttle table, unless something else has been asked meanwhile."""
        if table.key != self._pending_rates:
            return
        session = self._screen.session
        self._rates, self._pending_rates = table, None
        if self._drag() is None:
            from core.plan.estimate.rate_table import default_rate

            session.propose_rate(default_rate(table.rates))
        self._screen.show(session)

    def _request_suggestion(self) -> None:
        session, model = self._screen.session, self._model()
        assert model is not None
        key = self._pending_suggestion = self._suggestion_key()
        state, load = model.state, model.load
        metric, broker, topic = model.view.metric, model.broker, model.topic
        rate, base, known = session.rate_bytes_per_s, session.plan, session.calibration

        def suggest() -> SuggestionReady:
            from core.plan.estimate.calibration import NOTHING_LEARNED
            from core.plan.estimate.estimate import estimate_at
            from core.plan.single_move import suggest_move

            suggestion = suggest_move(state, load, base, metric=metric, broker=broker, topic=topic)
            estimate = None
            if suggestion is not None and not suggestion.only_leader:
                alone = Plan.of(
                    [suggestion.plan.by_partition[suggestion.tp]], cluster_id=state.cluster_id
                )
                learned = known or NOTHING_LEARNED
                estimate = estimate_at(state, load, alone, rate, calibration=learned)
            return SuggestionReady(key, suggestion, estimate)

        self._screen.run_in_thread("suggestion", suggest, self._store_suggestion)

    def _store_suggestion(self, answer: SuggestionReady) -> None:
        if answer.key == self._pending_suggestion:
            self._suggestion, self._pending_suggestion = answer, None
            self._screen.show(self._screen.session)
