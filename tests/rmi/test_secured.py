"""TLS: who is refused at it. What calls owe over it is shown by the tests of calls, which run on it too."""

from __future__ import annotations

import logging
import ssl

import pytest

from fastsock import rmi

from . import objects
from .conftest import certificates, fresh_name


@pytest.fixture
def secured():
    """The address of a daemon with TLS, in this process."""
    context = certificates().server_context()
    name = fresh_name()
    with rmi.Daemon(ssl=context) as daemon:
        daemon.register(objects.Store(), name)
        daemon.start()
        yield f"rmi:{name}"


def test_a_certificate_is_verified(secured):
    with rmi.connect(secured, ssl=certificates().client_context()) as store:
        assert store.add(1, 2) == 3
    trusts_nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(rmi.Refused, match="TLS handshake"):
        rmi.connect(secured, ssl=trusts_nobody)


def test_a_client_without_tls_is_refused(secured, caplog):
    with caplog.at_level(logging.WARNING, "fastsock.rmi"), pytest.raises((rmi.Refused, rmi.LostPeer)):
        rmi.connect(secured)
    assert rmi.connect(secured, ssl=certificates().client_context()).add(1, 2) == 3


def test_tls_towards_a_plain_daemon_is_refused():
    name = fresh_name()
    with rmi.Daemon() as daemon:
        daemon.register(objects.Store(), name)
        daemon.start()
        with pytest.raises(rmi.Refused, match="TLS handshake"):
            rmi.connect(f"rmi:{name}", ssl=certificates().client_context())


def test_the_key_is_asked_for_all_the_same(secured):
    with pytest.raises(rmi.Refused, match="another key"):
        rmi.connect(secured, ssl=certificates().client_context(), key="another key than that")
