"""How a connection logs in: its SASL mechanism, and user and password of `sasl.jaas.config`.

That is read as Kafka's JaasConfig reads it, with java.io.StreamTokenizer. What Kafka refuses is
refused, and no message repeats what might be a part of a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from core.cluster.kafka.connection.login import kerberos, msk_iam, oauth
from core.cluster.kafka.connection.properties import check_no_nul
from core.errors import DocumentError
from core.passwords import MissingPassword, PasswordMissingError, find_password

PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*PASSWORD_MECHANISMS, oauth.OAUTHBEARER, msk_iam.AWS_MSK_IAM, kerberos.GSSAPI)
MECHANISM, JAAS_CONFIG = "sasl.mechanism", "sasl.jaas.config"


class Login(Protocol):
    """A mechanism and what it logs in with, as both client libraries want it."""

    @property
    def mechanism(self) -> str: ...

    def check(self) -> None:
        """Raise what keeps it from logging in and is known before a broker is asked."""
        ...

    def find_user(self) -> str:
        """Return the user that brokers take it for; raises as `check`."""
        ...

    def librdkafka_config(self) -> dict[str, Any] | None:
        """Return librdkafka's configuration; None where that cannot log in so."""
        ...

    def kafka_python_config(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class PasswordLogin:
    """A login with a user's name and password."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    def check(self) -> None:
        """Nothing is known before a broker is asked."""

    def find_user(self) -> str:
        return self.username

    def librdkafka_config(self) -> dict[str, Any]:
        return {
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.username,
            "sasl.password": self.password,
        }

    def kafka_python_config(self) -> dict[str, Any]:
        name = self.username
        if self.mechanism.startswith("SCRAM"):
            # A saslname of RFC 5802: kafka-python sends it as it is, librdkafka makes one itself.
            name = name.replace("=", "=3D").replace(",", "=2C")
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": name,
            "sasl_plain_password": self.password,
        }


class TokenId(str):
    """The id of a delegation token, which is logged in with as with a user's name (KIP-48)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """A login with a delegation token (KIP-48): its id, and its HMAC as the password."""

    mechanism: str
    token_id: str
    hmac: str = field(repr=False)

    def check(self) -> None:
        """Nothing is known before a broker is asked."""

    def find_user(self) -> str:
        """Return the token's id: whose token it is, only brokers know."""
        return self.token_id

    def librdkafka_config(self) -> None:
        """Return None: librdkafka has no word for `tokenauth`."""

    def kafka_python_config(self) -> dict[str, Any]:
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": TokenId(self.token_id),
            "sasl_plain_password": self.hmac,
        }


def read_login(entries: dict[str, str], bootstrap: str, path: Path) -> Login:
    """Take a login out of a file's properties; raises DocumentError, PasswordMissingError."""
    mechanism, jaas = entries.pop(MECHANISM, "GSSAPI"), entries.pop(JAAS_CONFIG, None)
    if mechanism not in MECHANISMS:
        raise DocumentError(
            f"{path}: sasl.mechanism {mechanism or 'is empty, which'} is not supported.",
            next=f"Supported: {', '.join(MECHANISMS)}.",
        )
    advice = f"Write it like {_EXAMPLE}"
    try:
        options = {} if jaas is None else parse_jaas(jaas).options
    except ValueError as error:
        raise DocumentError(
            f"{path}: sasl.jaas.config cannot be used: {error}.",
            next=f'{advice} In quotes a quote is \\\\", a backslash \\\\\\\\ in this file.',
        ) from error
    if mechanism == oauth.OAUTHBEARER:
        return oauth.read_oauth(entries, options, path)
    if mechanism == msk_iam.AWS_MSK_IAM:
        return msk_iam.read_msk_iam(entries, options, bootstrap, path)
    if mechanism == kerberos.GSSAPI:
        return kerberos.read_kerberos(entries, options, path)
    username, password = options.get("username"), options.get("password")
    tokens = mechanism.startswith("SCRAM") and options.get("tokenauth", "").lower() == "true"
    if username and password is None and not tokens:
        # Kafka's own clients end here, and say that they cannot ask.
        password = find_password(path, JAAS_CONFIG)
        if password is None:
            raise PasswordMissingError(MissingPassword(path, JAAS_CONFIG, f"the user {username}"))
    if username is None or password is None:
        raise DocumentError(f"{path}: sasl.jaas.config has no username and password.", next=advice)
    check_no_nul(JAAS_CONFIG, username + password, path)
    if tokens:
        return TokenLogin(mechanism, username, password)
    return PasswordLogin(mechanism, username, password)


_EXAMPLE = '…PlainLoginModule required username="…" password="…";'
_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_DISALLOWED = (
    "com.sun.security.auth.module.JndiLoginModule",
    "com.sun.security.auth.module.LdapLoginModule",
)
_PRINTABLE_OPTIONS = ("username", "password")
"""Names of options that messages may show; another may be the rest of a password cut in two."""

# A word begins with no digit, dot or minus, which begin a number; any of them may go on in it.
# A slash alone begins a comment, too: up to the end of a line, past whatever character is next.
_TOKEN = re.compile(
    r"""
      [\x00-\x20]+ | /\*.*?(?:\*/|\Z) | /.?[^\n\r]*
    | (?P<number> -?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]*) )
    | (?P<word> [A-Za-z_$\xa0-\U0010ffff][A-Za-z_$\xa0-\U0010ffff0-9.-]* )
    | "(?P<double> (?:\\.|[^"\\\n\r])* )"? | '(?P<single> (?:\\.|[^'\\\n\r])* )'?
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class _Token(NamedTuple):
    sign: str
    """The character that stands alone; empty for words, quoted texts and numbers."""
    text: str | None
    """Of a word or quoted text."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One login module of a JAAS config, and its options."""

    name: str
    options: dict[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Return the one login module; raises ValueError without its values, as Kafka refuses."""
    tokens = _tokenize(text)
    logins = [_parse_module(token.text, tokens) for token in tokens]
    if not logins:
        raise ValueError("it names no login module")
    if len(logins) > 1:
        raise ValueError(f"it names {len(logins)} login modules, and one is allowed")
    if logins[0].name.strip() in _DISALLOWED:
        raise ValueError("its login module is one that Kafka does not allow")
    return logins[0]


def _parse_module(module: str | None, tokens: Iterator[_Token]) -> LoginModule:
    flag = next(tokens, None)
    if flag is None or flag.text is None or flag.text.upper() not in _FLAGS:
        raise ValueError("its login module is not followed by `required`")
    options: dict[str, str] = {}
    place = "`required`"
    for key in tokens:
        if key.sign == ";":
            if not module:
                raise ValueError("it names no login module")
            return LoginModule(module, options)
        equals = next(tokens, None)
        if equals is None or equals.sign != "=":
            raise ValueError(f"what follows {place} is no NAME=VALUE")
        name = key.text if key.text in _PRINTABLE_OPTIONS else f"option {len(options) + 1}"
        value = next(tokens, None)
        if value is None or value.text is None:
            raise ValueError(f"the value of {name} is missing, or must be in quotes")
        place = f"the value of {name}"
        if key.text is not None:
            options[key.text] = value.text
    raise ValueError("it does not end with a semicolon")


def _tokenize(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        match match.lastgroup:
            case "word":
                yield _Token("", match["word"])
            case "double" | "single" as quoted:  # one that a line's end ends is whole, too
                yield _Token("", _ESCAPE.sub(_unescape, match[quoted]))
            case "number":
                yield _Token("", None)
            case "sign":
                yield _Token(match["sign"], None)


def _unescape(match: re.Match[str]) -> str:
    escaped: str = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _CONTROLS.get(escaped, escaped)
