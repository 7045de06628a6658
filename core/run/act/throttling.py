"""Throttles set and put back in the cluster: each intent journalled, each change read back.

What is to be set, and what puts it back exactly, is `core.run.limits.throttle`'s to say.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from core.cluster.client import ConfigChange, ConfigOp, Fault, Resource, ResourceKind
from core.cluster.faults import is_missing, passes
from core.errors import AccessDeniedError
from core.plan.plan import Move
from core.plan.throttle_lists import ALL, entries, joined
from core.run.act.returning import READ_BACK_SECONDS, Lists, Returning
from core.run.decide.keeping import lost_rate, note_disturbed
from core.run.decide.steps import LostPairs, LostRate, Observed
from core.run.limits import throttle
from core.run.limits.throttle import ListIntent, RateIntent
from core.run.record.history import BatchThrottle
from core.run.record.holdings import Key
from core.run.record.journal import Kind

RETURNED_SECONDS = 1.0
"""How soon a broker that has just come back, and has no rate yet, is asked again."""
LAG_SECONDS = 1.0
"""For how long one broker may show what another does not any more."""
UNANSWERED_SECONDS = 12.0
"""How long what was not answered may act yet: one that hangs for longer is fenced, and down."""


class Throttling(Returning):
    """The throttles of one run."""

    def set_up(self, batch: int, observed: Observed | None) -> None:
        """Intend a batch's throttles, or set them; a cluster that says no fails one not begun."""
        try:
            if observed is not None:
                self._intend(batch, observed)
            else:
                self._set_throttles(batch)
        except AccessDeniedError as error:
            if self._flies(batch):
                raise
            self._chronicle.write(Kind.THROTTLE_FAILED, batch=batch, why=error.title.rstrip("."))

    def _flies(self, batch: int) -> bool:
        """Return whether moves go on without a limit until it can be set: nothing fails by that."""
        moves = self._history.moves
        return any(moves[index].phase.in_flight for index in self._history.batch(batch))

    def _intend(self, batch: int, observed: Observed) -> None:
        moves = [m.move for m in self._left_of(batch)]
        topics, brokers = throttle.resources(moves, observed.alive)
        found = self._configs(topics, throttle.LISTS)
        found |= self._configs([Resource.broker(b) for b in sorted(brokers)], throttle.RATES)
        faults = {r: a for r, a in found.items() if isinstance(a, Fault) and not is_missing(a)}
        if faults and (self._flies(batch) or all(passes(f) for f in faults.values())):
            self._set_later(_first_fault("reading", faults))  # one that died is not shown so yet
            return
        if faults:
            self._chronicle.write(
                Kind.THROTTLE_FAILED, batch=batch, why=_first_fault("reading", faults)
            )
            return
        lists = throttle.intend_lists(moves, found, self._history.lists)
        rates = self._rates(moves, found)
        self._chronicle.write(
            Kind.THROTTLE_INTENT,
            batch=batch,
            lists=[i.to_json() for i in lists],
            rates=[r.to_json() for r in rates],
            foreign=[list(tp) for tp in observed.reassignments],
        )

    def _set_throttles(self, batch: int) -> None:
        intent = self._history.still_wanted(batch)
        why, unknown = self._refused(intent.lists, intent.rates)
        if not why:
            self._chronicle.write(Kind.THROTTLE_SET, batch=batch)
            return
        if self._flies(batch):
            self._set_later(why)
            return
        if unknown:
            self._chronicle.note_waiting(f"{why}: whether it acts late is waited for")
            self._clock.sleep(UNANSWERED_SECONDS)
        self._take_back_unseen(intent)
        self._chronicle.write(
            Kind.THROTTLE_FAILED,
            batch=batch,
            why=why,
            unknown={
                "topics": sorted(r.name for r in unknown if r.kind is ResourceKind.TOPIC),
                "brokers": sorted(int(r.name) for r in unknown if r.kind is ResourceKind.BROKER),
            },
        )

    def intend_rates(self, batch: int, brokers: tuple[int, ...]) -> None:
        """Journal the rates of brokers that are back; one that does not answer is waited for."""
        moves = [self._history.moves[i].move for i in self._history.in_flight]
        found = self._configs([Resource.broker(b) for b in brokers], throttle.RATES)
        faults = {r: a for r, a in found.items() if isinstance(a, Fault)}
        answered = {r: a for r, a in found.items() if r not in faults}
        rates = self._rates(moves, answered)
        if rates:
            self._chronicle.write(
                Kind.RATE_INTENT, batch=batch, rates=[rate.to_json() for rate in rates]
            )
        if faults:
            self._set_later(_first_fault("reading", faults))

    def set_rates(self, batch: int, keys: tuple[tuple[int, throttle.Side], ...]) -> None:
        """Set rates that were journalled for brokers that are back; where refused, wait."""
        why, _ = self._refused((), [self._history.rates_due[key] for key in keys])
        if why:
            self._set_later(why)
        else:
            rates = [[broker, side.value] for broker, side in keys]
            self._chronicle.write(Kind.RATE_SET, batch=batch, rates=rates)

    def change_rates(self, wanted: tuple[tuple[Key, int], ...], why: str) -> None:
        """Change rates of ours; what is refused now is due, and set as soon as it can be.

        Each is read first: one that somebody else has changed meanwhile is theirs.
        """
        ours = self._history.rates
        brokers = sorted({broker for (broker, _), _ in wanted})
        found = self._configs([Resource.broker(b) for b in brokers], throttle.RATES)
        faults = {r: a for r, a in found.items() if isinstance(a, Fault)}
        wanted = tuple(w for w in wanted if Resource.broker(w[0][0]) not in faults)
        lost = {
            key: lost_rate(self._history, key, found[Resource.broker(key[0])])
            for key, _ in wanted
            if not throttle.is_ours(ours[key], found[Resource.broker(key[0])])
        }
        if lost:
            self.note_lost(tuple(lost.values()), ())
        rates: list[Any] = [
            {"broker": broker, "side": side.value, "rate_bytes_per_s": rate}
            for (broker, side), rate in wanted
            if (broker, side) not in lost
        ]
        refused = _first_fault("reading", faults) if faults else ""
        if rates:
            self._chronicle.write(Kind.RATES_CHANGING, rates=rates, why=why)
            keys = [(rate["broker"], throttle.Side(rate["side"])) for rate in rates]
            unset, _ = self._refused((), [self._history.rates[key] for key in keys])
            refused = refused or unset
            if not unset:
                changed = [[broker, side.value] for broker, side in keys]
                self._chronicle.write(Kind.RATES_CHANGED, rates=changed)
        if refused:
            self._set_later(refused)

    def note_lost(self, rates: tuple[LostRate, ...], lists: tuple[LostPairs, ...]) -> None:
        """Journal what somebody else did to our throttles."""
        self._done(
            Kind.DISTURBED,
            rates=[lost.to_json() for lost in rates],
            lists=[lost.to_json() for lost in lists],
        )

    def are_in_force(self, observed: Observed) -> bool:
        """Return whether nobody has changed throttles of ours; journal what somebody has.

        Asked before moves begin, as looks are seconds apart; what is odd is read twice.
        """
        lists = self._history.lists.values()
        rates = [r for r in self._history.rates.values() if r.broker in observed.alive]
        found = self._found(lists, rates)
        if note_disturbed(self._history, replace(observed, throttles=found)) is None:
            return True
        self._clock.sleep(LAG_SECONDS)
        again = self._found(lists, rates)
        alike = {resource: a for resource, a in again.items() if found.get(resource) == a}
        lost = note_disturbed(self._history, replace(observed, throttles=alike))
        if lost is not None:
            self.note_lost(lost.rates, lost.lists)
        return lost is None

    def take_pairs(self, lists: Lists, why: str) -> None:
        """Take pairs out of lists for a while; they stay ours."""
        payload: list[Any] = [[topic, side.value, list(pairs)] for topic, side, pairs in lists]
        self._intend_once(Kind.PAIRS_TAKING, lists=payload, why=why)
        changes = [
            ConfigChange(
                Resource.topic(topic), side.list_config, ConfigOp.SUBTRACT, joined(set(pairs))
            )
            for topic, side, pairs in lists
        ]
        failed = self._put_back(changes, throttle.LISTS, {})
        done = [entry for entry in payload if Resource.topic(entry[0]) not in failed]
        if done:
            self._done(Kind.PAIRS_TAKEN, lists=done)
        self._wait_for(failed)

    def put_pairs(self, lists: Lists) -> None:
        """Put pairs of ours back into their lists, and read them back.

        A list that somebody has set to `*` meanwhile holds them already, and takes no more.
        """
        found = self._configs(
            [Resource.topic(t) for t in sorted({e[0] for e in lists})], throttle.LISTS
        )
        whole = [entry for entry in lists if _holds_all(found[Resource.topic(entry[0])], entry[1])]
        if whole:
            done = [[topic, side.value, list(pairs)] for topic, side, pairs in whole]
            self._done(Kind.PAIRS_PUT, lists=done)
        lists = tuple(entry for entry in lists if entry not in whole)
        if not lists:
            return
        payload: list[Any] = [[topic, side.value, list(pairs)] for topic, side, pairs in lists]
        self._intend_once(Kind.PAIRS_PUTTING, lists=payload)
        wanted = [ListIntent(topic, side, None, pairs) for topic, side, pairs in lists]
        why, _ = self._refused(wanted, ())
        if why:
            self._set_later(why)
        else:
            self._done(Kind.PAIRS_PUT, lists=payload)

    def _set_later(self, why: str) -> None:
        """Moves are in flight: they go on without this rate until it can be set."""
        self._chronicle.note_waiting(why)
        self._clock.sleep(RETURNED_SECONDS)

    def _rates(self, moves: list[Move], found: throttle.Configs) -> tuple[RateIntent, ...]:
        history = self._history
        return throttle.intend_rates(
            moves,
            history.pace.first_bytes_per_s,
            found,
            history.rates,
            most_bytes_per_s=history.rate_bytes_per_s,
            override=history.override_rates,
        )

    def _refused(
        self, lists: Collection[ListIntent], rates: Collection[RateIntent]
    ) -> tuple[str, frozenset[Resource]]:
        """Set throttles and read them back; return why they are not in force, or "".

        Beside it are those whose answer is missing: they may have them, or may have them yet.
        """
        for changes in (throttle.list_changes(lists), throttle.rate_changes(rates)):
            faults = self._alter(changes)
            if faults:
                unknown = frozenset(r for r, fault in faults.items() if passes(fault))
                return _first_fault("setting", faults), unknown
        deadline = self._clock.monotonic() + READ_BACK_SECONDS
        while True:
            off = throttle.not_in_force(lists, rates, self._found(lists, rates))
            if not off:
                return "", frozenset()
            if self._clock.monotonic() >= deadline:
                why = f"throttles were set but do not read back: {', '.join(off)}"
                return why, frozenset()
            self._clock.sleep(0.05)

    def _take_back_unseen(self, intent: BatchThrottle) -> None:
        """Undo a batch's throttles though they do not show: a broker that lags shows them later.

        What is refused here was refused before; what shows is given back step by step.
        """
        found = self._found(intent.lists, intent.rates)
        changes: list[ConfigChange] = []
        for i in intent.lists:
            ours = self._history.lists[i.topic, i.side]
            changes += throttle.remove_changes(ours, i.pairs, found, unseen=True)
        for r in intent.rates:
            changes += throttle.restore_changes(r, found, unseen=True)
        with suppress(AccessDeniedError):
            self._alter(changes)

    def _found(
        self, lists: Collection[ListIntent], rates: Collection[RateIntent]
    ) -> dict[Resource, Any]:
        """Return the configs that these throttles are in, as they are now."""
        topics = [Resource.topic(t) for t in sorted({i.topic for i in lists})]
        brokers = [Resource.broker(b) for b in sorted({r.broker for r in rates})]
        return self._configs(topics, throttle.LISTS) | self._configs(brokers, throttle.RATES)

    def _left_of(self, batch: int) -> list[Any]:
        moves = (self._history.moves[i] for i in self._history.batch(batch))
        return [m for m in moves if not m.phase.ended]


def _first_fault(doing: str, faults: Mapping[Resource, Fault]) -> str:
    resource, fault = next(iter(faults.items()))
    return f"{doing} the throttle of {resource.kind.value} {resource.name} failed: {fault}"


def _holds_all(answer: Any, side: throttle.Side) -> bool:
    """Return whether a topic's list is `*`; one that was not read is not."""
    return not isinstance(answer, Fault) and ALL in entries(throttle.own_list(answer, side))
