"""`trimtab service`: units that systemd takes, written and removed as often as one likes."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_process import Trimtab

from core import paths
from core.autopilot import switch as switches
from core.autopilot.settings import AutopilotSettings, Mode
from core.autopilot.switch import Switch
from core.cluster.connect import Address
from core.daemons.systemd import Unit, units_dir
from core.errors import ExitCode

CONFIG = """
[clusters.prod]
bootstrap = "b1:9093"
command_config = "prod.properties"
"""
LOGIN = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={} required {};\n"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SYSTEMCTL = """#!/bin/sh
# As systemctl: it keeps what is enabled, and says what it was called for.
shift 2
echo "$*" >> "$FAKE/calls"
case "$1" in
  show)
    [ -e "$FAKE/down" ] && { echo "Failed to connect to bus: No medium found" >&2; exit 1; }
    shift
    case "$1" in --property=Version) echo 252; exit 0;; esac
    shift 2>/dev/null; shift 2>/dev/null
    for unit in "$@"; do
      [ "$unit" = -- ] && continue
      state='UnitFileState=disabled\\nActiveState=inactive'
      [ -e "$FAKE/$unit" ] && state='UnitFileState=enabled\\nActiveState=active'
      printf "Id=%s\\n$state\\n\\n" "$unit"
    done;;
  enable) touch "$FAKE/$2";;
  disable) rm -f "$FAKE/$3";;
esac
"""


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trimtab: Trimtab) -> Path:
    """Put a systemctl on the PATH; return the folder in which it keeps what it was told."""
    folder = tmp_path / "systemd"
    folder.mkdir()
    (folder / "systemctl").write_text(SYSTEMCTL)
    (folder / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    paths.config_dir().mkdir(parents=True)
    paths.config_file().write_text(CONFIG)
    login = 'username="ops" password="zupf-secret"'
    (paths.config_dir() / "prod.properties").write_text(LOGIN.format(PLAIN, login))
    return folder


def calls(folder: Path) -> list[str]:
    return [
        line.split()[0]
        for line in (folder / "calls").read_text().splitlines()
        if "show" not in line
    ]


def test_a_service_is_installed_once_and_removed_once(trimtab: Trimtab, systemctl: Path) -> None:
    code, _, err = trimtab("--cluster", "prod", "service", "install", "collector")
    assert (code, "is installed, and runs" in err) == (ExitCode.DONE, True)
    assert calls(systemctl) == ["daemon-reload", "enable", "restart"]
    _, _, err = trimtab("--cluster", "prod", "service", "install", "collector")
    assert "nothing was changed" in err
    assert calls(systemctl) == ["daemon-reload", "enable", "restart"]
    _, out, _ = trimtab("service", "ls", "--json")
    (service,) = json.loads(out)
    assert service == {
        "name": "trimtab-collector-prod",
        "role": "collector",
        "cluster": "prod",
        "enabled": "enabled",
        "active": "active",
        "path": str(units_dir() / "trimtab-collector-prod.service"),
    }
    for message in ("stopped and removed", "not installed"):
        code, _, err = trimtab("service", "uninstall", "trimtab-collector-prod")
        assert (code, message in err) == (ExitCode.DONE, True)
    assert calls(systemctl)[-2:] == ["disable", "daemon-reload"]
    assert list(units_dir().iterdir()) == []
    assert trimtab("service", "ls", "--json")[1] == "[]\n"


def test_changed_unit_is_rewritten_and_restarted(trimtab: Trimtab, systemctl: Path) -> None:
    words = ("--cluster", "prod", "service", "install", "recorder")
    trimtab(*words)
    unit = units_dir() / "trimtab-recorder-prod.service"
    whole = unit.read_text()
    unit.write_text("[Service]\n")
    assert "is installed" in trimtab(*words)[2]
    assert unit.read_text() == whole
    assert calls(systemctl).count("restart") == 2


@pytest.mark.parametrize(
    ("role", "command"),
    [("collector", "collect"), ("recorder", "timeline --record"), ("autopilot", "autopilot run")],
)
@pytest.mark.usefixtures("systemctl")
def test_printed_unit_starts_the_same_cluster_and_contains_no_secret(
    trimtab: Trimtab, role: str, command: str
) -> None:
    code, out, _ = trimtab("--cluster", "prod", "service", "install", role, "--print")
    assert code == ExitCode.DONE
    assert f" --cluster prod {command}\n" in out
    assert f"Environment=TRIMTAB_HOME={paths.config_dir().parent}\n" in out
    assert "zupf" not in out
    assert not units_dir().exists()


@pytest.mark.usefixtures("systemctl")
def test_service_of_a_cluster_given_by_address_keeps_its_options(
    trimtab: Trimtab, tmp_path: Path
) -> None:
    words = ("-b", "b9:9092", "--command-config", "c.properties", "--snapshots", tmp_path)
    Path("c.properties").write_text("")
    try:
        _, out, err = trimtab(
            *words, "--timeout", "20s", "service", "install", "collector", "--print"
        )
    finally:
        Path("c.properties").unlink()
    config = Path("c.properties").absolute()
    assert f" -b b9:9092 --command-config {config} --snapshots {tmp_path} " in out, err
    assert " --timeout 20s collect\n" in out


@pytest.mark.usefixtures("systemctl")
@pytest.mark.parametrize("down", [True, False])
def test_install_without_systemd_fails_with_a_message_and_writes_nothing(
    trimtab: Trimtab, systemctl: Path, down: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if down:
        (systemctl / "down").touch()
    else:
        monkeypatch.setenv("PATH", str(systemctl / "nowhere"))
    code, _, err = trimtab("--cluster", "prod", "service", "install", "collector")
    assert code == ExitCode.FAILED
    assert ("No medium found" if down else "This machine has no systemd.") in err
    assert "--print" in err
    assert not units_dir().exists()
    assert trimtab("service", "ls")[0] == ExitCode.DONE


@pytest.mark.usefixtures("systemctl")
def test_password_that_would_be_prompted_for_is_refused(trimtab: Trimtab) -> None:
    properties = paths.config_dir() / "prod.properties"
    properties.write_text(LOGIN.format(PLAIN, 'username="ops"'))
    code, _, err = trimtab("--cluster", "prod", "service", "install", "collector")
    assert (code, "cannot ask for the password of" in err) == (ExitCode.USAGE, True)


@pytest.mark.usefixtures("systemctl")
@pytest.mark.parametrize("words", [("service", "install", "collector"), ("-b", "sim:x")])
def test_service_without_a_real_cluster_is_refused(
    trimtab: Trimtab, words: tuple[str, ...]
) -> None:
    line = words if "service" in words else (*words, "service", "install", "collector")
    assert trimtab(*line)[0] == ExitCode.USAGE


@pytest.mark.usefixtures("systemctl")
@pytest.mark.parametrize("words", [("service", "install", "autopilot"), ("autopilot", "run")])
def test_unconfigured_autopilot_is_neither_installed_nor_run(
    trimtab: Trimtab, words: tuple[str, ...]
) -> None:
    code, _, err = trimtab("--cluster", "prod", *words)
    assert (code, "has not been set yet" in err) == (ExitCode.USAGE, True)


@pytest.mark.usefixtures("systemctl")
def test_an_autopilot_that_is_off_stays_off(trimtab: Trimtab) -> None:
    """A service that starts at boot must not turn on what somebody has turned off."""
    settings = AutopilotSettings(mode=Mode.OFF)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    switches.write(Switch("id-1", "prod", Address("b1:9093"), settings, at, "me"))
    code, _, err = trimtab("--cluster", "prod", "autopilot", "run")
    assert (code, "is off" in err) == (ExitCode.DONE, True)
    switch = switches.read("id-1")
    assert switch is not None
    assert switch.mode is Mode.OFF


WORDS = st.text(
    st.characters(min_codepoint=32, exclude_categories=("Cs", "Cc", "Co", "Cn", "Zl", "Zp")),
    min_size=1,
    max_size=12,
)


def verify(folder: Path, units: list[Unit]) -> None:
    """Have systemd read units, if it is here."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        return
    for unit in units:
        (folder / unit.name).write_text(unit.text, encoding="utf-8")
    files = [str(folder / unit.name) for unit in units]
    done = subprocess.run(
        [tool, "verify", "--user", "--man=no", *files],
        env={"XDG_RUNTIME_DIR": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_accepts_every_generated_unit(tmp_path: Path) -> None:
    words = ('a "b"', "50% of $HOME", "back\\slash", "ä;#", "'", "-b")
    environment = {"TRIMTAB_HOME": '/a b/$x%y/"q"'}
    verify(
        tmp_path,
        [
            Unit("collector", "prod", ("/bin/true", "--cluster", "prod", "collect"), {}),
            Unit("recorder", "prod/eu 1", ("/bin/true", *words), environment),
        ],
    )


@given(st.lists(WORDS, min_size=2, max_size=6, unique=True))
def test_unit_names_of_different_clusters_are_different(names: list[str]) -> None:
    units = {Unit("collector", name, ("x",), {}).name for name in names}
    assert len(units) == len(names)
    assert not any("/" in unit for unit in units)
