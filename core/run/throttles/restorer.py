"""Restores a run's throttles in the cluster, and reads each back to verify.

The changes that restore one exactly are those of `changes`; `rules` says which no move needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.configs import ConfigChange, ConfigOp, ConfigValue, Resource
from core.cluster.kafka_errors import Fault
from core.plan.copies import Side
from core.run.backoff import Backoff, with_denials_as_faults
from core.run.journal.held_throttles import PairState
from core.run.journal.journal_writer import RunRecorder
from core.run.journal.records import Kind
from core.run.journal.throttle_values import (
    ALL,
    Key,
    ListKey,
    ListPairs,
    RateIntent,
    by_broker,
    joined,
)
from core.run.throttles.changes import delete_changes, restore_changes, subtract_changes
from core.run.throttles.write_and_read_back import (
    apply_restoring,
    fetch_lists,
    fetch_throttle_configs,
)

Answer = Mapping[str, ConfigValue]
"""What a broker shows of its configs."""


def lists_to_json(lists: Iterable[ListPairs]) -> list[list[Any]]:
    """Return pairs of topics' lists as journals keep them."""
    return [[topic, side.value, list(pairs)] for topic, side, pairs in lists]


class ThrottleRestorer:
    """Restores the throttles of one run."""

    def __init__(self, client: ClusterClient, clock: Clock, recorder: RunRecorder) -> None:
        self._client, self._clock, self._recorder = client, clock, recorder
        self._back = with_denials_as_faults(client)
        """Asked for what is put back: where one topic is denied, the others are put back."""
        self._throttles = recorder.state.throttles
        self.backoff = Backoff[Resource](clock)
        self._foreign: set[Key] = set()

    def remove_pairs(self, lists: tuple[ListPairs, ...]) -> None:
        """Take pairs out of their lists, and unset those that were unset before.

        Nothing is decided by what was read before the intent: others edit lists meanwhile.
        """
        payload = lists_to_json(lists)
        self._recorder.intend_once(Kind.PAIRS_REMOVING, lists=payload)
        failed, missing = self._subtract(lists)
        last = [entry for entry in lists if Resource.topic(entry[0]) not in failed]
        unset, left = self._unset(last)
        failed |= left
        done = [entry for entry in payload if Resource.topic(entry[0]) not in failed]
        if done:
            gone = [[topic, side.value] for topic, side in unset]
            more = {"missing": missing} if missing else {}
            self._recorder.record_outcome(Kind.PAIRS_REMOVED, lists=done, unset=gone, **more)
        self._back_off_failed([Resource.topic(topic) for topic, _, _ in lists], failed)

    def _subtract(
        self, lists: tuple[ListPairs, ...]
    ) -> tuple[dict[Resource, str], list[list[str]]]:
        """Take pairs out of lists that hold them; return in words where that failed.

        And out of which lists somebody else had taken pairs of ours that were seen there before.
        """
        keys = [(topic, side) for topic, side, _ in lists]
        held, failed = fetch_lists(self._back, self._clock, keys)
        changes: list[ConfigChange] = []
        missing: list[list[str]] = []
        for topic, side, pairs in lists:
            intent = self._throttles.lists[topic, side]
            unverified = self._not_described(topic, side, pairs)
            there = held.get((topic, side))
            if there is None:
                continue
            changes += subtract_changes(intent, pairs, there, unverified=unverified)
            ours = {p for p in pairs if (topic, side, p) not in self._throttles.away}
            is_retry = Resource.topic(topic) in self.backoff
            if not (unverified or is_retry or ALL in there or ours <= there):
                missing.append([topic, side.value])
        return _in_words(failed) | apply_restoring(self._back, self._clock, changes), missing

    def _unset(self, lists: Collection[ListPairs]) -> tuple[list[ListKey], dict[Resource, str]]:
        """Delete lists that hold nothing any more; return which, and what failed.

        What they hold is asked right before, and of the controller: see `delete_changes`.
        """
        known = self._throttles.lists
        last = [(t, s) for t, s, pairs in lists if not known[t, s].without(pairs).pairs]
        filled = [key for key in last if known[key].prior != ""]
        held, failed = fetch_lists(self._back, self._clock, filled)
        changes = {key: delete_changes(known[key], there) for key, there in held.items()}
        flat = [change for of_one in changes.values() for change in of_one]
        left = _in_words(failed) | apply_restoring(self._back, self._clock, flat)
        unset = [k for k, of_one in changes.items() if of_one and Resource.topic(k[0]) not in left]
        return unset, left

    def _not_described(self, topic: str, side: Side, pairs: Collection[str]) -> bool:
        states = {self._throttles.away.get((topic, side, pair)) for pair in pairs}
        is_open = not states.isdisjoint((PairState.PUTTING, PairState.TAKING))
        return is_open or (topic, side) in self._throttles.lists_due

    def suspend_pairs(self, lists: tuple[ListPairs, ...], why: str) -> None:
        """Take pairs out of lists for a while; they stay ours."""
        payload = lists_to_json(lists)
        self._recorder.intend_once(Kind.PAIRS_TAKING, lists=payload, why=why)
        changes = [
            ConfigChange(Resource.topic(t), s.list_config, ConfigOp.SUBTRACT, joined(set(pairs)))
            for t, s, pairs in lists
        ]
        failed = apply_restoring(self._back, self._clock, changes)
        done = [entry for entry in payload if Resource.topic(entry[0]) not in failed]
        if done:
            self._recorder.record_outcome(Kind.PAIRS_TAKEN, lists=done)
        refused = {r: f"{why}, but cannot be taken out: {fault}" for r, fault in failed.items()}
        self.backoff.tried([change.resource for change in changes], refused)

    def restore_rates(self, rates: tuple[Key, ...]) -> None:
        """Put rates back, each read right before: one that somebody has changed stays theirs."""
        brokers = [Resource.broker(b) for b in sorted({broker for broker, _ in rates})]
        keys = [[broker, side.value] for broker, side in rates]
        self._recorder.intend_once(Kind.RATE_RESTORING, rates=keys)
        configs = fetch_throttle_configs(self._back, brokers=(broker for broker, _ in rates))
        failed = _in_words({r: a for r, a in configs.items() if isinstance(a, Fault)})
        intents = (self._throttles.rates[key] for key in rates)
        shown = {i: configs[r] for i in intents if (r := Resource.broker(i.broker)) not in failed}
        once_more = self._newly_foreign_rates(shown)
        due = self._throttles.rates_due  # set perhaps, though not seen: brokers lag
        changes = {
            i: restore_changes(i, configs, unverified=i.key in due)
            for i in shown
            if i.key not in once_more
        }
        flat = [change for of_one in changes.values() for change in of_one]
        failed |= apply_restoring(self._back, self._clock, flat)
        done = [
            {
                "broker": i.broker,
                "side": i.side.value,
                "how": _how_restored(now, of_one, shown[i]),
                "prior": now.prior if now.dynamic else None,
            }
            for i, of_one in changes.items()
            for now in [i.current(shown[i])]
            if Resource.broker(i.broker) not in failed
        ]
        if done:
            self._recorder.record_outcome(Kind.RATE_RESTORED, rates=done)
        self._back_off_failed(brokers, failed)
        self.backoff.tried((), {Resource.broker(key[0]): why for key, why in once_more.items()})

    def _newly_foreign_rates(self, shown: Mapping[RateIntent, Answer]) -> dict[Key, str]:
        """Return which rates somebody else has changed and may be about to put back, in words.

        Another run on the same brokers that ends when ours does puts back what it found: our rate.
        """
        foreign = {intent.key for intent, answer in shown.items() if _is_foreign(intent, answer)}
        new = sorted(foreign - self._foreign, key=by_broker)
        self._foreign |= foreign
        return {
            (broker, side): f"the {side.value} throttle rate of broker {broker}, changed by "
            "somebody else, is looked at once more: they may put it back"
            for broker, side in new
        }

    def _back_off_failed(self, tried: Collection[Resource], failed: Mapping[Resource, str]) -> None:
        """Let all else go on before what could not be put back is asked again."""
        refused = {
            Resource(kind, name): f"the throttle of {kind.value} {name} cannot be put back: {why}"
            for (kind, name), why in failed.items()
        }
        self.backoff.tried(tried, refused)


def _in_words(faults: Mapping[Resource, Fault]) -> dict[Resource, str]:
    return {resource: str(fault) for resource, fault in faults.items()}


def _is_foreign(intent: RateIntent, answer: Answer) -> bool:
    """Return whether a broker shows a rate that is neither of ours nor what was found."""
    if intent.rate_bytes_per_s is None:  # noted as theirs; kept from the beginning is not
        return intent.ours is not None and intent.current(answer) is intent
    return not (intent.is_ours(answer) or intent.is_original(answer))


def _how_restored(intent: RateIntent, changes: Collection[ConfigChange], answer: Answer) -> str:
    """Return in one word what `restore_changes` came to; `answer` is what it was made of.

    A rate that was as found already may have been put back by a process that died.
    """
    if intent.rate_bytes_per_s is None:
        return "kept"
    if not changes and not intent.is_original(answer):
        return "changed"
    return "set" if intent.dynamic else "unset"
