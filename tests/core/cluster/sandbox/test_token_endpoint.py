"""The token endpoint of a secured sandbox: tokens for those who have the secret, and no others."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from core.cluster.kafka.connection.login.token_sources import OidcEndpoint
from core.cluster.sandbox.authority import write_token_key
from core.cluster.sandbox.nodes import jwks_file, token_key_file
from core.cluster.sandbox.token_endpoint import TOKEN_SECONDS, create_server
from core.errors import LoginRefusedError

SECRET = "right_and-long"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_token_key(tmp_path)
    return tmp_path


@pytest.fixture
def url(root: Path) -> Iterator[str]:
    key = load_pem_private_key(token_key_file(root).read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    with create_server(0, {"reader": SECRET}, key) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        thread.join()


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_token_names_its_principal_and_its_signature_matches_the_published_key(
    root: Path, url: str
) -> None:
    token = OidcEndpoint(url, "reader", SECRET).fetch()
    assert token.principal == "reader"
    assert 0 < token.expires_at - time.time() <= TOKEN_SECONDS
    head, claims, signature = token.value.split(".")
    (jwk,) = json.loads(jwks_file(root).read_text())["keys"]
    assert json.loads(decoded(head))["kid"] == jwk["kid"]
    x, y, r, s = (
        int.from_bytes(number)
        for pair in (decoded(jwk["x"]) + decoded(jwk["y"]), decoded(signature))
        for number in (pair[:32], pair[32:])
    )
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    der = encode_dss_signature(r, s)
    public.verify(der, f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize(("client", "secret"), [("reader", "wrong"), ("admin", SECRET), ("", "")])
def test_wrong_client_or_secret_gets_no_token(url: str, client: str, secret: str) -> None:
    with pytest.raises(LoginRefusedError, match="invalid_client"):
        OidcEndpoint(url, client, secret).fetch()


BASIC = "Basic " + base64.b64encode(f"reader:{SECRET}".encode()).decode()


@pytest.mark.parametrize(
    ("path", "login", "form", "status"),
    [
        ("/token", BASIC, b"grant_type=password", 400),
        ("/token", BASIC, b"", 400),
        ("/token", BASIC, b"x" * 10_000, 400),
        ("/token", "Basic \xff", b"grant_type=client_credentials", 401),
        ("/token", "Bearer x", b"grant_type=client_credentials", 401),
        ("/elsewhere", BASIC, b"grant_type=client_credentials", 404),
    ],
)
def test_invalid_token_requests_are_refused(
    url: str, path: str, login: str, form: bytes, status: int
) -> None:
    request = urllib.request.Request(
        url.replace("/token", path), form, {"Authorization": login}, method="POST"
    )
    with pytest.raises(HTTPError) as caught:
        urllib.request.urlopen(request, timeout=10)
    assert caught.value.code == status
    caught.value.close()
