"""What a run changed in the cluster's configs: how each was before, during and after it.

Pure: a fold over the journal's records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from core.cluster.configs import ConfigSource
from core.plan.copies import Side
from core.run.journal.records import Kind, Record
from core.run.journal.retention_records import RETENTION
from core.run.journal.run_state import RunState
from core.run.journal.throttle_values import LISTED, LISTS, RATES
from core.units import NO_LIMIT, format_duration, format_rate

SHOWN_PAIRS = 4

_WHAT = {
    **{side.rate_config: f"{side.value} rate" for side in Side},
    **{side.list_config: f"{side.value} list" for side in LISTED},
    RETENTION: "retention",
}
AFTER_WORDS = {
    "set": "set as before",
    "unset": "unset again",
    "kept": "was kept",
    "changed": "changed by somebody else, left so",
    "found": "as before",
    "gone": "its topic is gone",
    "held": "still set",
}


@dataclass(slots=True)
class ChangedConfig:
    """One config of one broker or topic; values are as Kafka writes them, None is unset."""

    resource: str
    """`broker` or `topic`."""
    name: str
    config: str
    before: str | None
    source: ConfigSource
    during: list[str] = field(default_factory=list)
    """The values that it was given, in order; of a list, the entries that were added."""
    theirs: int = 0
    """How often somebody else changed it meanwhile."""
    after: str = "held"
    """`set` as before, `unset` again, `kept`, `changed` by others, `gone`, or `held` still."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"source": self.source.value}

    @property
    def where(self) -> str:
        what = _WHAT[self.config]
        return f"{what} of {'broker ' if self.resource == 'broker' else ''}{self.name}"

    @property
    def before_words(self) -> str:
        if self.before is None or self.source in (ConfigSource.DEFAULT, ConfigSource.UNKNOWN):
            return "unset"
        if self.before == "":
            return "set to nothing"
        own = self.source in (ConfigSource.BROKER, ConfigSource.TOPIC)
        return self._words(self.before) + ("" if own else f" ({self.source.value})")

    @property
    def during_words(self) -> str:
        """Return the values in words: all when they are few, else how many, and between which."""
        if not self.during:
            return "kept"
        if self.config not in RATES:
            shown = [self._words(value) for value in self.during[:SHOWN_PAIRS]]
            rest = len(self.during) - SHOWN_PAIRS
            return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")
        if len(self.during) <= SHOWN_PAIRS:
            return ", then ".join(self._words(value) for value in self.during)
        rates = sorted(map(int, self.during))
        low, high = format_rate(rates[0]), format_rate(rates[-1])
        return f"{len(rates):,} rates from {low} to {high}"

    @property
    def after_words(self) -> str:
        theirs = "" if not self.theirs else ", changed by somebody else meanwhile"
        out = "taken out again, " if self.during and self.after in ("unset", "found") else ""
        out = out if self.config in LISTS else ""
        return out + AFTER_WORDS[self.after] + (theirs if self.after != "changed" else "")

    def _words(self, value: str) -> str:
        if self.config in RATES:
            return format_rate(int(value)) if int(value) < NO_LIMIT else "unlimited"
        if self.config == RETENTION and value.isdigit():
            return format_duration(int(value) / 1000)
        return value


def changes(records: Iterable[Record], run: RunState) -> tuple[ChangedConfig, ...]:
    """Return every config that a run changed; `run` is the fold of all `records`."""
    configs: dict[tuple[str, str, str], ChangedConfig] = {}
    for record in records:
        _take(configs, record)
    for (broker, side), rate in run.throttles.rates.items():
        if rate.rate_bytes_per_s is not None:
            configs["broker", str(broker), side.rate_config].after = "held"
    for topic, side in run.throttles.lists:
        configs["topic", topic, side.list_config].after = "held"
    return tuple(sorted(configs.values(), key=_by_name))


def _by_name(change: ChangedConfig) -> tuple[str, int, str, str]:
    number = int(change.name) if change.resource == "broker" else 0
    return change.resource, number, change.name, change.config


def _take(configs: dict[tuple[str, str, str], ChangedConfig], record: Record) -> None:
    p = record.payload
    match record.kind:
        case Kind.THROTTLE_INTENT | Kind.RATE_INTENT:
            for rate in p["rates"]:
                _rate(configs, rate, ConfigSource[rate["source"]])
                if record.kind is Kind.RATE_INTENT:  # somebody may have changed it since the first
                    config = configs[_rate_key(rate)]
                    config.theirs += rate["prior"] != config.before
            for entry in p.get("lists", ()):
                config = _list_config(configs, entry)
                config.during += [pair for pair in entry["pairs"] if pair not in config.during]
        case Kind.RATES_CHANGING:
            for rate in p["rates"]:
                _rate(configs, rate, ConfigSource.UNKNOWN)
        case Kind.RATES_CHANGED:
            for broker, side, refused, _ in p.get("refused", ()):
                config = configs["broker", str(broker), Side(side).rate_config]
                config.during = [rate for rate in config.during if rate != str(refused)]
        case Kind.DISTURBED:
            for rate in p["rates"]:
                config, is_regained = configs[_rate_key(rate)], rate.get("again", False)
                config.theirs += not is_regained
                config.after = "held" if is_regained else "changed"
            for entry in p["lists"]:
                config = _list_config(configs, entry)
                config.theirs += 1
                if entry["mend"]:
                    config.during += [pair for pair in entry["pairs"] if pair not in config.during]
                else:
                    config.after = "changed"
        case Kind.RATE_RESTORED:
            for rate in p["rates"]:
                if one_rate := configs.get(_rate_key(rate)):
                    one_rate.after = rate["how"]
        case Kind.PAIRS_REMOVED:
            for topic, side, _ in p["lists"]:
                config = configs["topic", topic, Side(side).list_config]
                unset = [topic, side] in p["unset"] if "unset" in p else config.before is None
                config.after = "unset" if unset else "found"
        case Kind.RETENTION_LOWERING:
            for key in [key for key in configs if key[2] == RETENTION]:
                del configs[key]  # intended by a process that died, and looked at anew
            for entry in p["topics"]:
                source = ConfigSource[entry["source"]]
                key = "topic", entry["topic"], RETENTION
                configs[key] = ChangedConfig(*key, entry["prior"], source, [str(p["ms"])])
        case Kind.RETENTION_LOWERED:
            for topic in p.get("refused", {}):
                del configs["topic", topic, RETENTION]
        case Kind.RETENTION_RESTORED:
            for topic, how in p["topics"].items():
                configs["topic", topic, RETENTION].after = how
        case _:
            pass


def _rate_key(rate: Mapping[str, Any]) -> tuple[str, str, str]:
    return "broker", str(rate["broker"]), Side(rate["side"]).rate_config


def _rate(
    configs: dict[tuple[str, str, str], ChangedConfig],
    rate: Mapping[str, Any],
    source: ConfigSource,
) -> None:
    key = _rate_key(rate)
    config = configs.setdefault(key, ChangedConfig(*key, rate.get("prior"), source))
    if rate["rate_bytes_per_s"] is None:
        config.after = "kept"
    else:
        config.during.append(str(rate["rate_bytes_per_s"]))


def _list_config(
    configs: dict[tuple[str, str, str], ChangedConfig], entry: Mapping[str, Any]
) -> ChangedConfig:
    key = "topic", entry["topic"], Side(entry["side"]).list_config
    return configs.setdefault(key, ChangedConfig(*key, entry["prior"], ConfigSource.TOPIC))
