"""config.toml: what it may say, and what is said of a bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.cli.common.context import Target
from core.cli.main import run as command_line
from core.cluster.connect import Address
from core.errors import ExitCode, UsageError
from core.settings import Settings, load_settings


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    for name in (
        "TRIMTAB_BOOTSTRAP",
        "TRIMTAB_CLUSTER",
        "TRIMTAB_COMMAND_CONFIG",
        "TRIMTAB_SNAPSHOTS",
        "TRIMTAB_TIMEOUT",
    ):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "config").mkdir()
    return tmp_path


def write(home: Path, text: str) -> None:
    (home / "config" / "config.toml").write_text(text)


def choose(**given: object) -> Target:
    nothing = dict.fromkeys(
        ("bootstrap", "cluster_name", "command_config", "from_file", "snapshots")
    )
    return Target.choose(**(nothing | given))  # type: ignore[arg-type]


def test_no_file_gives_the_defaults(home: Path) -> None:
    assert load_settings() == Settings()


def test_a_named_cluster_is_found(home: Path) -> None:
    write(
        home,
        """
        theme = "light"
        [clusters.prod-eu]
        bootstrap = "kafka-1:9092"
        command_config = "prod.properties"
        read_only = true
        color = "red"
        in_capacity = "125MB/s"
        addresses = { "B1.internal:9092" = "localhost:19092", "[::1]:9092" = "[::2]:1" }
        proxy = "socks5://u:secret@[::1]:1080"
        metrics = "prod.prom"
        """,
    )
    cluster = load_settings().cluster("prod-eu")
    assert cluster.bootstrap == "kafka-1:9092"
    assert cluster.command_config == home / "config" / "prod.properties"
    assert cluster.read_only
    assert cluster.color == "red"
    assert cluster.metrics == str(home / "config" / "prod.prom")
    assert cluster.in_capacity_bytes_per_s == 125_000_000
    assert cluster.addresses == {"b1.internal:9092": "localhost:19092", "[::1]:9092": "[::2]:1"}
    assert cluster.proxy == "socks5://u:secret@[::1]:1080"
    assert "secret" not in repr(cluster)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[clusters", "is not TOML"),
        (
            '[clusters.x]\nbootstrap = "a:1"\n[clusters.x]\nbootstrap = "b:1"',
            "names two clusters 'x', again in line 3",
        ),
        ("clusters = 3", "clusters must be a table"),
        ("[clusters]\nx = 3", "clusters.x must be a table"),
        ("[clusters.x]\nread_only = true", "clusters.x.bootstrap is missing"),
        ("[clusters.x]\nbootstrap = 1", "clusters.x.bootstrap must be a text"),
        ('[clusters.x]\nbootstrap = "a:1"\nread_only = "no"', "read_only must be true or false"),
        ('[clusters.x]\nbootstrap = "a:1"\nin_capacity = 5', "in_capacity must be a text"),
        ('[clusters.x]\nbootstrap = "a:1"\nin_capacity = "5"', "must be a rate"),
        ('[clusters.x]\nbootstrap = "a:1"\nin_capacity = "unlimited"', "must be a rate"),
        ('[clusters.x]\nbootstrap = "a:1"\nout_capacity = "-1"', "must be a rate"),
        ('[clusters.x]\nbootstrap = "a:1"\nsnapshots = 7', "snapshots must be a text"),
        ('[clusters.x]\nbootstrap = "a:1"\ncommand_config = 7', "command_config must be a text"),
        ('[clusters.x]\nbootstrap = "a:1"\ncolor = "pink"', "color is none of red, orange"),
        ('[clusters.x]\nbootstrap = "a:1"\naddresses = ["a:1"]', "addresses must be a table"),
        ('[clusters.x]\nbootstrap = "a:1"\naddresses.b = "c:1"', "addresses must be like"),
        ('[clusters.x]\nbootstrap = "a:1"\naddresses."b:1" = 1', "addresses must be like"),
        ('[clusters.x]\nbootstrap = "a:1"\nproxy = "http://a:1"', "proxy must be a URL"),
        ('[clusters.x]\nbootstrap = "a:1"\nproxy = "socks5://a"', "proxy must be a URL"),
        ('[clusters.x]\nbootstrap = "a:1"\nmetrics = ":x"', "metrics must be like"),
        ("theme = 7", "theme must be a text"),
        ("keys = 7", "keys must be a table"),
        ("theme = " + "[" * 5000, "is nested too deeply"),
        (
            '[clusters.x]\nbootstrap = "a:1"\ncommand_config = "a\\u0000"',
            "command_config has a NUL",
        ),
        ('[notify]\ncommand = ["a", "\\u0000"]', "notify.command has a NUL"),
        ("[keys]\nquit = 7", "keys.quit must be a text"),
    ],
)
def test_invalid_settings_file_is_refused_with_one_clear_message(
    home: Path, text: str, message: str
) -> None:
    write(home, text)
    with pytest.raises(UsageError) as refused:
        load_settings()
    assert message in refused.value.title
    assert refused.value.next


@pytest.mark.parametrize(
    ("text", "message", "next"),
    [
        ("readonly = true", "no clusters.x.readonly", "Did you mean read_only?"),
        ('in_capasity = "5MB/s"', "in_capasity", "Did you mean in_capacity"),
        ("hue = 1", "no clusters.x.hue", "There are bootstrap, command_config, read_only"),
        ('colour = "red"', "no clusters.x.colour", "Did you mean color?"),
        ('[cluster.y]\nbootstrap = "b:1"', "there is no cluster", "Did you mean clusters?"),
        ("[notify]\nbel = false", "no notify.bel", "Did you mean bell?"),
    ],
)
def test_unknown_setting_is_refused_with_a_suggestion(
    home: Path, text: str, message: str, next: str
) -> None:
    write(home, f'[clusters.x]\nbootstrap = "a:1"\n{text}')
    with pytest.raises(UsageError) as refused:
        load_settings()
    assert message in refused.value.title
    assert next in refused.value.next


def test_settings_file_that_is_not_text_or_is_a_folder_is_refused(home: Path) -> None:
    path = home / "config" / "config.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not text"):
        load_settings()
    path.unlink()
    path.mkdir()
    with pytest.raises(UsageError, match="Is a directory"):
        load_settings()


def test_unknown_cluster_name_is_refused_with_the_known_names(home: Path) -> None:
    write(home, '[clusters.prod]\nbootstrap = "a:1"\n[clusters.dev]\nbootstrap = "b:1"')
    with pytest.raises(UsageError, match="prdo") as refused:
        choose(cluster_name="prdo")
    assert "dev, prod" in refused.value.next


def test_flags_override_environment_and_environment_overrides_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, '[clusters.prod]\nbootstrap = "file:1"\nsnapshots = "file"')
    monkeypatch.setenv("TRIMTAB_CLUSTER", "prod")
    assert choose().address.bootstrap == "file:1"  # type: ignore[union-attr]
    monkeypatch.delenv("TRIMTAB_CLUSTER")
    monkeypatch.setenv("TRIMTAB_BOOTSTRAP", "environment:1")
    assert choose().address.bootstrap == "environment:1"  # type: ignore[union-attr]
    assert choose(bootstrap="flag:1").address.bootstrap == "flag:1"  # type: ignore[union-attr]


def test_flag_ignores_environment_settings_of_another_cluster(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, '[clusters.dev]\nbootstrap = "dev:1"')
    monkeypatch.setenv("TRIMTAB_BOOTSTRAP", "prod:1")
    monkeypatch.setenv("TRIMTAB_CLUSTER", "prod")
    monkeypatch.setenv("TRIMTAB_COMMAND_CONFIG", "prod.properties")
    assert choose(cluster_name="dev").address.bootstrap == "dev:1"  # type: ignore[union-attr]
    assert choose(bootstrap="dev:1").address.command_config is None  # type: ignore[union-attr]
    assert choose(bootstrap="dev:1").name == "dev"


@pytest.mark.parametrize(
    "named",
    [
        {"cluster_name": "prod"},
        {"bootstrap": "prod:1"},
        {"bootstrap": "prod:1,other:1", "cluster_name": "prod"},
    ],
)
def test_read_only_holds_however_the_cluster_is_named(home: Path, named: dict[str, str]) -> None:
    write(home, '[clusters.prod]\nbootstrap = "prod:1"\nread_only = true')
    assert choose(**named).read_only
    assert not choose(bootstrap="dev:1").read_only


def test_cluster_name_with_the_address_of_another_cluster_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, '[clusters.prod]\nbootstrap = "prod:1,prod:2"')
    with pytest.raises(UsageError) as refused:
        choose(bootstrap="dev:1", cluster_name="prod")
    assert all(word in refused.value.title for word in ("prod:1,prod:2", "dev:1"))
    assert choose(bootstrap="PROD:2,dev:1", cluster_name="prod").name == "prod"
    assert choose(bootstrap="dev:1", cluster_name="unheard-of").name == "unheard-of"
    monkeypatch.setenv("TRIMTAB_CLUSTER", "prod")
    assert choose(bootstrap="dev:1").name is None  # flags over environment
    monkeypatch.setenv("TRIMTAB_BOOTSTRAP", "dev:1")
    with pytest.raises(UsageError, match="Two clusters"):
        choose()
    with pytest.raises(UsageError, match=r"unheard-of .* prod:1 \(prod\)"):
        choose(bootstrap="prod:1", cluster_name="unheard-of")


@pytest.mark.parametrize(
    ("bootstrap", "name"),
    [("a:1", "prod"), ("b:1,c:1", "prod"), ("shared:1", None), ("other:1", None)],
)
def test_address_of_exactly_one_named_cluster_gets_its_name(
    home: Path, bootstrap: str, name: str | None
) -> None:
    write(
        home,
        """
        [clusters.prod]
        bootstrap = "a:1,b:1,shared:1"
        [clusters.also-prod]
        bootstrap = "shared:1"
        """,
    )
    target = choose(bootstrap=bootstrap)
    assert target.address is not None
    assert (target.name, target.address.name) == (name, name)


def test_cluster_name_missing_from_the_file_is_not_given_to_the_address(home: Path) -> None:
    address = choose(bootstrap="dev:1", cluster_name="unheard-of").address
    assert address is not None
    assert address.name is None


def test_timeout_flag_overrides_environment_and_environment_overrides_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds(**named: str) -> float | None:
        address = choose(bootstrap="prod:1", **named).address
        assert address is not None
        return address.timeout_seconds

    assert seconds() is None
    write(home, '[clusters.prod]\nbootstrap = "prod:1"\ntimeout = "20s"')
    assert seconds() == 20
    monkeypatch.setenv("TRIMTAB_TIMEOUT", "1m")
    assert seconds() == 60
    assert seconds(timeout="5") == 5


@pytest.mark.parametrize("text", ["soon", "0", "100ms"])
def test_invalid_or_too_short_timeout_is_refused(home: Path, text: str) -> None:
    with pytest.raises(UsageError):
        choose(bootstrap="prod:1", timeout=text)
    write(home, f'[clusters.prod]\nbootstrap = "prod:1"\ntimeout = "{text}"')
    with pytest.raises(UsageError, match="timeout"):
        load_settings()


@pytest.mark.parametrize("bootstrap", ["b:1", "b:1,a:1", "A:1", " a:1 , c:1"])
def test_cluster_settings_apply_to_the_address_of_any_of_its_brokers(
    home: Path, bootstrap: str
) -> None:
    write(
        home,
        """
        [clusters.prod]
        bootstrap = "a:1,b:1"
        command_config = "prod.properties"
        read_only = true
        snapshots = "shared"
        in_capacity = "125MB/s"
        """,
    )
    target = choose(bootstrap=bootstrap)
    assert target.read_only
    assert target.snapshots == "shared"
    assert target.address is not None
    assert target.address.bootstrap == bootstrap
    assert target.address.command_config == home / "config" / "prod.properties"
    assert target.address.capacity.in_bytes_per_s == 125_000_000
    other = choose(bootstrap="a:2")
    assert (other.read_only, other.snapshots) == (False, None)
    assert other.address == Address("a:2")


def test_flags_override_the_settings_of_a_cluster_known_by_its_address(home: Path) -> None:
    write(
        home,
        """
        [clusters.prod]
        bootstrap = "a:1"
        command_config = "prod.properties"
        snapshots = "shared"
        """,
    )
    target = choose(bootstrap="a:1", command_config=Path("mine.properties"), snapshots="mine")
    assert target.snapshots == "mine"
    assert target.address == Address("a:1", Path("mine.properties"), name="prod")


def test_a_second_name_of_a_read_only_cluster_is_read_only_too(home: Path) -> None:
    write(
        home,
        """
        [clusters.prod]
        bootstrap = "a:1,b:1"
        read_only = true
        [clusters.also-prod]
        bootstrap = "b:1"
        """,
    )
    assert choose(cluster_name="also-prod").read_only


@pytest.mark.parametrize(
    "other_option", ["bootstrap", "cluster_name", "command_config", "snapshots"]
)
def test_offline_and_live_options_exclude_each_other(home: Path, other_option: str) -> None:
    option = other_option.removesuffix("_name").replace("_", "-")
    with pytest.raises(UsageError, match=f"--from and --{option} exclude each other"):
        choose(from_file=home / "cluster.json", **{other_option: "a:1"})


def test_empty_environment_variable_counts_as_not_set(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "TRIMTAB_BOOTSTRAP",
        "TRIMTAB_CLUSTER",
        "TRIMTAB_COMMAND_CONFIG",
        "TRIMTAB_SNAPSHOTS",
    ):
        monkeypatch.setenv(name, "")
    assert choose() == Target()


@pytest.mark.parametrize("words", [["apply", "plan.json"], ["runs", "cancel", "0131-020000"]])
def test_no_flag_overrides_read_only_of_a_cluster(
    home: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(home, '[clusters.prod]\nbootstrap = "localhost:1"\nread_only = true')
    for flags in (["--cluster", "prod"], ["-b", "localhost:1"]):
        assert command_line(lambda context: None, [*flags, *words, "--yes"]) == ExitCode.REFUSED
        assert "marked read_only" in capsys.readouterr().err
