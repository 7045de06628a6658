"""Fetches and sets a run's throttles: read right before each write, read back after it.

Whatever was read earlier decides nothing: somebody else may have changed it since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.configs import ConfigChange, Resource
from core.cluster.kafka_errors import (
    Fault,
    is_invalid_value,
    is_missing,
    is_transient,
    is_unanswered,
)
from core.plan.plan import Move
from core.run.backoff import Backoff
from core.run.journal.journal_writer import RunRecorder
from core.run.journal.records import Kind
from core.run.journal.throttle_values import (
    ALL,
    LISTS,
    RATES,
    Configs,
    Key,
    ListIntent,
    ListKey,
    RateIntent,
    as_rate,
    entries,
    list_now,
    own_list,
    own_rate,
)
from core.run.steps import LostRate
from core.run.throttles.changes import (
    READ_BACK_SECONDS,
    intend_rates,
    list_changes,
    missing_changes,
    not_in_force,
    rate_changes,
)
from core.run.throttles.rules import is_freed, lost_rate

LAG_SECONDS = 1.0
"""For how long one broker may show what another does not any more."""
UNSUPPORTED = "UNSUPPORTED_VERSION"


def fetch_throttle_configs(
    client: ClusterClient, topics: Iterable[str] = (), brokers: Iterable[int] = ()
) -> dict[Resource, Any]:
    """Return the lists of topics and the rates of brokers as they are shown now."""
    queries = (
        ([Resource.topic(topic) for topic in sorted(set(topics))], LISTS),
        ([Resource.broker(broker) for broker in sorted(set(brokers))], RATES),
    )
    configs: dict[Resource, Any] = {}
    for resources, names in queries:
        if resources:
            configs |= client.describe_configs(resources, names)
    return configs


def fetch_lists(
    client: ClusterClient, clock: Clock, keys: Collection[ListKey]
) -> tuple[dict[ListKey, frozenset[str]], dict[Resource, Fault]]:
    """Return what lists hold now, and why some cannot be asked; those that are gone neither."""
    answers = fetch_list_answers(client, clock, keys)
    faults = {Resource.topic(t): a for (t, _), a in answers.items() if isinstance(a, Fault)}
    held = {key: a for key, a in answers.items() if not isinstance(a, Fault)}
    return held, {r: fault for r, fault in faults.items() if not is_missing(fault)}


def fetch_list_answers(
    client: ClusterClient, clock: Clock, keys: Collection[ListKey]
) -> dict[ListKey, frozenset[str] | Fault]:
    """Return the entries of these lists as the controller holds them.

    Of a cluster that does not tell, what two looks some time apart have shown alike.
    """
    named = {(Resource.topic(topic), side.list_config): (topic, side) for topic, side in keys}
    answers = client.fetch_list_entries(list(named)) if named else {}
    lists = {named[of]: answer for of, answer in answers.items()}
    left = [k for k, a in lists.items() if isinstance(a, Fault) and a.name == UNSUPPORTED]
    if left:
        first = _describe_lists(client, left)
        clock.sleep(LAG_SECONDS)
        unsettled = Fault("REQUEST_TIMED_OUT", "brokers do not show the same list yet")
        for key, now in _describe_lists(client, left).items():
            lists[key] = now if now == first[key] else unsettled
    return lists


def _describe_lists(
    client: ClusterClient, keys: Collection[ListKey]
) -> dict[ListKey, frozenset[str] | Fault]:
    configs = fetch_throttle_configs(client, (topic for topic, _ in keys))
    return {
        (topic, side): answer
        if isinstance(answer := configs[Resource.topic(topic)], Fault)
        else entries(own_list(answer, side))
        for topic, side in keys
    }


RETURNED_SECONDS = 1.0
"""How soon a broker that has just come back, and has no rate yet, is asked again."""
UNANSWERED_SECONDS = 12.0
"""How long what was not answered may act yet: one that hangs for longer is fenced, and down."""
MAX_REST_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why throttles are not in force; `unknown` may have them, or may have them yet."""

    why: str
    unknown: frozenset[Resource] = frozenset()
    passing: bool = False
    """The same is worth asking again: nothing speaks against it for good."""
    unanswered: bool = False
    """Some of it may act late."""
    not_shown: bool = False
    """All of it was taken, and some is not there: somebody may have changed it right after."""
    values: frozenset[Resource] = frozenset()
    """What was refused for the value that it was to have."""


class VerifiedThrottles:
    """Fetches and sets the throttles of one run, and reads back what was set."""

    def __init__(self, client: ClusterClient, clock: Clock, recorder: RunRecorder) -> None:
        self._client, self._clock, self._recorder = client, clock, recorder
        self._state = recorder.state
        self._throttles = recorder.state.throttles
        self.backoff = Backoff[int](clock)
        self._unwritten: Counter[Key | ListKey] = Counter()
        """How often what somebody deletes has been put back since that was last journalled."""

    def back_off(self, batch: int, why: str) -> None:
        """Say what moves in flight lack, and let all else go on before it is asked again."""
        self._recorder.note_waiting(why)
        self.backoff.refused(batch, why, RETURNED_SECONDS, MAX_REST_SECONDS)

    def wait_to_retry(self, why: str, seconds: float = RETURNED_SECONDS) -> None:
        """Say why nothing goes on, and wait a little."""
        self._recorder.note_waiting(why)
        self._clock.sleep(seconds)

    def note_lost(
        self, rates: tuple[LostRate, ...], lists: tuple[ListIntent, ...], editor: str = ""
    ) -> bool:
        """Journal what somebody else did to our throttles; return whether it was anything.

        The same over again is put back at once, and journalled the 1st, 2nd, 4th, 8th … time.
        """
        lists = self._confirm_lost_pairs(lists)
        if not (rates or lists):
            return False
        keys: list[Key | ListKey] = [lost.key for lost in rates]
        keys += [lost.key for lost in lists]
        times = {}
        for key in keys:
            written = self._throttles.mends.get(key, 0)  # since the run was last resumed
            times[key] = written + 1 + (self._unwritten[key] if written else 0)
        if all(n & (n - 1) for n in times.values()) and self._reapply_known(rates, lists):
            self._unwritten.update(times.keys())
            return True
        for key in times:
            self._unwritten.pop(key, None)
        self._recorder.record_outcome(
            Kind.DISTURBED,
            rates=[lost.to_json() | {"times": times[lost.key]} for lost in rates],
            # Earlier versions did not mend all lists.
            lists=[i.to_json() | {"mend": True, "times": times[i.key]} for i in lists],
            **({"editor": editor} if editor else {}),
        )
        return True

    def _reapply_known(self, rates: Collection[LostRate], lists: Collection[ListIntent]) -> bool:
        """Put back what was deleted, if the journal tells all of it already; return whether so."""
        for lost in rates:
            known = self._throttles.rates[lost.key]
            if not lost.mend or (known.prior, known.source) != (lost.prior, lost.source):
                return False
        for gone in lists:
            ours = self._throttles.lists.get(gone.key)
            if ours is None or ours.prior != gone.prior or not set(gone.pairs) <= set(ours.pairs):
                return False
        whole = [self._throttles.rates[lost.key] for lost in rates]
        return self.apply_and_verify(lists, whole) is None

    def _confirm_lost_pairs(self, lists: Collection[ListIntent]) -> tuple[ListIntent, ...]:
        """Return which pairs the controller does not hold either; a broker may be behind."""
        held, failed = fetch_lists(self._client, self._clock, [lost.key for lost in lists])
        sure = []
        for lost in lists:
            there = held.get(lost.key)
            if there is None or Resource.topic(lost.topic) in failed or ALL in there:
                continue
            gone = tuple(pair for pair in lost.pairs if pair not in there)
            if gone:
                sure.append(replace(lost, pairs=gone, prior=list_now(lost.prior, there)))
        return tuple(sure)

    def reread_rates(self, batch: int, moves: list[Move], rates: Collection[RateIntent]) -> None:
        """Journal rates anew that somebody has set, changed or freed since they were intended."""
        configs = fetch_throttle_configs(self._client, brokers=(rate.broker for rate in rates))
        changed = set()
        for rate in rates:
            answer = configs[Resource.broker(rate.broker)]
            if isinstance(answer, Fault):
                continue
            if rate.rate_bytes_per_s is None:
                stale = is_freed(self._state, rate, answer)
            else:
                stale = not (rate.is_ours(answer) or rate.is_original(answer))
            if stale:
                changed.add(rate.key)
        answered = {r: a for r, a in configs.items() if not isinstance(a, Fault)}
        known = self._throttles.rates.keys() - changed
        if changed:
            anew = [r for r in self.desired_rates(moves, answered, known) if r.key in changed]
            payload = [rate.to_json() for rate in anew]
            self._recorder.write(Kind.RATE_INTENT, batch=batch, rates=payload)

    def unchanged_rates(self, held: Mapping[Key, RateIntent], configs: Configs) -> list[Key]:
        """Return which rates `configs` show as they were held; journal the others as lost."""
        lost: dict[Key, LostRate] = {}
        for key, intent in held.items():
            answer = configs[Resource.broker(key[0])]
            if not isinstance(answer, Fault) and not intent.is_as_held(answer):
                lost[key] = lost_rate(self._state, key, answer)
        if lost:
            self.note_lost(tuple(lost.values()), ())
        return [key for key in held if key not in lost]

    def keep_refused(self, keys: Collection[Key], refusal: Refusal) -> set[Key]:
        """Journal which rates stay as they were, as the cluster refuses other values; return them.

        Asked again, it would refuse them again, and all else would wait for that.
        """
        rates = self._throttles.rates
        keys = [key for key in keys if Resource.broker(key[0]) in refusal.values]
        configs = fetch_throttle_configs(self._client, brokers=(broker for broker, _ in keys))
        kept: dict[Key, int | None] = {}
        for key in keys:
            answer, intent = configs[Resource.broker(key[0])], rates[key]
            if isinstance(answer, Fault):
                continue
            now = as_rate(own_rate(answer, key[1]))
            if now in intent.perhaps:
                kept[key] = now
            elif key in self._state.rate_control.rates and intent.is_original(answer):
                kept[key] = None
        if kept:
            refused = [
                [broker, side.value, rates[broker, side].rate_bytes_per_s, rate]
                for (broker, side), rate in kept.items()
            ]
            self._recorder.write(Kind.RATES_CHANGED, rates=[], refused=refused, why=refusal.why)
        return set(kept)

    def desired_rates(
        self, moves: list[Move], configs: Configs, known: Collection[Key]
    ) -> tuple[RateIntent, ...]:
        run = self._state
        return intend_rates(
            moves,
            run.rate_control.first_bytes_per_s,
            configs,
            known,
            max_bytes_per_s=run.rate_bytes_per_s,
            per_side_rates=run.rate_control.per_side_rates,
            override=run.override_rates,
        )

    def apply_and_verify(
        self, lists: Collection[ListIntent], rates: Collection[RateIntent]
    ) -> Refusal | None:
        """Set throttles and read them back; return why they are not in force, or None."""
        for changes in (list_changes(lists), rate_changes(rates)):
            faults = faults_of(self._client.alter_configs(changes)) if changes else {}
            if faults:
                unknown = frozenset(r for r, fault in faults.items() if is_transient(fault))
                passing = all(is_transient(f) or is_missing(f) for f in faults.values())
                unanswered = any(is_unanswered(fault) for fault in faults.values())
                values = frozenset(r for r, fault in faults.items() if is_invalid_value(fault))
                why = first_fault("setting", faults)
                return Refusal(why, unknown, passing, unanswered, values=values)
        deadline = self._clock.monotonic() + READ_BACK_SECONDS
        topics, brokers = [i.topic for i in lists], [r.broker for r in rates]
        while True:
            off = not_in_force(lists, rates, fetch_throttle_configs(self._client, topics, brokers))
            if not off:
                return None
            if self._clock.monotonic() >= deadline:
                why = f"throttles were set but do not read back: {', '.join(off)}"
                return Refusal(why, not_shown=True)
            self._clock.sleep(0.05)


def apply_restoring(
    client: ClusterClient, clock: Clock, changes: Sequence[ConfigChange]
) -> dict[Resource, str]:
    """Apply changes that take throttles out or put rates back; return in words what failed."""
    faults = faults_of(client.alter_configs(changes)) if changes else {}
    failed = {r: str(fault) for r, fault in faults.items() if not is_missing(fault)}
    left = (change for change in changes if change.resource not in failed)
    not_shown = await_shown(client, clock, left)
    return failed | {change.resource: "it does not show yet" for change in not_shown}


def await_shown(
    client: ClusterClient, clock: Clock, changes: Iterable[ConfigChange]
) -> list[ConfigChange]:
    """Wait until brokers show changes that take throttles out; return what they do not show."""
    left = list(changes)
    deadline = clock.monotonic() + READ_BACK_SECONDS
    while left:
        resources = list(dict.fromkeys(change.resource for change in left))
        names = {change.name for change in left}
        left = missing_changes(left, client.describe_configs(resources, names))
        if not left or clock.monotonic() >= deadline:
            break
        clock.sleep(0.05)
    return left


def faults_of(answers: Mapping[Resource, Fault | None]) -> dict[Resource, Fault]:
    return {r: fault for r, fault in answers.items() if fault is not None}


def first_fault(doing: str, faults: Mapping[Resource, Fault]) -> str:
    """Return the first of these faults in one sentence."""
    resource, fault = next(iter(faults.items()))
    return f"{doing} the throttle of {resource.kind.value} {resource.name} failed: {fault}"
