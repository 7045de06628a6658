"""The command that makes the pictures: it draws when it is asked to, and only then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from shots import drawing


@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), (["--chekc", "there"], 2)])
def test_who_asks_for_help_or_errs_gets_no_pictures(
    words: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def drawn(shots: Sequence[drawing.Shot]) -> Iterator[str]:
        raise AssertionError(f"{len(shots)} were drawn")

    monkeypatch.setattr(drawing, "draw", drawn)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        drawing.main(words)
    assert left.value.code == code
    said = capsys.readouterr()
    assert "--check" in said.out + said.err
    assert list(tmp_path.iterdir()) == []


def test_pictures_that_are_not_there_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def drawn(shots: Sequence[drawing.Shot]) -> Iterator[str]:
        return (f"<svg>{shot.name}</svg>" for shot in shots)

    monkeypatch.setattr(drawing, "draw", drawn)
    for name in ("NO_COLOR", "TEXTUAL_ANIMATIONS"):  # put back afterwards: drawing changes them
        monkeypatch.setenv(name, "none")
    folder = tmp_path / "pictures"
    assert drawing.main([str(folder), "--check"]) == 1
    assert "help-120x40.svg" in capsys.readouterr().err
    assert not folder.exists()
    assert drawing.main([str(folder)]) == 0
    assert drawing.main([str(folder), "--check"]) == 0
