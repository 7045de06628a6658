"""Client properties with an encrypted key, whose password is in no file."""

from __future__ import annotations

import subprocess
from pathlib import Path

PASSWORD = "a hush-hush word"


def properties_with_key(folder: Path) -> Path:
    """Write a key, its certificate and properties that name both; return the properties."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    words += ["-passout", f"pass:{PASSWORD}", "-days", "2", "-subj", "/CN=x"]
    command = ["openssl", *words, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    store = folder / "client.pem"
    store.write_text(key.read_text() + certificate.read_text())
    properties = folder / "client.properties"
    properties.write_text(
        f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={store}\n"
    )
    return properties
