"""Writes a run's throttles into the cluster: each intent journalled, each change read back.

`changes` says what to set, and what restores it exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.configs import ConfigChange, Resource, ResourceKind
from core.cluster.kafka_errors import Fault, is_missing, is_transient
from core.errors import AccessDeniedError
from core.plan.plan import Move
from core.run.journal.held_throttles import BatchThrottles
from core.run.journal.journal_writer import RunRecorder
from core.run.journal.move_state import RunMove
from core.run.journal.records import Kind
from core.run.journal.throttle_values import (
    ALL,
    LISTED,
    Key,
    ListIntent,
    ListPairs,
    entries,
    own_list,
)
from core.run.steps import IntendThrottles, Observation, SetThrottles
from core.run.throttles.changes import intend_lists, limited, restore_changes, subtract_changes
from core.run.throttles.restorer import ThrottleRestorer, lists_to_json
from core.run.throttles.rules import note_drift, required_lists
from core.run.throttles.write_and_read_back import (
    LAG_SECONDS,
    RETURNED_SECONDS,
    UNANSWERED_SECONDS,
    Refusal,
    VerifiedThrottles,
    fetch_lists,
    fetch_throttle_configs,
    first_fault,
)


class ThrottleWriter:
    """Sets and changes the throttles of one run."""

    def __init__(
        self,
        client: ClusterClient,
        clock: Clock,
        recorder: RunRecorder,
        verified: VerifiedThrottles,
        restorer: ThrottleRestorer,
    ) -> None:
        self._client, self._clock, self._recorder = client, clock, recorder
        self._verified, self._restorer = verified, restorer
        self._not_shown: set[int] = set()
        """Batches whose limits were taken, and did not show."""
        self._state = recorder.state
        self._throttles = recorder.state.throttles

    def set_up(self, step: IntendThrottles | SetThrottles, observed: Observation) -> None:
        """Intend a batch's throttles, or set them; a cluster that says no fails one not begun."""
        batch = step.batch
        try:
            if isinstance(step, SetThrottles):
                self._set_throttles(batch, observed)
            else:
                self._intend(batch, step.moves, observed)
        except AccessDeniedError as error:
            if self._state.begun or self._are_in_flight(self._state.batch(batch)):
                raise
            self._recorder.write(Kind.THROTTLE_FAILED, batch=batch, why=error.reason)

    def _are_in_flight(self, indices: Iterable[int]) -> bool:
        """Return whether moves go on without a limit until it can be set: nothing fails by that."""
        return any(self._state.moves[index].phase.in_flight for index in indices)

    def _intend(self, batch: int, indices: tuple[int, ...], observed: Observation) -> None:
        """Journal the lists of these moves, and the rates of all that is left of the batch."""
        beginning = [self._state.moves[index].move for index in indices]
        moves = [m.move for m in self._remaining_moves(batch)]
        configs = fetch_throttle_configs(self._client, *limited(moves, observed.alive))
        faults = {r: a for r, a in configs.items() if isinstance(a, Fault) and not is_missing(a)}
        copying = sorted({move.tp.topic for move in beginning if move.moves_data})
        keys = [(topic, side) for topic in copying for side in LISTED]
        held, list_faults = fetch_lists(self._client, self._clock, keys)
        faults |= list_faults
        if faults:
            why = first_fault("reading", faults)
            # One that died is not shown so yet: what may pass is waited for.
            if self._are_in_flight(indices) or all(map(is_transient, faults.values())):
                self._back_off_or_wait(batch, indices, why)
            else:
                self._recorder.write(Kind.THROTTLE_FAILED, batch=batch, why=why)
            return
        ours, left = self._throttles.lists, self._throttles.lists_left
        lists = intend_lists(beginning, configs, ours, held, left)
        rates = self._verified.desired_rates(moves, configs, self._throttles.rates)
        self._recorder.write(
            Kind.THROTTLE_INTENT,
            batch=batch,
            moves=list(indices),
            lists=[i.to_json() for i in lists],
            rates=[r.to_json() for r in rates],
            foreign=[list(tp) for tp in observed.reassignments],
        )

    def _set_throttles(self, batch: int, observed: Observation) -> None:
        moves = [m.move for m in self._remaining_moves(batch)]
        rates = self._throttles.still_needed(batch).rates
        alive = [r for r in rates if r.broker in observed.alive]
        self._verified.reread_rates(batch, moves, alive)
        intent = self._throttles.still_needed(batch)
        alive = [r for r in intent.rates if r.broker in observed.alive]
        refusal = self._verified.apply_and_verify(intent.lists, alive)
        if refusal is None:
            late = [[r.broker, r.side.value] for r in intent.rates if r not in alive]
            self._recorder.write(Kind.THROTTLE_SET, batch=batch, **{"late": late} if late else {})
            self._verified.backoff.taken(batch)
            self._not_shown.discard(batch)
        elif self._are_in_flight(intent.moves):
            self._verified.back_off(batch, refusal.why)
        elif refusal.passing or (refusal.not_shown and batch not in self._not_shown):
            if refusal.not_shown:  # a cluster that never shows them would be asked for ever
                self._not_shown.add(batch)
            seconds = UNANSWERED_SECONDS if refusal.unanswered else RETURNED_SECONDS
            self._verified.wait_to_retry(refusal.why, seconds)
        else:
            self._give_up(batch, intent, refusal)

    def _give_up(self, batch: int, intent: BatchThrottles, refusal: Refusal) -> None:
        """Undo a batch's throttles that are refused for good; the run ends by that."""
        if refusal.unknown:
            self._verified.wait_to_retry(
                f"{refusal.why}: whether it acts late is waited for", UNANSWERED_SECONDS
            )
        self._restore_unverified(intent)
        unknown = refusal.unknown
        self._recorder.write(
            Kind.THROTTLE_FAILED,
            batch=batch,
            why=refusal.why,
            unknown={
                "topics": sorted(r.name for r in unknown if r.kind is ResourceKind.TOPIC),
                "brokers": sorted(int(r.name) for r in unknown if r.kind is ResourceKind.BROKER),
            },
        )

    def intend_rates(self, batch: int, brokers: tuple[int, ...]) -> None:
        """Journal the rates of brokers that are back; one that does not answer is waited for."""
        moves = self._in_flight_or_remaining(batch)
        configs = fetch_throttle_configs(self._client, brokers=brokers)
        faults = {r: a for r, a in configs.items() if isinstance(a, Fault)}
        answered = {r: a for r, a in configs.items() if r not in faults}
        rates = self._verified.desired_rates(moves, answered, self._throttles.rates)
        if rates:
            payload = [rate.to_json() for rate in rates]
            self._recorder.write(Kind.RATE_INTENT, batch=batch, rates=payload)
        if faults:
            self._back_off_or_wait(batch, self._state.batch(batch), first_fault("reading", faults))

    def set_rates(self, batch: int, keys: tuple[Key, ...]) -> None:
        """Set rates that were journalled for brokers that are back; where refused, wait."""
        due = self._throttles.rates_due
        moves = self._in_flight_or_remaining(batch)
        self._verified.reread_rates(batch, moves, [due[key] for key in keys])
        keys = tuple(key for key in keys if key in due)
        refusal = self._verified.apply_and_verify((), [due[key] for key in keys])
        if refusal is not None and self._verified.keep_refused(keys, refusal) != set(keys):
            self._back_off_or_wait(batch, self._state.batch(batch), refusal.why)
        elif refusal is None and keys:
            rates = [[broker, side.value] for broker, side in keys]
            self._recorder.write(Kind.RATE_SET, batch=batch, rates=rates)
            self._verified.backoff.taken(batch)

    def _back_off_or_wait(self, batch: int, indices: Iterable[int], why: str) -> None:
        """Moves in flight go on without a limit until it can be set; others do not begin."""
        if self._are_in_flight(indices):
            self._verified.back_off(batch, why)
        else:
            self._verified.wait_to_retry(why)

    def change_rates(
        self, targets: tuple[tuple[Key, int], ...], why: str, *, held_back: bool = False
    ) -> None:
        """Change rates of ours, or set lower ones than those that were kept.

        What is refused now is due, and set as soon as it can be; a value that is refused is given
        up, and what was there before it stays. Each is read first: one that
        somebody else has changed meanwhile is theirs.
        """
        configs = fetch_throttle_configs(
            self._client, brokers=(broker for (broker, _), _ in targets)
        )
        faults = {r: a for r, a in configs.items() if isinstance(a, Fault)}
        refused = first_fault("reading", faults) if faults else ""
        keys = [key for key, _ in targets if Resource.broker(key[0]) not in faults]
        held = {key: self._throttles.rates[key] for key in keys}
        keys = self._verified.unchanged_rates(held, configs)
        if keys:
            rates = [
                {"broker": broker, "side": side.value, "rate_bytes_per_s": rate}
                for (broker, side), rate in targets
                if (broker, side) in keys
            ]
            back = {"held": True} if held_back else {}
            self._recorder.write(Kind.RATES_CHANGING, rates=rates, why=why, **back)
            configs = fetch_throttle_configs(self._client, brokers=(broker for broker, _ in keys))
            keys = self._verified.unchanged_rates({key: held[key] for key in keys}, configs)
            unset = self._verified.apply_and_verify(
                (), [self._throttles.rates[key] for key in keys]
            )
            if unset is None:
                changed = [[broker, side.value] for broker, side in keys]
                self._recorder.write(Kind.RATES_CHANGED, rates=changed)
            elif self._verified.keep_refused(keys, unset) != set(keys):
                refused = refused or unset.why
        if refused:
            self._verified.wait_to_retry(refused)

    def are_in_force(self, observed: Observation) -> bool:
        """Return whether nobody has changed throttles of ours; journal what somebody has.

        Asked before moves begin, as looks are seconds apart; what is odd is read twice.
        """
        topics = [topic for topic, _ in required_lists(self._state)]
        brokers = {broker for broker, _ in self._throttles.rates} & observed.alive
        configs = fetch_throttle_configs(self._client, topics, brokers)
        if note_drift(self._state, replace(observed, throttles=configs)) is None:
            return True
        self._clock.sleep(LAG_SECONDS)
        later = fetch_throttle_configs(self._client, topics, brokers)
        alike = {resource: a for resource, a in later.items() if configs.get(resource) == a}
        lost = note_drift(self._state, replace(observed, throttles=alike))
        return lost is None or not self._verified.note_lost(lost.rates, lost.lists, lost.editor)

    def reinstate_pairs(self, lists: tuple[ListPairs, ...]) -> None:
        """Put pairs of ours back into their lists, and read them back.

        A list that somebody has set to `*` meanwhile holds them already, and takes no more.
        """
        configs = fetch_throttle_configs(self._client, [topic for topic, _, _ in lists])
        whole = [
            (topic, side, pairs)
            for topic, side, pairs in lists
            if not isinstance(answer := configs[Resource.topic(topic)], Fault)
            and ALL in entries(own_list(answer, side))
        ]
        if whole:
            self._recorder.record_outcome(Kind.PAIRS_PUT, lists=lists_to_json(whole))
        lists = tuple(entry for entry in lists if entry not in whole)
        if not lists:
            return
        payload = lists_to_json(lists)
        self._recorder.intend_once(Kind.PAIRS_PUTTING, lists=payload)
        targets = [ListIntent(topic, side, None, pairs) for topic, side, pairs in lists]
        refusal = self._verified.apply_and_verify(targets, ())
        topics = [Resource.topic(topic) for topic, _, _ in lists]
        if refusal is None:
            self._recorder.record_outcome(Kind.PAIRS_PUT, lists=payload)
        self._restorer.backoff.tried(topics, dict.fromkeys(topics, refusal.why) if refusal else {})

    def _restore_unverified(self, intent: BatchThrottles) -> None:
        """Undo a batch's throttles though they do not show: a broker that lags shows them later.

        What is refused here was refused before; what shows is given back step by step.
        """
        held, _ = fetch_lists(self._client, self._clock, [i.key for i in intent.lists])
        configs = fetch_throttle_configs(self._client, brokers=[r.broker for r in intent.rates])
        changes: list[ConfigChange] = []
        for i in intent.lists:
            there = held.get(i.key)
            if there is not None:
                changes += subtract_changes(i, i.pairs, there, unverified=True)
        for r in intent.rates:
            changes += restore_changes(r, configs, unverified=True)
        if changes:
            with suppress(AccessDeniedError):
                self._client.alter_configs(changes)

    def _remaining_moves(self, batch: int) -> list[RunMove]:
        moves = (self._state.moves[i] for i in self._state.batch(batch))
        return [m for m in moves if not m.phase.ended]

    def _in_flight_or_remaining(self, batch: int) -> list[Move]:
        moves = [self._state.moves[i].move for i in self._state.in_flight]
        return moves + [m.move for m in self._remaining_moves(batch) if not m.phase.in_flight]
