"""`trimtab bug-report`: it has what a bug's report needs, and none of the planted secrets."""

from __future__ import annotations

import base64
import json
import stat
import tarfile
from pathlib import Path
from typing import NoReturn

import pytest
from in_process import Trimtab

from core import paths
from core.errors import ExitCode

PEM = "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----"
BODY = "\n".join(
    base64.b64encode(bytes((i * 37 + j * 11) % 256 for j in range(48))).decode() for i in range(6)
)
SECRETS = {
    "jaas": 'jaas-"hunter\\2"',
    "keystore": "keystore-pass-Ä",
    "key": "key-pass/with+signs=",
    "oauth": "oauth-client-secret",
    "librdkafka": "rdkafka-pass",
    "provider": "from-the-file-of-a-provider",
    "environment": "from-the-environment",
    "token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJvcHMifQ.s5Zk7rQ2",
    "s3 key": "AKIAIOSFODNN7EXAMPLE",
    "s3 secret": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "webhook": "T00/B00/webhook-part",
    "command": "argument-of-notify",
    "misplaced": "password-that-goes-on",
    "pem": BODY.splitlines()[2],
}

IN_JAAS = SECRETS["jaas"].replace("\\", "\\" * 4).replace('"', '\\\\"')
IN_ADDRESS = SECRETS["s3 secret"].replace("/", "%2F")
PROPERTIES = f"""
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="ops" password="{IN_JAAS}";
ssl.keystore.password={SECRETS["keystore"]}
ssl.key.password={SECRETS["key"]}
ssl.keystore.key={PEM.format(BODY).replace(chr(10), chr(92) + "n")}
ssl.truststore.password=${{file:more.properties:trust}}
ssl.truststore.location=/etc/kafka/trusted.p12
sasl.oauthbearer.client.credentials.client.secret={SECRETS["oauth"]}
config.providers=file
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
{SECRETS["misplaced"]}
client.id=trimtab-prod
"""
LIBRDKAFKA = f"sasl.mechanisms=PLAIN\nsasl.username=ops\nsasl.password={SECRETS['librdkafka']}\n"
CONFIG = f"""
theme = "dark"
[clusters.prod]
bootstrap = "b1:9093"
command_config = "prod.properties"
snapshots = "s3://{SECRETS["s3 key"]}:{IN_ADDRESS}@bucket/load?secret_key={IN_ADDRESS}"
color = "red"
[clusters.other]
bootstrap = "b2:9093"
command_config = "rd.properties"
pasword = "{SECRETS["librdkafka"]}"
[notify]
webhook = "https://hooks.example.com/{SECRETS["webhook"]}"
command = ["notify-me", "--to", "{SECRETS["command"]}"]
"""


@pytest.fixture
def planted(trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant secrets wherever a user may have them, and quote all of them in a log."""
    folder = paths.config_dir()
    folder.mkdir(parents=True)
    (folder / "prod.properties").write_text(PROPERTIES, encoding="latin-1")
    (folder / "more.properties").write_text(f"trust={SECRETS['provider']}\n")
    (folder / "rd.properties").write_text(LIBRDKAFKA)
    paths.config_file().write_text(CONFIG)
    monkeypatch.setenv("KEYSTORE_PASSWORD", SECRETS["environment"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRETS["s3 secret"])
    monkeypatch.setenv("TRIMTAB_SNAPSHOTS", "")
    paths.log_dir().mkdir(parents=True)
    quoted = "\n".join(
        f"2026-01-01 trimtab.run ERROR refused: {value}\n{json.dumps({'said': value})}"
        for value in SECRETS.values()
    )
    (paths.log_dir() / "run-abc-1.log").write_text(f"{quoted}\nthe run ended\n")
    # A long log that begins within a key.
    (paths.log_dir() / "collector-abc.log").write_text(f"{BODY}\nstarted with --token tok-12345\n")


def contents(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        return {
            member.name.partition("/")[2]: archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in archive.getmembers()
        }


@pytest.mark.usefixtures("planted")
def test_bug_report_contains_no_secret_in_any_quoting(trimtab: Trimtab, tmp_path: Path) -> None:
    path = tmp_path / "report.tar.gz"
    code, out, err = trimtab("bug-report", "-o", path)
    assert code == ExitCode.DONE, err
    files = contents(path)
    everything = "\n".join((*files, *files.values(), out, err))
    for kind, secret in SECRETS.items():
        for form in (secret, json.dumps(secret)[1:-1], secret.replace("/", "%2F")):
            assert form not in everything, kind
    assert "tok-12345" not in everything
    for line in BODY.splitlines():
        assert line not in everything
    assert "the run ended" in files["log/run-abc-1.log"], "the rest of a log is there"


@pytest.mark.usefixtures("planted")
def test_bug_report_keeps_harmless_content(trimtab: Trimtab, tmp_path: Path) -> None:
    path = tmp_path / "report.tar.gz"
    code, out, _ = trimtab("bug-report", "-o", path, "--json")
    files, answer = contents(path), json.loads(out)
    assert (code, answer["path"]) == (ExitCode.DONE, str(path))
    assert {file["name"] for file in answer["files"]} == set(files)
    assert "pyarrow " in files["versions.txt"]
    assert {finding["name"] for finding in json.loads(files["doctor.json"])["findings"]} > {
        "python"
    }
    config = json.loads(files["config.json"])
    assert "clusters.other.pasword" in config["wrong"]
    assert config["clusters"]["prod"] == {
        "bootstrap": "b1:9093",
        "command_config": "prod.properties",
        "color": "red",
        "snapshots": "s3://bucket/load",
    }
    assert config["clusters"]["other"]["other_keys"] == 1
    lines = files["client-prod.properties"].splitlines()
    kept = ("client.id=trimtab-prod", "ssl.truststore.location=/etc/kafka/trusted.p12")
    assert {*kept, "security.protocol=SASL_SSL", "ssl.key.password=(redacted)"} <= set(lines)
    assert "# lines with other keys: 2" in lines
    assert files["runs.json"] == "[]\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_bug_report_is_written_to_the_current_folder_and_lists_its_files(
    trimtab: Trimtab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    code, out, _ = trimtab("bug-report")
    (path,) = folder.iterdir()
    assert code == ExitCode.DONE
    assert f"Written to {path}\n" in out
    assert all(f"{name} " in out for name in contents(path))


def test_failing_part_of_a_bug_report_suppresses_no_other_part(
    trimtab: Trimtab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> NoReturn:
        raise KeyError("surprise")

    monkeypatch.setattr("core.cli.cluster.doctor.examine", broken)
    code, _, _ = trimtab("bug-report", "-o", tmp_path / "report.tar.gz")
    files = contents(tmp_path / "report.tar.gz")
    assert code == ExitCode.DONE
    assert "this is a bug in trimtab" in files["doctor.json"]
    assert "in broken" in files["log/bugs.log"], "logs come last"


def test_missing_client_properties_are_reported_in_the_bug_report(
    trimtab: Trimtab, tmp_path: Path
) -> None:
    path = tmp_path / "report.tar.gz"
    missing = tmp_path / "missing.properties"
    code, _, _ = trimtab("-b", "b:1", "--command-config", missing, "bug-report", "-o", path)
    assert code == ExitCode.DONE
    files = contents(path)
    assert f"{missing} cannot be read" in files["client-command-config.properties"]
    assert "cannot be read" in files["doctor.json"]


def test_unwritable_output_path_is_refused_with_a_message(trimtab: Trimtab, tmp_path: Path) -> None:
    code, _, err = trimtab("bug-report", "-o", tmp_path / "nowhere" / "report.tar.gz")
    assert (code, "Cannot write" in err) == (ExitCode.USAGE, True)
    assert not (tmp_path / "nowhere").exists()
