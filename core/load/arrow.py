"""Arrow columns from and to NumPy through their buffers, never through pandas.

pyarrow's own conversions (`pa.array`, `to_numpy`, `to_pylist`) import pandas wherever it is
installed; that costs a reader 200 ms, so the few conversions that load needs are made here.
Import this module late: it imports pyarrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]

DAMAGED = (pa.ArrowException, OSError, ValueError, TypeError, IndexError)
"""What reading a file raises in which bytes have changed: any of these, whatever is wrong."""


def schema_metadata(schema: Any) -> dict[str, str]:
    """Return what is written about a file in its schema's metadata."""
    pairs = (schema.metadata or {}).items()
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, value in pairs}


def number_array(values: Array, kind: Any, known: npt.NDArray[np.bool_] | None = None) -> Any:
    """Return an Arrow array of the numeric type `kind`; null where `known` is False."""
    data = np.ascontiguousarray(values, _dtype(kind))
    validity = None
    if known is not None and not known.all():
        validity = pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(kind, len(data), [validity, pa.py_buffer(data)])


def boolean_array(values: npt.NDArray[np.bool_]) -> Any:
    """Return an Arrow boolean array."""
    bits = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])


def string_array(values: Sequence[str]) -> Any:
    """Return an Arrow string array."""
    encoded = [value.encode() for value in values]
    offsets = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(value) for value in encoded], out=offsets[1:])
    data = b"".join(encoded)
    return pa.Array.from_buffers(
        pa.utf8(), len(encoded), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def dictionary_array(
    codes: npt.NDArray[np.int32],
    values: Sequence[str],
    known: npt.NDArray[np.bool_] | None = None,
) -> Any:
    """Return a dictionary array: `values[codes[i]]`, null where `known` is False."""
    indices = number_array(codes if known is None else np.where(known, codes, 0), pa.int32(), known)
    return pa.DictionaryArray.from_arrays(indices, string_array(values))


def to_numpy(column: Any) -> Array:
    """Return a numeric column as NumPy, without a copy where it is one chunk without nulls.

    Nulls become NaN, or -1 in integer columns.
    """
    chunks = [_chunk_values(chunk) for chunk in _chunks(column)]
    if len(chunks) == 1:
        return chunks[0]
    return np.concatenate(chunks) if chunks else np.zeros(0, _dtype(column.type))


def to_optional(column: Any) -> list[Any]:
    """Return a numeric, boolean, string or dictionary column as Python values, None for null.

    Times are their integers, in the column's unit.
    """
    out: list[Any] = []
    for chunk in _chunks(column):
        if pa.types.is_dictionary(chunk.type):
            codes, texts = to_codes(chunk)
            out += map((*texts, None).__getitem__, codes.tolist())
            continue
        is_text = pa.types.is_string(chunk.type)
        values = to_strings(chunk) if is_text else _chunk_values(chunk).tolist()
        known = _known(chunk).tolist()
        out += (value if is_known else None for value, is_known in zip(values, known, strict=True))
    return out


def to_codes(column: Any) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Return a dictionary column as codes and the values they stand for; -1 for null."""
    column = column.unify_dictionaries() if isinstance(column, pa.ChunkedArray) else column
    chunks = _chunks(column)
    if not chunks:
        return np.zeros(0, np.int32), ()
    codes = [_chunk_values(chunk.indices) for chunk in chunks]
    return np.concatenate(codes).astype(np.int32), to_strings(chunks[-1].dictionary)


def to_strings(column: Any) -> tuple[str, ...]:
    """Return a string column as Python strings; "" for null."""
    out: list[str] = []
    for chunk in _chunks(column):
        _, offset_buffer, data = chunk.buffers()
        if len(chunk) == 0:
            continue
        offsets = np.frombuffer(offset_buffer, np.int32, len(chunk) + 1, chunk.offset * 4)
        whole = memoryview(data) if data is not None else memoryview(b"")
        out.extend(
            str(whole[start:end], "utf-8")
            for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        )
    return tuple(out)


def to_lists(column: Any) -> tuple[npt.NDArray[np.int64], Array]:
    """Return a list column as (start[N+1], values): row i is `values[start[i]:start[i+1]]`."""
    starts, values, base = [np.zeros(1, np.int64)], [], 0
    for chunk in _chunks(column):
        offsets = np.frombuffer(chunk.buffers()[1], np.int32, len(chunk) + 1, chunk.offset * 4)
        starts.append(offsets[1:].astype(np.int64) - int(offsets[0]) + base)
        values.append(_chunk_values(chunk.values)[int(offsets[0]) : int(offsets[-1])])
        base += int(offsets[-1] - offsets[0])
    empty = np.zeros(0, _dtype(column.type.value_type))
    return np.concatenate(starts), np.concatenate(values) if values else empty


def _chunks(column: Any) -> list[Any]:
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]


def _dtype(kind: Any) -> Any:
    return np.dtype(np.int64 if pa.types.is_timestamp(kind) else kind.to_pandas_dtype())


def _known(chunk: Any) -> npt.NDArray[np.bool_]:
    validity = chunk.buffers()[0]
    if validity is None or chunk.null_count == 0:
        return np.ones(len(chunk), np.bool_)
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
    return bits[chunk.offset : chunk.offset + len(chunk)].astype(np.bool_)


def _chunk_values(chunk: Any) -> Array:
    data = chunk.buffers()[1]
    if pa.types.is_boolean(chunk.type):
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        return bits[chunk.offset : chunk.offset + len(chunk)].astype(np.bool_)
    dtype = _dtype(chunk.type)
    if len(chunk) == 0 or data is None:
        return np.zeros(0, dtype)
    values: Array = np.frombuffer(data, dtype, len(chunk), chunk.offset * dtype.itemsize)
    if chunk.null_count == 0:
        return values
    return np.where(_known(chunk), values, np.nan if dtype.kind == "f" else -1).astype(dtype)
