"""A home for each test: neither what this machine's user keeps nor what another test left."""

from __future__ import annotations

from itertools import count

import pytest

_numbers = count(1)


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path_factory.getbasetemp() / f"home-{next(_numbers)}"
    monkeypatch.setenv("TRIMTAB_HOME", str(home))
