"""Rates, sizes and times: what people type, and what they read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UsageError
from core.units import (
    LONGEST_SECONDS,
    UNLIMITED,
    counted,
    format_bytes,
    format_duration,
    format_rate,
    format_time,
    id_list,
    name_list,
    parse_duration,
    parse_ids,
    parse_rate,
    parse_size,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50MB/s", 50_000_000),
        ("50MiB/s", 52_428_800),
        ("1.5 MB/s", 1_500_000),
        ("10kB/s", 10_000),
        ("10KB/s", 10_000),
        ("10KiB/s", 10_240),
        ("1_000B/s", 1_000),
        ("1_000.5kB/s", 1_000_500),
        (".5MB/s", 500_000),
        ("2GBps", 2_000_000_000),
        ("-1", UNLIMITED),
        ("unlimited", UNLIMITED),
    ],
)
def test_rate_is_bytes_per_second(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["100Mbps", "100mb/s", "100Mb/s", "100mbps"])
def test_rate_that_may_be_bits_is_refused_with_both_readings(text: str) -> None:
    with pytest.raises(UsageError, match="may be bits or bytes") as refused:
        parse_rate(text)
    assert refused.value.next == "Give 100MB/s for bytes, or 12.5MB/s if these are bits."


def test_rate_larger_than_a_broker_accepts_is_refused() -> None:
    assert parse_rate("9000PB/s") == 9 * 10**18
    with pytest.raises(UsageError, match="No broker takes"):
        parse_rate("99999999999GB/s")


def test_bare_number_as_rate_is_refused_with_both_readings() -> None:
    with pytest.raises(UsageError) as refused:
        parse_rate("50")
    assert "50MB/s" in refused.value.next
    assert "50,000,000" in refused.value.next
    assert "50B/s" in refused.value.next


@pytest.mark.parametrize(
    "text",
    [
        *("", "fast", "MB/s", "50MB", "50 Mb/h", "-5MB/s", "0B/s", "0.1B/s"),
        *("50.000.000B/s", "1.2.3MB/s", "1._5MB/s", "50.000.000", f"{'9' * 400}MB/s"),
    ],
)
def test_invalid_rate_is_refused_with_advice(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_rate(text)
    assert refused.value.next


@pytest.mark.parametrize(
    ("text", "size"),
    [("10GB", 10**10), ("500MiB", 500 * 2**20), ("1.5 kB", 1500), ("1_000b", 1000)],
)
def test_size_is_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "lots", "GB", "10", "0GB", "0.1B", "1.2.3GB", "50.000.000B", f"{'9' * 400}GB"]
)
def test_invalid_size_is_refused_with_advice(text: str) -> None:
    with pytest.raises(UsageError, match="Not a size") as refused:
        parse_size(text)
    assert refused.value.next


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172800), ("250ms", 0.25), ("200", 200)],
)
def test_duration_is_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "10x", "m10", "1h 30"])
def test_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration(text)


@pytest.mark.parametrize("text", ["36526d", "99999999999d", "9" * 400, "9" * 400 + "h"])
def test_duration_longer_than_100_years_is_refused(text: str) -> None:
    assert parse_duration("36525d") == LONGEST_SECONDS
    with pytest.raises(UsageError, match="longer than 100 years"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9_949, "9.9 kB"),
        (9_960, "10 kB"),
        (212_000_000_000, "212 GB"),
        (999_600_000, "1.0 GB"),
        (-5_000_000, "-5.0 MB"),
        (None, "?"),
        (float("nan"), "?"),
    ],
)
def test_bytes_are_written_in_decimal_units(value: float | None, text: str) -> None:
    assert format_bytes(value) == text


@given(st.floats(min_value=0, max_value=1e19))
def test_written_bytes_stay_short(value: float) -> None:
    assert len(format_bytes(value)) <= 8


def test_unlimited_rate_is_written_as_a_word() -> None:
    assert format_rate(UNLIMITED) == "unlimited"
    assert format_rate(48_000_000) == "48 MB/s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.2 s"),
        (44.1, "44 s"),
        (119, "119 s"),
        (120, "2 m 00 s"),
        (200, "3 m 20 s"),
        (1140, "19 m"),
        (4020, "1 h 07 m"),
        (3599, "1 h 00 m"),
        (200_000, "2 d 8 h"),
        (None, "?"),
        (float("inf"), "?"),
    ],
)
def test_durations_have_at_most_two_units(seconds: float | None, text: str) -> None:
    assert format_duration(seconds) == text


def test_time_is_written_in_utc() -> None:
    moment = datetime(2026, 1, 31, 3, 0, 0, 5000, timezone(timedelta(hours=1)))
    assert format_time(moment) == "2026-01-31T02:00:00.005Z"


@given(st.datetimes(timezones=st.just(UTC)))
def test_written_time_reads_back(moment: datetime) -> None:
    whole = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    if moment.year >= 1000:
        assert parse_time(format_time(moment)) == whole


@pytest.mark.parametrize("text", ["now", "2026-01-31", "2026-01-31T02:00:00"])
def test_time_without_zone_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_time(text)


@pytest.mark.parametrize(("text", "ids"), [("3", (3,)), (" 0, 12,3", (0, 12, 3)), ("2,1", (2, 1))])
def test_broker_ids_are_parsed_in_the_given_order(text: str, ids: tuple[int, ...]) -> None:
    assert parse_ids(text) == ids
    assert parse_ids(id_list(ids)) == ids


@pytest.mark.parametrize("text", ["", "one", "1,", "²", "1_0", "-3", "+3", "3.0"])
def test_invalid_broker_ids_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="Not broker ids"):
        parse_ids(text)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 replicas"), (1, "1 replica"), (2, "2 replicas"), (12_000, "12,000 replicas")],
)
def test_counts_are_written_with_a_singular_or_plural_noun(count: int, expected: str) -> None:
    assert counted(count, "replica") == expected


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_time_outside_the_calendar_in_utc_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="Not a time"):
        parse_time(text)


@pytest.mark.parametrize(
    ("names", "max_names", "text"),
    [
        (["a"], 3, "a"),
        (["a", "b"], 3, "a and b"),
        (["a", "b", "c"], 3, "a, b and c"),
        (["a", "b", "c", "d"], 3, "a, b, c and 1 more"),
        (["a", "b", "c", "d"], None, "a, b, c and d"),
    ],
)
def test_names_are_listed_as_in_a_sentence(
    names: list[str], max_names: int | None, text: str
) -> None:
    assert name_list(names, max_names) == text
