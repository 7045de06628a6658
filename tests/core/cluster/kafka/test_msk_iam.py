"""AWS_MSK_IAM: a signed address in a token, of what AWS's own tools find."""

from __future__ import annotations

import base64
import importlib.util
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from core.cluster.kafka.connection.login import oauth
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.errors import DocumentError, LoginRefusedError, UnreachableError

MSK = "b-1.demo.abc123.c2.kafka.eu-north-1.amazonaws.com:9098"
FILE = """
security.protocol=SASL_SSL
sasl.mechanism=AWS_MSK_IAM
sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required {options};
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler
"""


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    oauth.tokens_of.cache_clear()
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-s3cret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))


def load(tmp_path: Path, options: str = "", bootstrap: str = MSK) -> ConnectionSettings:
    path = tmp_path / "client.properties"
    path.write_text(FILE.format(options=options))
    return ConnectionSettings.load(bootstrap, path)


def signed_address(settings: ConnectionSettings) -> tuple[str, dict[str, str]]:
    """Return the host and the query of the address that a token is."""
    value = settings.librdkafka_config()["oauth_cb"]("")[0]
    address = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).decode()
    parts = urlsplit(address)
    return parts.netloc, {name: values[0] for name, values in parse_qs(parts.query).items()}


def test_msk_iam_token_is_a_signed_url(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings.ignored == ()
    host, query = signed_address(settings)
    assert host == "kafka.eu-north-1.amazonaws.com"
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Expires"] == "900"
    assert query["X-Amz-SignedHeaders"] == "host"
    assert query["User-Agent"] == "trimtab"
    assert len(query["X-Amz-Signature"]) == 64
    key, _, scope = query["X-Amz-Credential"].partition("/")
    assert (key, scope.split("/", 1)[1]) == (
        "AKIDEXAMPLE",
        "eu-north-1/kafka-cluster/aws4_request",
    )
    _, expires_at, principal, _ = settings.librdkafka_config()["oauth_cb"]("")
    assert principal == "AKIDEXAMPLE"
    assert expires_at == pytest.approx(time.time() + 900, abs=60)
    assert settings.kafka_python_config()["sasl_mechanism"] == "OAUTHBEARER"
    assert "aws-s3cret" not in repr(settings)


@pytest.mark.parametrize(
    ("bootstrap", "options", "region"),
    [
        (MSK, "", "eu-north-1"),
        ("boot-x.c1.kafka-serverless.us-east-1.amazonaws.com:9098", "", "us-east-1"),
        ("tunnel:9098", 'awsRegion="ap-south-1"', "ap-south-1"),
    ],
)
def test_region_comes_from_the_broker_host_or_the_aws_region_option(
    tmp_path: Path, bootstrap: str, options: str, region: str
) -> None:
    assert signed_address(load(tmp_path, options, bootstrap))[0] == f"kafka.{region}.amazonaws.com"


def test_region_falls_back_to_the_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "sa-east-1")
    assert (
        signed_address(load(tmp_path, bootstrap="tunnel:9098"))[0]
        == "kafka.sa-east-1.amazonaws.com"
    )


def test_named_aws_profile_supplies_its_own_credentials(tmp_path: Path) -> None:
    (tmp_path / "AWS_SHARED_CREDENTIALS_FILE").write_text(
        "[prod]\naws_access_key_id = AKIDPROD\naws_secret_access_key = x\n"
    )
    _, query = signed_address(load(tmp_path, 'awsProfileName="prod"'))
    assert query["X-Amz-Credential"].startswith("AKIDPROD/")


def test_missing_region_profile_credentials_or_botocore_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DocumentError, match="region"):
        load(tmp_path, bootstrap="tunnel:9098")
    with pytest.raises(UnreachableError, match="profile"):
        load(tmp_path, 'awsProfileName="none"').check_login()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    oauth.tokens_of.cache_clear()
    with pytest.raises(LoginRefusedError, match="no AWS credentials"):
        load(tmp_path).check_login()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DocumentError, match="wants botocore") as caught:
        load(tmp_path)
    assert "its extra `aws`" in caught.value.next
