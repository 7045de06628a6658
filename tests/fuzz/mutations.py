"""Changes to good files: what a full disk, a bad copy, an editor or a prankster makes of them."""

from __future__ import annotations

import copy
import json
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

DEEP = 3_000
ODD_TEXTS = (
    *("", " ", "t", "\0", "\ud800", "\udcff", "\x1b[31mred", "\x1b]0;title\x07", "\x9b2J", "\r\n"),
    *("a" * 300, "b\u202e", "\u2028", "\ufeff", "e\u0301" * 40, "🙂", "../../etc/passwd", "%s%n"),
    *("2026-02-30T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "١٢٣"),
    *("9" * 5000, "-0", "1e999", "nan", "null", "~nobody/x", "${x:y}", "(" * 200, "[" * 200),
)
ODD_NUMBERS = (
    *(-1, 0, 1, 2, 127, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, -(2**63)),
    *(10**40, -(10**40), 0.1, -0.0, 1e308, 5e-324, float("nan"), float("inf"), float("-inf")),
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, *ODD_NUMBERS, *ODD_TEXTS),
    *([], {}, [[]], [1, 1], [None], {"": 1}, [{}], {"a": {"b": [0]}}),
)
ODD_BYTES = (
    *(
        b"\0",
        b"\xff",
        b"\n",
        b"\r",
        b"\\",
        b'"',
        b"'",
        b"\x80",
        b"=",
        b"\x1b[2J",
        b"\x9b",
        b"\\u12",
    ),
    *(
        b"[" * DEEP,
        b"{",
        b";",
        b"/*",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"1e999",
    ),
    *(b"9" * 5000, b"NaN", b"-Infinity", b"\xe2\x80\xae", b"#", b"[", b".", b"\t", b"${file:x:y}"),
)


def damaged(data: bytes, dice: random.Random) -> bytes:
    """Return bytes that are cut, lengthened, repeated, or other than they were in some places."""
    if not data:
        return dice.randbytes(dice.randrange(64))
    at = dice.randrange(len(data))
    match dice.randrange(8):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[at + dice.randrange(1, 80) :]
        case 2:
            return data[:at] + dice.randbytes(dice.randrange(1, 40)) + data[at:]
        case 3:
            return data[:at] + dice.choice(ODD_BYTES) + data[at + dice.randrange(2) :]
        case 4:  # a number, as formats keep them
            size = dice.choice((1, 2, 4, 8))
            value = dice.choice(ODD_NUMBERS[:14]) % 2 ** (8 * size)
            return data[:at] + value.to_bytes(size, "little") + data[at + size :]
        case 5:
            end = dice.randrange(at, min(len(data), at + 400)) + 1
            return data[:end] + data[at:end] * dice.randrange(1, 4) + data[end:]
        case _:
            changed = bytearray(data)
            for _ in range(dice.choice((1, 1, 2, 8, 64))):
                changed[dice.randrange(len(data))] = dice.choice(
                    (0, 1, 127, 255, dice.randrange(256))
                )
            return bytes(changed)


def odd(document: Any, dice: random.Random, values: Sequence[Any] = ODD_VALUES) -> Any:
    """Return a document with one value, anywhere in it, that is missing, odd or elsewhere."""
    document = copy.deepcopy(document)
    place = document
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = dice.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and dice.random() < 0.85:
            place = place[key]
            continue
        match dice.randrange(10):
            case 0 | 1:
                del place[key]
            case 2 if isinstance(place, list):
                place.append(copy.deepcopy(place[key]))
            case 2 if isinstance(place, dict):
                place[str(dice.choice(ODD_TEXTS))] = place.pop(key)
            case 3:
                other = dice.choice(keys)
                place[key], place[other] = place[other], place[key]
            case 4:
                place[key] = [place[key]]
            case 5 if isinstance(place[key], str):
                at = dice.randrange(len(place[key]) + 1)
                place[key] = place[key][:at] + str(dice.choice(ODD_TEXTS)) + place[key][at:]
            case _:
                place[key] = dice.choice(values)
        break
    return document


def odd_json(document: Any, dice: random.Random) -> bytes:
    """Return the text of an odd document; it may have keys twice, or be nested very deep."""
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        document = odd(document, dice)
    text = json.dumps(document, ensure_ascii=dice.random() < 0.7)
    match dice.randrange(12):
        case 0 if text.startswith("{") and len(text) > 2:  # keys that come twice
            body = text[1:-1]
            text = "{" + body + "," + body[: body.find(",") + 1].rstrip(",") + "}"
        case 1:
            at = text.find(":") + 1
            text = text[:at] + "[" * DEEP + "]" * DEEP + text[at:]
        case 2:
            text = text.replace("1", "9" * 400, 1)
        case _:
            pass
    return text.encode("utf-8", "surrogatepass")


def damaged_text(text: str, dice: random.Random, other_lines: Sequence[str] = ()) -> bytes:
    """Return a text with lines that are gone, twice, of another file, or of odd values."""
    lines = text.split("\n")
    for _ in range(dice.choice((1, 1, 2, 4))):
        at = dice.randrange(len(lines))
        line = lines[at]
        match dice.randrange(7):
            case 0:
                del lines[at]
                lines = lines or [""]
            case 1:
                lines.insert(dice.randrange(len(lines) + 1), line)
            case 2 if other_lines:
                lines.insert(at, dice.choice(other_lines))
            case 3:
                key, between, _ = line.partition("=")
                lines[at] = key + between + str(dice.choice(ODD_VALUES))
            case 4:
                cut = dice.randrange(len(line) + 1)
                lines[at] = line[:cut] + str(dice.choice(ODD_TEXTS)) + line[cut:]
            case 5:
                other = dice.randrange(len(lines))
                lines[at], lines[other] = lines[other], line
            case _:
                lines[at] = line[: dice.randrange(len(line) + 1)]
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    return damaged(data, dice) if dice.random() < 0.3 else data


def damaged_database(path: Path, dice: random.Random, tables: Sequence[str]) -> None:
    """Change some cells or rows of an SQLite file, as SQLite itself would write them."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = MEMORY")
        database.execute("PRAGMA synchronous = OFF")
        for _ in range(dice.choice((1, 1, 2, 5))):
            table = dice.choice(tables)
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            rows = [row[0] for row in database.execute(f"SELECT rowid FROM {table}")]
            if not (columns and rows):
                continue
            row, column = dice.choice(rows), dice.choice(columns)
            (cell,) = database.execute(
                f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)
            ).fetchone()
            try:
                match dice.randrange(8):
                    case 0:
                        database.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
                    case 1 if len(rows) > 1:
                        database.execute(
                            f"UPDATE {table} SET {column} ="
                            f" (SELECT {column} FROM {table} WHERE rowid = ?) WHERE rowid = ?",
                            (dice.choice(rows), row),
                        )
                    case _:
                        value = _odd_cell(cell, dice)
                        database.execute(
                            f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, row)
                        )
            except (sqlite3.Error, OverflowError, UnicodeEncodeError):
                continue  # it does not take that


def _odd_cell(cell: Any, dice: random.Random) -> Any:
    text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell
    if isinstance(text, str) and text[:1] in ("{", "[") and dice.random() < 0.8:
        with suppress(ValueError, RecursionError):  # it was changed before
            odd_value = odd_json(json.loads(text), dice)
            return odd_value if isinstance(cell, bytes) else odd_value.decode("utf-8", "replace")
    if isinstance(cell, bytes) and dice.random() < 0.8:
        return damaged(cell, dice)
    odd_value = dice.choice((*ODD_NUMBERS, *ODD_TEXTS, None, b"", b"\xff\x00"))
    if isinstance(odd_value, int) and not -(2**63) <= odd_value < 2**63:
        odd_value = float(odd_value)
    if isinstance(cell, int) and dice.random() < 0.5:
        odd_value = cell + dice.choice((-1, 1, 2, 1000, -(2**40), 2**40))
    return odd_value
