"""A certificate for 127.0.0.1, and the two ends' TLS contexts."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme

FOLDER = "HTTPS_CERTIFICATES"  # the variable by which a server finds what its client made


@contextmanager
def certificates() -> Iterator[ssl.SSLContext]:
    """In the client: makes them for its server too. Its own context."""
    with tempfile.TemporaryDirectory() as folder:
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(key_file(folder))
        Path(certificate_file(folder)).write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        os.environ[FOLDER] = folder
        context = ssl.create_default_context()
        authority.configure_trust(context)
        yield context


def key_file(folder: str | None = None) -> str:
    """In the server: the file of its private key."""
    return os.path.join(folder or os.environ[FOLDER], "key.pem")


def certificate_file(folder: str | None = None) -> str:
    """In the server: the file of its certificate."""
    return os.path.join(folder or os.environ[FOLDER], "certificate.pem")


def of_server() -> ssl.SSLContext:
    """In the server: its context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_file(), key_file())
    return context
