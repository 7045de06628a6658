"""Where things are on the map: the gutter, one column of cells a broker, the skew at the right.

Pure: a width and a number of brokers go in, a Columns comes out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

EDGE = 1
CURSOR = 2
SKEW = 6
BARS = 10
LONGEST_BARS = 24
MAX_NAME = 34

# name, partitions, total, cells of a broker (gap included), bars: the best that fits wins.
_TOPICS = (
    (24, 8, 11, 7, BARS),
    (18, 6, 10, 5, BARS),
    (18, 6, 10, 5, 0),
    (18, 6, 8, 4, BARS),
    (18, 6, 8, 4, 0),
    (16, 0, 5, 4, 0),
    (18, 6, 8, 3, BARS),
    (18, 6, 8, 3, 0),
    (16, 0, 5, 3, 0),
    (16, 0, 5, 2, 0),
    (14, 0, 0, 2, 0),
    (16, 0, 5, 1, 0),
    (12, 0, 0, 1, 0),
)
_PARTITIONS = (
    (10, 0, 10, 5, 0),
    (10, 0, 10, 4, 0),
    (8, 0, 8, 4, 0),
    (8, 0, 8, 3, 0),
    (6, 0, 7, 3, 0),
    (6, 0, 7, 2, 0),
    (6, 0, 0, 2, 0),
    (6, 0, 0, 1, 0),
)


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of one width. `first` … `first + shown` are the brokers that can be seen."""

    width: int
    name: int
    partitions: int
    total: int
    pitch: int
    bars: int
    brokers: int
    shown: int
    first: int = 0

    @property
    def name_at(self) -> int:
        return CURSOR

    @property
    def partitions_end(self) -> int:
        return CURSOR + self.name + self.partitions

    @property
    def total_end(self) -> int:
        return self.partitions_end + self.total

    @property
    def number_end(self) -> int:
        """Return where a row's total ends: there is air before the cells if there is room."""
        return self.total_end - 1 if self.partitions else self.total_end

    @property
    def cells_at(self) -> int:
        return self.total_end + EDGE

    @property
    def cells_end(self) -> int:
        return self.cells_at + self.shown * self.pitch

    @property
    def cell(self) -> int:
        """Return the width of a cell without its gap."""
        return self.pitch - 1 if self.pitch >= 5 else self.pitch

    @property
    def skew_end(self) -> int:
        return self.cells_end + SKEW

    @property
    def has_skew(self) -> bool:
        return self.skew_end <= self.width

    @property
    def digits(self) -> int:
        """Return how many characters of a number fit in a cell and stay apart from the next."""
        return self.pitch - 1 if self.pitch >= 3 else 0

    def at(self, broker: int) -> int | None:
        """Return where the cell of a broker (by column number) begins; None when out of sight."""
        place = broker - self.first
        return self.cells_at + place * self.pitch if 0 <= place < self.shown else None

    def broker_at(self, x: int) -> int | None:
        """Return the broker (by column number) at a screen column; None beside the cells."""
        if not self.cells_at <= x < self.cells_end:
            return None
        return self.first + (x - self.cells_at) // self.pitch

    def starting_at(self, first: int) -> Columns:
        """Return the columns with this broker as the first in sight, as far as others follow."""
        return replace(self, first=max(0, min(first, self.brokers - self.shown)))

    def showing(self, broker: int) -> Columns:
        """Return the columns scrolled as little as brings a broker into sight."""
        first = min(self.first, broker)
        return replace(self, first=max(first, broker - self.shown + 1, 0))


def topic_columns(width: int, brokers: int, longest_name: int = 0) -> Columns:
    """Return the columns of topics by brokers."""
    return _columns(_TOPICS, width, brokers, SKEW, longest_name)


def partition_columns(width: int, brokers: int, longest_name: int = 0) -> Columns:
    """Return the columns of a topic's partitions by brokers; the value stands at the right."""
    return _columns(_PARTITIONS, width, brokers, SKEW + 1, longest_name)


def _columns(
    variants: tuple[tuple[int, int, int, int, int], ...],
    width: int,
    brokers: int,
    right: int,
    longest_name: int,
) -> Columns:
    for name, partitions, total, pitch, bars in variants:
        # Two columns a broker are worth more than the skew written beside them.
        margin = 0 if pitch == 2 and not total else right
        needed = CURSOR + name + partitions + total + EDGE + brokers * pitch + margin + bars
        if needed <= width:
            spare = width - needed - 2 * EDGE
            wider = max(0, min(spare, longest_name + 1 - name, MAX_NAME - name))
            more = min(LONGEST_BARS - bars, spare - wider) if bars else 0
            return Columns(
                width, name + wider, partitions, total, pitch, bars + more, brokers, brokers
            )
    # Nothing fits all brokers: scroll sideways, with numbers rather than with dots.
    name, partitions, total, _, _ = variants[-1]
    room = width - CURSOR - name - total - EDGE
    pitch = 3 if room >= 9 else 1
    return Columns(width, name, 0, total, pitch, 0, brokers, max(1, min(brokers, room // pitch)))
