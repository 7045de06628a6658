"""What may be asked of a planner, field by field, and what each is called where it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Field(Enum):
    """A field of what is wanted; the values are its names on the command line."""

    LEADERS = "--leaders"
    DRAIN = "--drain"
    ADD = "--add"
    REPLACE = "--replace"
    RACKS = "--racks"
    REPLICAS = "--rf"
    BROKERS = "--brokers"
    IGNORE_RACKS = "--ignore-racks"
    DISKS = "--disks"
    BALANCE = "--balance"
    EXCLUDE = "--exclude"
    KEEP = "--keep"
    MAX_BYTES = "--max-bytes"
    MAX_MOVES = "--max-moves"
    MAX_PER_BROKER = "--max-per-broker"
    MAX_REPLICAS = "--max-replicas"
    TIME_BUDGET = "--time-budget"


Names = Mapping[Field, str]
"""What fields are called where somebody reads of them."""

FLAGS: Names = {field: field.value for field in Field}
