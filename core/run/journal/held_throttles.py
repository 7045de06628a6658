"""Throttles that a run holds in the cluster, replayed from its journal.

Everything intended is held here until it is read back to be gone: a call without an answer may
have acted, and may act yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from core.cluster.configs import ConfigSource
from core.plan.copies import Side
from core.run.journal.throttle_values import Key, ListIntent, ListKey, RateIntent

Pair = tuple[str, Side, str]
"""One `partition:broker` entry of ours in a topic's list."""


class PairState(Enum):
    """Why a pair of ours may not be in its list. `…ING` is intended, the answer not known."""

    TAKING = "taking"
    TAKEN = "taken"
    LOST = "lost"
    PUTTING = "putting"


@dataclass(slots=True)
class BatchThrottles:
    """What throttles a batch's next moves are to have; `set` once they have been read back."""

    lists: tuple[ListIntent, ...]
    rates: tuple[RateIntent, ...]
    set: bool = False
    late: tuple[RateIntent, ...] = ()
    """Rates of brokers that were down at first."""
    moves: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class HeldThrottles:
    """The throttles of a run that it has not given back."""

    batches: dict[int, BatchThrottles] = field(default_factory=dict)
    lists: dict[ListKey, ListIntent] = field(default_factory=dict)
    """What of the topic lists is ours, and not given back yet."""
    rates: dict[Key, RateIntent] = field(default_factory=dict)
    """Rates that we set (or kept), and have not given back yet."""
    rates_due: dict[Key, RateIntent] = field(default_factory=dict)
    """Those of `rates` that have not been read back: they may be in force, or come into it."""
    lists_left: dict[ListKey, str | None] = field(default_factory=dict)
    """How lists were left that were given back and that nobody else has touched since."""
    lists_due: set[ListKey] = field(default_factory=set)
    """Lists with pairs of ours that have not been read back."""
    away: dict[Pair, PairState] = field(default_factory=dict)
    """Pairs of ours that are to be out of their lists for now, or that somebody took out."""
    mends: dict[Key | ListKey, int] = field(default_factory=dict)
    """How often somebody else has deleted something that we put back, as last journalled."""

    def intend_throttles(self, p: Mapping[str, Any], whole: Iterable[int]) -> tuple[int, ...]:
        """Take in what is to be set for a batch; return its moves: `whole`, unless it says which.

        Those that wait are not listed: a follower of theirs that returns would be held back.
        """
        before = self.batches.get(p["batch"])
        batch = BatchThrottles(
            tuple(ListIntent.from_json(entry) for entry in p["lists"]),
            tuple(RateIntent.from_json(entry) for entry in p["rates"]),
            late=before.late if before else (),
            moves=tuple(p.get("moves", whole)),
        )
        self.batches[p["batch"]] = batch
        for intent in batch.lists:
            key = intent.key
            known = self.lists.get(key)
            self.lists[key] = known.joined(intent) if known else intent
            self.lists_due.add(key)
        self._due(batch.rates)
        return batch.moves

    def still_needed(self, batch: int) -> BatchThrottles:
        """Return a batch's throttles but for what was given back since they were intended."""
        intended = self.batches[batch]
        held = {key: frozenset(intent.pairs) for key, intent in self.lists.items()}
        return replace(
            intended,
            lists=tuple(
                replace(i, pairs=tuple(pair for pair in i.pairs if pair in held[i.key]))
                for i in intended.lists
                if i.key in held
            ),
            rates=tuple(self.rates[r.key] for r in intended.rates if r.key in self.rates),
        )

    def throttles_are_set(self, p: Mapping[str, Any]) -> tuple[RateIntent, ...]:
        """Take in that a batch's throttles were read back; return those of its rates.

        `late` are those of brokers that died meanwhile: they are due when these return.
        """
        throttle = self.batches[p["batch"]]
        late = {(broker, Side(side)) for broker, side in p.get("late", ())}
        throttle.set = True
        self.lists_due -= {i.key for i in throttle.lists}
        rates = tuple(r for r in throttle.rates if r.key not in late)
        for rate in rates:
            self.rates_due.pop(rate.key, None)
        return rates

    def throttles_failed(self, p: Mapping[str, Any]) -> None:
        """Take in that a batch's throttles were refused; `unknown` brokers may have them yet."""
        unknown = p.get("unknown", {"topics": [], "brokers": []})
        for key in [key for key in self.rates_due if key[0] not in unknown["brokers"]]:
            del self.rates_due[key]
        self.lists_due = {key for key in self.lists_due if key[0] in unknown["topics"]}

    def intend_rates(self, p: Mapping[str, Any]) -> None:
        late = tuple(RateIntent.from_json(entry) for entry in p["rates"])
        self.batches[p["batch"]].late += late
        self._due(late)

    def change_rates(self, rates: Iterable[tuple[Key, int]]) -> None:
        """Take in that rates of ours are about to be changed; either value may be in force."""
        for key, rate in rates:
            known = self.rates[key]
            held = known.rate_bytes_per_s
            perhaps = {*known.perhaps, *(() if held is None else (held,))} - {rate}
            now = replace(known, rate_bytes_per_s=rate, perhaps=tuple(sorted(perhaps)), ours=None)
            self._due([now])

    def rates_are_set(self, keys: Iterable[Key]) -> None:
        """Take in that these rates were read back."""
        for key in keys:
            self.rates_due.pop(key, None)
            if key in self.rates:
                self.rates[key] = replace(self.rates[key], perhaps=())

    def keep_refused(self, kept: Iterable[tuple[Key, int | None]]) -> None:
        """Take in that other values of these rates were refused; None is somebody else's, kept."""
        for key, rate in kept:
            known = self.rates[key]
            perhaps = tuple(candidate for candidate in known.perhaps if candidate != rate)
            self.rates[key] = replace(known, rate_bytes_per_s=rate, perhaps=perhaps)
            self.rates_due.pop(key, None)

    def disturb(self, p: Mapping[str, Any]) -> Iterable[Key]:
        """Take in what somebody did to throttles of ours; return the rates that change hands.

        What they deleted is ours still when it is to be mended: from now on as they left it.
        """
        left = []
        for entry in p["rates"]:
            key = entry["broker"], Side(entry["side"])
            if entry.get("freed"):
                del self.rates[key]
                left.append(key)
                continue
            known = self.rates[key]
            if entry.get("again") and known.ours is not None:
                self.rates[key] = known.ours
                left.append(key)
                continue
            intent = replace(known, prior=entry["prior"], source=ConfigSource[entry["source"]])
            # Journals of before say of one that was taken away too often that it is not put back.
            if entry["mend"] or intent.prior is None:
                self._record_mend(key, entry)
                self._due([intent])
            else:
                self.rates[key] = replace(intent, rate_bytes_per_s=None, perhaps=(), ours=known)
                self.rates_due.pop(key, None)
                left.append(key)
        for entry in p["lists"]:
            topic, side, pairs = entry["topic"], Side(entry["side"]), entry["pairs"]
            self.lists_left.pop((topic, side), None)
            if entry["mend"]:
                self._record_mend((topic, side), entry)
                gone = ListIntent(topic, side, entry["prior"], tuple(pairs))
                ours = self.lists.get((topic, side), gone).joined(gone)
                self.lists[topic, side] = replace(ours, prior=gone.prior)
                self.away |= {(topic, side, pair): PairState.LOST for pair in pairs}
            else:
                self._remove_pairs(topic, side, pairs)
        return left

    def _record_mend(self, key: Key | ListKey, p: Mapping[str, Any]) -> None:
        self.mends[key] = p.get("times", self.mends.get(key, 0) + 1)

    def put_pairs(
        self, lists: Iterable[tuple[str, str, list[str]]], away: PairState | None
    ) -> None:
        """Take in that pairs are on their way out or back; None is back where they belong."""
        for topic, side, pairs in lists:
            for pair in pairs:
                if away is None:
                    self.away.pop((topic, Side(side), pair), None)
                else:
                    self.away[topic, Side(side), pair] = away

    def pairs_are_removed(self, p: Mapping[str, Any]) -> None:
        """Take in that pairs of ours are out of their lists, and which are unset by that."""
        unset = {(topic, Side(side)) for topic, side in p.get("unset", ())}
        for topic, value, pairs in p["lists"]:
            side = Side(value)
            known = self._remove_pairs(topic, side, pairs)
            if known is not None:
                self.lists_left[topic, side] = None if (topic, side) in unset else known.prior

    def _remove_pairs(self, topic: str, side: Side, pairs: Iterable[str]) -> ListIntent | None:
        """Take in that pairs are not ours any more; return a list's intent if none is left."""
        gone = tuple(pairs)
        for pair in gone:
            self.away.pop((topic, side, pair), None)
        intent = self.lists.get((topic, side))
        if intent is None:
            return None
        left = intent.without(gone)
        if left.pairs:
            self.lists[topic, side] = left
            return None
        del self.lists[topic, side]
        self.lists_due.discard((topic, side))
        return intent

    def rates_are_restored(self, keys: Iterable[Key]) -> None:
        """Take in that these rates are the cluster's own again."""
        for key in keys:
            self.rates.pop(key, None)
            self.rates_due.pop(key, None)

    def _due(self, rates: Iterable[RateIntent]) -> None:
        for rate in rates:
            self.rates[rate.key] = rate
            if rate.rate_bytes_per_s is not None:
                self.rates_due[rate.key] = rate
            else:
                self.rates_due.pop(rate.key, None)
