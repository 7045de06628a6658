"""Client properties as Kafka's own classes read them, over generated files, in one JVM."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError
from secured import ODD_USER, SCRAM_LOGIN, SecuredBroker
from waiting import eventually

from core import java
from core.cli.main import run
from core.cluster.kafka.connection.login import oauth, token_sources
from core.cluster.kafka.connection.login.sasl import PASSWORD_MECHANISMS
from core.cluster.kafka.connection.properties import parse_properties
from core.cluster.kafka.connection.property_names import KNOWN
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.librdkafka import create_admin_client
from core.cluster.sandbox import kafka_jars
from core.errors import DocumentError

FILES = 3000
REFUSED = None
ELSEWHERE = ("auto.include", "enable.metrics", "metric", "metadata.recovery", "sasl.oauthbearer.")
"""What names of properties begin with that no login and no connection wants of us."""

Login = tuple[str, str, str]
"""Mechanism, user name and password; of no login, empty."""


class Kafka:
    """Kafka's clients in a JVM; a class is looked up once, as each name on the way is a call."""

    def __init__(self, jvm: Any) -> None:
        common = jvm.org.apache.kafka.common
        self._load_properties = common.utils.Utils.loadProps
        self._parse_type = common.config.ConfigDef.parseType
        self._text = common.config.ConfigDef.Type.STRING
        self._config = jvm.org.apache.kafka.clients.admin.AdminClientConfig
        self._jaas = common.security.JaasContext.loadClientContext
        self._map = jvm.java.util.HashMap
        self._json = jvm.com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString

    def properties(self, path: Path) -> dict[str, str] | None:
        """Return what Utils.loadProps reads, each value as ConfigDef passes it on."""
        try:
            entries: dict[str, str] = json.loads(self._json(self._load_properties(str(path))))
        except Py4JJavaError as error:
            return refused(error, "IllegalArgumentException")
        for name, value in entries.items():
            if not (value[:1] + value[-1:]).isalnum():  # there may be something to trim
                entries[name] = self._parse_type(name, value, self._text)
        return entries

    def login(self, path: Path) -> Login | None:
        """Return how an admin client with these properties would log in."""
        try:
            properties = self._load_properties(str(path))
            properties.setProperty("bootstrap.servers", "b1:9092")
            config = self._config(properties)
            if not config.getString("security.protocol").upper().startswith("SASL"):
                return ("", "", "")
            context = self._jaas({"sasl.jaas.config": config.getPassword("sasl.jaas.config")})
        except Py4JJavaError as error:
            return refused(error, "IllegalArgumentException", "ConfigException")
        mechanism = config.getString("sasl.mechanism")
        options = self._map(context.configurationEntries().get(0).getOptions())
        options.remove(None)  # an option without a name, which nobody can ask for
        values = json.loads(self._json(options))
        if mechanism not in PASSWORD_MECHANISMS or not {"username", "password"} <= values.keys():
            return REFUSED
        return mechanism, values["username"], values["password"]


def refused(error: Py4JJavaError, *kinds: str) -> None:
    """Be sure that it is a refusal, and not this test that is wrong."""
    assert error.java_exception.getClass().getSimpleName() in kinds, error


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    runtime = java.find_java()
    path = kafka_jars.classpath(
        kafka_jars.fetch_jars(kafka_jars.KAFKA_VERSION, runtime, lambda _: None)
    )
    port, token, process = launch_gateway(
        classpath=path,
        die_on_exit=True,
        enable_auth=True,
        java_path=str(runtime.path),
        return_proc=True,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
    )
    yield Kafka(gateway.jvm)
    gateway.shutdown()
    process.stdin.close()
    process.wait(30)


SEPARATORS = ("=", ":", " ", "\t", "\f", " = ", "\t:\t", "= =", "")
ENDS = ("\n", "\n", "\r\n", "\r", "\n\n", " \n", "\t\r\n", "\xa0\n", "\x00\n", "\\\n", "\\\\\n")
GOES_ON = ("\\\n", "\\\r\n  ", "\\\r\t", "\\\n\n", "\\\n#", "\\\\\\\n \f")
PIECES = (
    *("a", "b1", "-", "_", "$", ".", "7", "ß", "\x85", "\x0b", "\x1c", "\xa0", "\x00", "\x7f"),
    *(
        "\\",
        "\\\\",
        "\\n",
        "\\t",
        "\\u00e9",
        "\\u0020",
        "\\ud83d\\ude00",
        "\\ud83d",
        "\\u12",
        "\\U",
    ),
    *("=", ":", "#", "!", " ", "\t", "\f", "'", '"', '\\"', ";", "/", ",", "\\ "),
)
NAMES = ("security.protocol", "sasl.mechanism", "sasl.jaas.config")
PROTOCOLS = ("SASL_SSL", "SASL_PLAINTEXT", "sasl_ssl", "PLAINTEXT", "", "TLS", "SASL_SSL\xa0")
MODULES = ("a.Module", "a.Module", '"a.Module"', "a.b-c$D", "", "''", "1", "a/**/.Module")
FLAGS = ("required", "Required", "OPTIONAL", '"requisite"', "sufficient", "needed", "")
KEYS = ("username", "password", "'password'", "serviceName", "5", "")
WHOLE = (
    *("svc", "ä-1", "$Connection", '"a b;c"', '"a\\\\nb\\\\101"', '"a\\\\"b"', "'it\\\"s'"),
    '"\\u00fc, ="',
)
VALUES = (
    *("svc", "p-w.1", "$ConnectionString", "1a", "-a", ".", "ä", "", '""', "''", '"a b;c"'),
    *(
        '"a\\\\"b"',
        '"it\'s"',
        '"a"b"',
        '"a\\\\nb"',
        '"\\\\101\\\\48\\\\400\\\\18"',
        '"a\\\\0"',
        '"\\\\q"',
    ),
    *(
        "sb://a/;Key=k;",
        '"a//b"',
        '"a',
        '"\\u00fc\\ud83d\\ude00"',
        "a=b",
        "a:b",
        '"a\\nb"',
        '"\\\\\n b"',
    ),
)
BLANKS = (
    *(" ", " ", " ", "  ", "\t", "\\\n  ", "\\n", "\\r", "\x00", ""),
    *(" /* no */ ", " // no\\n", "/x"),
)
JAAS_ENDS = (";", ";", ";", " ;", ";;", "", "; b.Module required;", "; // no", ";/")


def words(random: random.Random, most: int) -> str:
    return "".join(random.choices(PIECES, k=random.randint(0, most)))


def jaas(random: random.Random) -> str:
    """Return a login as it is written, or nearly so."""
    if random.random() < 0.5:  # mostly well-formed, so that what is refused is one thing
        start, tail = "a.Module required", ";"
    else:
        start = f"{random.choice(MODULES)}{random.choice(BLANKS)}{random.choice(FLAGS)}"
        tail = random.choice(JAAS_ENDS)
    named = ["username", "password"]
    random.shuffle(named)
    if random.random() < 0.3:
        named.insert(random.randint(0, 2), random.choice(KEYS))
    values = VALUES if random.random() < 0.6 else WHOLE
    options = [f"{name}={random.choice(values)}" for name in named]
    return "".join((start, *(f"{random.choice(BLANKS) or ' '}{o}" for o in options), tail))


def generated(seed: int) -> bytes:
    """Return a properties file: half of them of anything, half nearly a login."""
    dice = random.Random(seed)
    lines = []
    if seed % 2:
        lines += [words(dice, 8) + dice.choice(SEPARATORS) + words(dice, 12) for _ in range(4)]
    else:
        protocol = dice.choice(("SASL_PLAINTEXT", dice.choice(PROTOCOLS)))
        mechanism = dice.choice((*PASSWORD_MECHANISMS * 4, "GSSAPI", "", "plain"))
        values = (protocol, mechanism, jaas(dice))
        lines += [
            name + dice.choice("=: ") + value for name, value in zip(NAMES, values, strict=True)
        ]
        lines.append(f"sasl.mechanism={mechanism}")
        lines += dice.choices(("# Schl\xfcssel \\", "! no", "note", "", " "), k=2)
        dice.shuffle(lines)
    text = ""
    for line in lines:
        if dice.random() < 0.3:
            at = dice.randint(0, len(line))
            line = line[:at] + dice.choice(GOES_ON) + line[at:]
        text += line + dice.choice(ENDS if seed % 2 or dice.random() < 0.2 else ENDS[:7])
    if dice.random() < 0.2:
        text = text.rstrip("\r\n")
    return text.encode("latin-1")


def named(entries: dict[str, str] | None) -> dict[str, str] | None:
    """Return entries but for one without a name, which is no property."""
    return REFUSED if entries is REFUSED else {k: v for k, v in entries.items() if k}


def our_login(path: Path) -> Login | None:
    try:
        settings = ConnectionSettings.load("b1:9092", path)
    except DocumentError:
        return REFUSED
    login = settings.login
    return ("", "", "") if login is None else (login.mechanism, login.username, login.password)


def test_generated_properties_are_read_as_kafka_reads_them(kafka: Kafka, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    refusals = logins = 0
    for seed in range(FILES):
        data = generated(seed)
        path.write_bytes(data)
        theirs = kafka.properties(path)
        try:
            ours: dict[str, str] | None = parse_properties(data)
        except ValueError:
            ours = REFUSED
        assert named(ours) == named(theirs), (seed, data)
        if seed % 2:
            continue
        login = kafka.login(path)
        if login is not REFUSED and "\0" in "".join(login):
            login = REFUSED  # our libraries cannot send it
        assert our_login(path) == login, (seed, data)
        refusals += login is REFUSED
        logins += login is not REFUSED
    assert min(refusals, logins) > FILES / 10  # both happen


LOGINS = {
    "blanks at the ends of lines": ("svc", "pw1", b' username="svc" password="pw1"; \t', b" \t"),
    "umlauts in ISO-8859-1": ("svc", "p\xe4ss", b' username="svc" password="p\xe4ss";', b""),
    "escapes of both": ("svc", "a\nb\tcA", rb' username="svc" password="a\\nb\\tc\\101";', b""),
    "goes on": ("svc", 'x="y"', b" password='x=\"y\"' \\\r\n  username=svc;", b""),
    "a name with a comma": (
        *(ODD_USER, 'a,=\\"\u00fc'),
        b' username="%s" password="a,=\\\\\\\\\\\\"\\u00fc";' % ODD_USER.encode(),
        b"",
    ),
}


def _is_let_in(bootstrap: str, user: str, password: str) -> bool:
    """Return whether Kafka lets this user in who is named to librdkafka, not in a file."""
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user, "sasl.password": password}
    where = {"bootstrap.servers": bootstrap, "security.protocol": "SASL_PLAINTEXT", "log_level": 0}
    try:
        AdminClient(where | login).list_topics(timeout=10)
    except KafkaException:
        return False
    return True


@pytest.mark.parametrize("case", LOGINS)
def test_login_that_kafka_accepts_succeeds_with_each_client_library(
    secured: SecuredBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    case: str,
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "home"))
    user, password, options, end = LOGINS[case]
    admin = create_admin_client(ConnectionSettings(secured.at("PLAINTEXT")))
    mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    made = UserScramCredentialUpsertion(user, mechanism, password.encode())
    for future in admin.alter_user_scram_credentials([made]).values():
        future.result(timeout=60)
    # The controller knows the password; the broker hears of it a moment later.
    eventually(lambda: _is_let_in(secured.at("OUTSIDE"), user, password))
    path = tmp_path / "client.properties"
    path.write_bytes(
        b"# Schl\xfcssel f\xfcr alle\nsecurity.protocol=SASL_PLAINTEXT%s\n"
        b"sasl.mechanism=SCRAM-SHA-512%s\nsasl.jaas.config=%s required%s\n"
        % (end, end, SCRAM_LOGIN.encode(), options)
    )
    where = ["-b", secured.at("OUTSIDE"), "--command-config", str(path)]
    for command in ("show", "doctor"):  # librdkafka asks for the one, both for the other
        capsys.readouterr()
        code = run(lambda _: None, [*where, command, "--json"])
        printed = capsys.readouterr()
        assert code == 0, printed


def test_known_property_names_cover_those_of_kafkas_admin_client(kafka: Kafka) -> None:
    names = set(json.loads(kafka._json(kafka._config.configNames())))
    assert {
        token_sources.ENDPOINT,
        token_sources.CLIENT_ID,
        token_sources.CLIENT_SECRET,
        token_sources.SCOPE,
    } <= names
    assert {oauth.URL_ENCODE, oauth.HANDLER} <= names
    missing = {name for name in names - KNOWN if not name.startswith(ELSEWHERE)}
    assert not missing, "a misspelling of these is not found"
