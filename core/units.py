"""Bytes, rates and times: parsed from what people type, formatted for people.

A bare number for a rate is refused: a wrong unit is the most common throttle accident.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from core.errors import UsageError

UNLIMITED = -1
"""A rate that stands for no throttle at all."""

NO_LIMIT = 2**63 - 1
"""The largest rate that brokers know, which they show where nobody has set one."""

LONGEST_SECONDS = 36_525 * 86_400.0
"""100 years."""

_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40, "pi": 2**50}
_FACTORS = _DECIMAL | _BINARY
_AMOUNT = r"\s*(\d+(?:_\d+)*(?:\.\d+)?|\.\d+)\s*([kmgtp]i?)?b"
_RATE = re.compile(_AMOUNT + r"(?:/s|ps)\s*", re.IGNORECASE)
_BITS = re.compile(r"\s*([\d_.]+)\s*([kKmMgGtTpP]i?)b(?:/s|ps)\s*")
_SIZE = re.compile(_AMOUNT + r"\s*", re.IGNORECASE)
_BARE = re.compile(r"\s*\d+(?:\.\d+)?\s*")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|sec|m|min|h|d)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def parse_rate(text: str) -> int:
    """Return bytes per second for `50MB/s`, `50MiB/s`; `-1` and `unlimited` give UNLIMITED.

    Raises UsageError for anything else; for a bare number, and for what may be bits (`Mbps`),
    it shows both readings.
    """
    if text.strip().lower() in ("-1", "unlimited"):
        return UNLIMITED
    rate = _amount(_RATE, text)
    if rate is not None and (bits := _BITS.fullmatch(text)):
        amount, unit = float(bits[1].replace("_", "")), f"{bits[2].capitalize()}B/s"
        raise UsageError(
            f"{text.strip()} may be bits or bytes.",
            next=f"Give {amount:g}{unit} for bytes, or {amount / 8:g}{unit} if these are bits.",
        )
    if rate is not None and rate >= NO_LIMIT:
        raise UsageError(
            f"No broker takes a rate of {text.strip()}.", next="Give unlimited for no throttle."
        )
    if rate is None:
        if not _BARE.fullmatch(text):
            raise UsageError(f"Not a rate: {text!r}.", next="Write it like 50MB/s or 50MiB/s.")
        number = text.strip()
        if not float(number):
            raise _too_low_rate_error(number)
        raise UsageError(
            f"A rate needs a unit: {number}.",
            next=f"Give {number}MB/s ({float(number) * 1e6:,.0f} bytes a second) "
            f"or {number}B/s; MiB/s is 1,048,576.",
        )
    if rate < 1:
        raise _too_low_rate_error(text.strip())
    return round(rate)


def parse_flow(text: str) -> int:
    """Return bytes per second that really flow: as `parse_rate`, without UNLIMITED."""
    rate = parse_rate(text)
    if rate == UNLIMITED:
        raise UsageError(
            f"{text.strip()} is not a rate here.", next="Write it like 50MB/s, or leave it out."
        )
    return rate


def parse_size(text: str) -> int:
    """Return bytes for `10GB`, `500MiB`; raises UsageError for anything else, and for none."""
    size = _amount(_SIZE, text)
    if size is None or size < 1:
        raise UsageError(f"Not a size: {text!r}.", next="Write it like 10GB or 500MiB.")
    return round(size)


def _amount(pattern: re.Pattern[str], text: str) -> float | None:
    """Return the bytes of a number and its unit; None when that is not what it says."""
    match = pattern.fullmatch(text)
    if match is None:
        return None
    amount = float(match[1].replace("_", "")) * _FACTORS[(match[2] or "").lower()]
    return amount if math.isfinite(amount) else None


def _too_low_rate_error(rate: str) -> UsageError:
    return UsageError(
        f"A rate of {rate} moves nothing.",
        next="Give at least 1B/s, or unlimited for no throttle.",
    )


def parse_duration(text: str) -> float:
    """Return seconds for `90s`, `10m`, `1h30m`, `2d`; a bare number is seconds.

    Raises UsageError for anything else, and for more than LONGEST_SECONDS: no clock or calendar
    reckons with any number.
    """
    compact = text.strip().replace(" ", "")
    if _BARE.fullmatch(compact):
        compact += "s"
    parts = _DURATION.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise UsageError(f"Not a time: {text!r}.", next="Write it like 90s, 10m or 1h30m.")
    seconds = float(sum(float(number) * _SECONDS[unit.lower()] for number, unit in parts))
    if seconds > LONGEST_SECONDS:
        raise UsageError("That is longer than 100 years.", next="Write it like 90s, 10m or 1h30m.")
    return seconds


def parse_deadline(text: str) -> float:
    """Return the seconds in which something is to end: as `parse_duration`, and more than none."""
    seconds = parse_duration(text)
    if seconds <= 0:
        raise UsageError("A deadline must be positive.", next="Give one like 10m.")
    return seconds


def parse_id(text: str) -> int:
    """Return the broker that is written as `3`; raises UsageError for what is no plain number."""
    word = text.strip()
    if not (word.isascii() and word.isdecimal()):
        raise UsageError(f"Not a broker id: {text!r}.", next="Write it like 3.")
    return int(word)


def parse_ids(text: str) -> tuple[int, ...]:
    """Return the brokers of `1,3`; raises UsageError for anything else. See `id_list`."""
    try:
        return tuple(map(parse_id, text.split(",")))
    except UsageError as error:
        raise UsageError(f"Not broker ids: {text!r}.", next="Write them like 1,3.") from error


def id_list(ids: Iterable[int]) -> str:
    """Return brokers as people write them: `1,2,3`."""
    return ",".join(map(str, ids))


def name_list(names: Sequence[object], max_names: int | None = 3) -> str:
    """Return names, the rest counted: `a`, `a, b and c`, `a, b, c and 4 more`."""
    shown = [str(name) for name in names[:max_names]]
    if len(names) > len(shown):
        shown.append(f"{len(names) - len(shown)} more")
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else shown[0]


def counted(count: int, thing: str) -> str:
    """Return `1 partition`, `2 partitions`, for things whose plural only takes an s."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def format_bytes(value: float | None, *, unit: str = "B") -> str:
    """Return three significant digits in decimal units (`212 GB`, `1.9 MB`); `?` for unknown."""
    if value is None or math.isnan(value):
        return "?"
    sign, value = ("-", -value) if value < 0 else ("", value)
    for step, prefix in enumerate(("", "k", "M", "G", "T", "P")):
        scaled = value / 1000**step
        digits = 1 if step and scaled and round(scaled, 1) < 10 else 0
        if round(scaled, digits) < 1000 or prefix == "P":
            return f"{sign}{scaled:.{digits}f} {prefix}{unit}"
    raise AssertionError("unreachable: the last prefix always returns")


def format_rate(value: float | None) -> str:
    """Return `48 MB/s`; `unlimited` for UNLIMITED, `?` for unknown."""
    if value == UNLIMITED:
        return "unlimited"
    return format_bytes(value, unit="B/s")


def format_duration(seconds: float | None) -> str:
    """Return at most two units: `44 s`, `3 m 20 s`, `19 m`, `1 h 07 m`, `2 d 3 h`; `?` unknown."""
    if seconds is None or math.isnan(seconds) or math.isinf(seconds):
        return "?"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} m {whole % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} m"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} m"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def format_time(moment: datetime) -> str:
    """Return RFC 3339 in UTC with milliseconds, ending in Z."""
    utc = moment.astimezone(UTC)
    return utc.strftime("%Y-%m-%dT%H:%M:%S.") + f"{utc.microsecond // 1000:03d}Z"


def parse_time(text: str) -> datetime:
    """Return an aware datetime for an RFC 3339 time; raises UsageError without a zone."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise UsageError(f"Not a time: {text!r}.", next="Write it like 2026-01-31T02:00:00Z.")
