"""Restores a run's throttles in the cluster, and reads each back to verify.

The changes that put one back exactly are `release`'s, and so is which of them no move needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.configs import ConfigChange, ConfigOp, Resource
from core.cluster.kafka_errors import Fault, is_missing
from core.plan.throttle_lists import ALL, joined
from core.run.backoff import Backoff, with_denials_as_faults
from core.run.journal import throttle_values as throttle
from core.run.journal.held_throttles import PairState
from core.run.journal.journal_writer import RunRecorder
from core.run.journal.records import Kind
from core.run.journal.replay import RunState
from core.run.journal.throttle_values import ListKey
from core.run.throttles import restore_changes as putting_back
from core.run.throttles.lists import fetch_lists

ListEntry = tuple[str, throttle.Side, tuple[str, ...]]
"""A topic and side, and pairs of ours there."""
Lists = tuple[ListEntry, ...]


class ThrottleRestorer:
    """Restores the throttles of one run."""

    def __init__(self, client: ClusterClient, clock: Clock, recorder: RunRecorder) -> None:
        self._client, self._clock, self._recorder = client, clock, recorder
        self._back = with_denials_as_faults(client)
        """Asked for what is put back: where one topic is denied, the others are put back."""
        self._intended: dict[Kind, object] = {}
        self.backoff = Backoff[Resource](clock)
        self._last_bytes: set[tuple[int, throttle.Side]] = set()

    @property
    def _state(self) -> RunState:
        return self._recorder.state

    @property
    def left_alone(self) -> dict[Resource, str]:
        """Return what could not be changed as it should and is left alone for now, and why."""
        return self.backoff.now

    def intend_once(self, kind: Kind, **payload: Any) -> None:
        """Journal an intent, unless it is the last of its kind over again and came to nothing."""
        if self._intended.get(kind) != payload:
            self._recorder.write(kind, **payload)
        self._intended[kind] = payload

    def record_outcome(self, kind: Kind, **payload: Any) -> None:
        """Journal what came of an intent, or what makes a new one of it."""
        self._recorder.write(kind, **payload)
        self._intended.clear()

    def remove_pairs(self, lists: Lists) -> None:
        """Take pairs out of their lists, and unset those that were unset before.

        Nothing is decided by what was read before the intent: others edit lists meanwhile.
        """
        payload: list[Any] = [[topic, side.value, list(pairs)] for topic, side, pairs in lists]
        self.intend_once(Kind.PAIRS_REMOVING, lists=payload)
        failed, missing = self._subtract(lists)
        last = [entry for entry in lists if Resource.topic(entry[0]) not in failed]
        unset, left = self._unset(last)
        failed |= left
        done = [entry for entry in payload if Resource.topic(entry[0]) not in failed]
        if done:
            gone = [[topic, side.value] for topic, side in unset]
            more = {"missing": missing} if missing else {}
            self.record_outcome(Kind.PAIRS_REMOVED, lists=done, unset=gone, **more)
        self._leave_alone([Resource.topic(topic) for topic, _, _ in lists], failed)

    def _subtract(self, lists: Lists) -> tuple[dict[Resource, str], list[list[str]]]:
        """Take pairs out of lists that hold them; return in words where that failed.

        And out of which lists somebody else had taken pairs of ours that were seen there before.
        """
        keys = [(topic, side) for topic, side, _ in lists]
        held, failed = fetch_lists(self._back, self._clock, keys)
        changes: list[ConfigChange] = []
        missing: list[list[str]] = []
        for topic, side, pairs in lists:
            intent, unverified = (
                self._state.lists[topic, side],
                self._not_described(topic, side, pairs),
            )
            there = held.get((topic, side))
            if there is None:
                continue
            changes += putting_back.subtract_changes(intent, pairs, there, unverified=unverified)
            ours = {p for p in pairs if (topic, side, p) not in self._state.away}
            again = Resource.topic(topic) in self.backoff
            if not (unverified or again or ALL in there or ours <= there):
                missing.append([topic, side.value])
        return _in_words(failed) | self.apply_restoring(changes, throttle.LISTS, {}), missing

    def _unset(self, lists: Collection[ListEntry]) -> tuple[list[ListKey], dict[Resource, str]]:
        """Delete lists that hold nothing any more; return which, and what failed.

        What they hold is asked right before, and of the controller: see `putting_back.deletion`.
        """
        known = self._state.lists
        last = [(t, s) for t, s, pairs in lists if not known[t, s].without(pairs).pairs]
        filled = [key for key in last if known[key].prior != ""]
        held, failed = fetch_lists(self._back, self._clock, filled)
        changes = {
            key: putting_back.delete_changes(known[key], there) for key, there in held.items()
        }
        flat = [change for of_one in changes.values() for change in of_one]
        left = _in_words(failed) | self.apply_restoring(flat, throttle.LISTS, {})
        unset = [k for k, of_one in changes.items() if of_one and Resource.topic(k[0]) not in left]
        return unset, left

    def _not_described(self, topic: str, side: throttle.Side, pairs: Collection[str]) -> bool:
        """Return whether pairs may be in their list although they do not show."""
        putting = any(
            self._state.away.get((topic, side, pair)) in (PairState.PUTTING, PairState.TAKING)
            for pair in pairs
        )
        return putting or (topic, side) in self._state.lists_due

    def suspend_pairs(self, lists: Lists, why: str) -> None:
        """Take pairs out of lists for a while; they stay ours."""
        payload: list[Any] = [[topic, side.value, list(pairs)] for topic, side, pairs in lists]
        self.intend_once(Kind.PAIRS_TAKING, lists=payload, why=why)
        changes = [
            ConfigChange(
                Resource.topic(topic), side.list_config, ConfigOp.SUBTRACT, joined(set(pairs))
            )
            for topic, side, pairs in lists
        ]
        failed = self.apply_restoring(changes, throttle.LISTS, {})
        done = [entry for entry in payload if Resource.topic(entry[0]) not in failed]
        if done:
            self.record_outcome(Kind.PAIRS_TAKEN, lists=done)
        said = {r: f"{why}, but cannot be taken out: {fault}" for r, fault in failed.items()}
        self.backoff.tried([change.resource for change in changes], said)

    def restore_rates(self, rates: tuple[tuple[int, throttle.Side], ...]) -> None:
        """Put rates back, each read right before: one that somebody has changed stays theirs."""
        brokers = [Resource.broker(b) for b in sorted({broker for broker, _ in rates})]
        intents = [self._state.rates[key] for key in rates]
        self.intend_once(Kind.RATE_RESTORING, rates=[[b, side.value] for b, side in rates])
        found = self._shown_back(brokers, throttle.RATES)
        once_more = self._once_more(intents, found)
        intents = [i for i in intents if (i.broker, i.side) not in once_more]
        due = self._state.rates_due  # set perhaps, though not seen: brokers lag
        changes = {
            i: putting_back.restore_changes(i, found, unverified=(i.broker, i.side) in due)
            for i in intents
        }
        flat = [change for of_one in changes.values() for change in of_one]
        failed = self.apply_restoring(flat, throttle.RATES, found)
        done = [
            {
                "broker": i.broker,
                "side": i.side.value,
                "how": _how_restored(i, changes[i], found),
                "prior": _stands(i, found).prior if _stands(i, found).dynamic else None,
            }
            for i in intents
            if Resource.broker(i.broker) not in failed
        ]
        if done:
            self.record_outcome(Kind.RATE_RESTORED, rates=done)
        self._leave_alone(brokers, failed)
        self.backoff.tried((), {Resource.broker(key[0]): why for key, why in once_more.items()})

    def _once_more(
        self, intents: Iterable[throttle.RateIntent], found: throttle.Configs
    ) -> dict[tuple[int, throttle.Side], str]:
        """Return which rates somebody else has changed and may be about to put back, in words.

        Another run on the same brokers that ends when ours does puts back what it found: our rate.
        """
        others = {(i.broker, i.side) for i in intents if _is_foreign(i, found)}
        new = others - self._last_bytes
        self._last_bytes |= others
        return {
            (broker, side): f"the {side.value} throttle rate of broker {broker}, changed by "
            "somebody else, is looked at once more: they may put it back"
            for broker, side in sorted(new, key=lambda key: (key[0], key[1].value))
        }

    def apply_restoring(
        self, changes: list[ConfigChange], names: Collection[str], found: Mapping[Resource, Any]
    ) -> dict[Resource, str]:
        """Apply `changes` and read them back; return in words why a resource is not as found.

        One of `found` that could not be read, though it may well be there, is among them.
        """
        faults = {r: a for r, a in found.items() if isinstance(a, Fault)}
        faults |= faults_of(self._back.alter_configs(changes) if changes else {})
        failed = {r: str(fault) for r, fault in faults.items() if not is_missing(fault)}
        left = [change for change in changes if change.resource not in failed]
        deadline = self._clock.monotonic() + putting_back.READ_BACK_SECONDS
        while left:
            touched = sorted({change.resource for change in left}, key=lambda r: r.name)
            left = list(putting_back.missing_changes(left, self._shown_back(touched, names)))
            if not left or self._clock.monotonic() >= deadline:
                break
            self._clock.sleep(0.05)
        return failed | {change.resource: "it does not show yet" for change in left}

    @property
    def has_refusals(self) -> bool:
        """Return whether something was refused when it was last tried."""
        return bool(self.backoff)

    def _leave_alone(self, tried: Collection[Resource], failed: Mapping[Resource, str]) -> None:
        """Let all else go on before what could not be put back is asked again."""
        said = {
            Resource(kind, name): f"the throttle of {kind.value} {name} cannot be put back: {why}"
            for (kind, name), why in failed.items()
        }
        self.backoff.tried(tried, said)

    def _shown_back(self, resources: list[Resource], names: Collection[str]) -> dict[Resource, Any]:
        return dict(self._back.describe_configs(resources, names)) if resources else {}


def faults_of(answers: Mapping[Resource, Fault | None]) -> dict[Resource, Fault]:
    return {r: fault for r, fault in answers.items() if fault is not None}


def _in_words(faults: Mapping[Resource, Fault]) -> dict[Resource, str]:
    return {resource: str(fault) for resource, fault in faults.items()}


def _stands(intent: throttle.RateIntent, found: throttle.Configs) -> throttle.RateIntent:
    answer = found.get(Resource.broker(intent.broker), {})
    return intent if isinstance(answer, Fault) else throttle.as_it_stands(intent, answer)


def _is_foreign(intent: throttle.RateIntent, found: throttle.Configs) -> bool:
    """Return whether a broker shows a rate that is neither of ours nor what was found."""
    answer = found.get(Resource.broker(intent.broker), {})
    if isinstance(answer, Fault):
        return False
    if intent.rate_bytes_per_s is None:  # noted as theirs; kept from the beginning is not
        return intent.ours is not None and _stands(intent, found) is intent
    return not (throttle.is_ours(intent, answer) or throttle.is_as_found(intent, answer))


def _how_restored(
    intent: throttle.RateIntent, changes: Collection[ConfigChange], found: throttle.Configs
) -> str:
    """Return in one word what `restore_changes` came to; `found` is what it was made of.

    A rate that was as found already may have been put back by a process that died.
    """
    intent = _stands(intent, found)
    if intent.rate_bytes_per_s is None:
        return "kept"
    answer = found.get(Resource.broker(intent.broker), {})
    if not changes and (isinstance(answer, Fault) or not throttle.is_as_found(intent, answer)):
        return "changed"
    return "set" if intent.dynamic else "unset"
