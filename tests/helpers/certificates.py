"""Certificates for the TLS tests, made anew for each run."""

from __future__ import annotations

import functools
import ssl
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import trustme


@functools.cache
def authority() -> trustme.CA:
    """Who signs the certificates of this run. Without the package that makes them, what asks for one is skipped."""
    made: trustme.CA = pytest.importorskip("trustme").CA()
    return made


@functools.cache
def issued() -> trustme.LeafCert:
    """A certificate for localhost. Call it before forking, so that both processes trust the same authority."""
    return authority().issue_cert("localhost", "127.0.0.1")


def server_context() -> ssl.SSLContext:
    """For the end that shows the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued().configure_cert(context)
    return context


def client_context() -> ssl.SSLContext:
    """For the end that verifies it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority().configure_trust(context)
    return context
