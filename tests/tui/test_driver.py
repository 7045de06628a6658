"""What is written to a terminal that takes nothing, or is gone, and what is read at its end."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from terminal import PATIENCE_SECONDS

from tui.driver import BEHIND_CHARACTERS, Decoder, Writer

PICTURE = "x" * (BEHIND_CHARACTERS // 4)


class End:
    """A terminal's end that reads only when asked, and a writer on it."""

    def __init__(self) -> None:
        self.reading, writing = os.pipe()
        self.file = os.fdopen(writing, "w", encoding="utf-8")
        self.lost, self.caught_up = threading.Event(), threading.Event()
        self.writer = Writer(self.file, self.lost.set, self.caught_up.set)
        self.writer.start()

    def read(self, size: int) -> str:
        output = b""
        while len(output) < size:
            output += os.read(self.reading, size - len(output))
        return output.decode()


@pytest.fixture
def end() -> Iterator[End]:
    made = End()
    yield made
    made.writer.stop()
    made.file.close()


def test_writes_to_a_stalled_terminal_do_not_block_and_its_catching_up_is_signalled(
    end: End,
) -> None:
    written = 0
    while not end.writer.skip_frame():  # never waits, however little is read
        end.writer.write(PICTURE)
        written += len(PICTURE)
    assert not end.writer.done
    assert not end.caught_up.is_set()
    assert end.read(written) == "x" * written
    assert end.caught_up.wait(PATIENCE_SECONDS)
    assert not end.writer.skip_frame()


def test_terminal_that_keeps_up_skips_no_frame_and_needs_no_redraw(end: End) -> None:
    for _ in range(20):
        assert not end.writer.skip_frame()
        end.writer.write("é" + PICTURE)
        end.read(2 + len(PICTURE))
    end.writer.stop()
    assert not end.caught_up.is_set()


def test_lost_terminal_is_reported_and_writes_to_it_do_not_block(end: End) -> None:
    os.close(end.reading)
    end.writer.write("x")
    assert end.lost.wait(PATIENCE_SECONDS)
    for _ in range(1000):
        end.writer.write(PICTURE)
    assert end.writer.done
    assert not end.writer.skip_frame()


def test_stopping_the_writer_does_not_wait_for_a_terminal_that_reads_nothing(end: End) -> None:
    end.writer.write(10 * PICTURE)
    end.writer.stop()
    assert not end.writer.done


def test_input_need_not_be_utf_8_and_its_end_raises_eof_error() -> None:
    decoder = Decoder()
    assert decoder.decode("é".encode()[:1]) + decoder.decode("é".encode()[1:]) == "é"
    assert decoder.decode(b"\xff") == "\ufffd"
    with pytest.raises(EOFError):
        decoder.decode(b"")
