"""TLS: who is refused at it. What calls owe over it is shown by the tests of calls, which run on it too."""

from __future__ import annotations

import asyncio
import logging
import pickle
import ssl

import pytest

from fastsock import config, rmi
from fastsock.testing.process import FarProcess

from . import objects
from .conftest import begin_daemon, certificates, fresh_name


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


# ---- proxies that go elsewhere ----


@pytest.fixture
def no_context():
    yield
    rmi.secure(None)


def use(here, pickled, context):
    if context:
        rmi.secure(certificates().client_context())
    store = pickle.loads(pickled)
    return store.add(1, 2), path_of(store)


def path_of(store):
    return store._rmi_target.connection.session.path


@pytest.mark.parametrize("knows", [True, False], ids=["context", "none"])
def test_a_pickled_proxy_keeps_its_tls(secured, knows):
    """A context cannot be pickled: that of the process is used. It never goes on without."""
    with rmi.connect(secured, ssl=certificates().client_context()) as store, FarProcess() as far:
        assert path_of(store).endswith("with TLS")
        pickled = pickle.dumps(store)
        if knows:
            assert far.run(use, pickled, True) == (3, path_of(store))
        else:
            with pytest.raises(rmi.Refused, match=r"rmi\.secure\(context\)"):
                far.run(use, pickled, False)


def test_a_proxy_given_in_a_call_keeps_its_tls(secured, no_context):
    name = fresh_name()
    with FarProcess() as far, rmi.connect(secured, ssl=certificates().client_context()) as store:
        far.run(begin_daemon, name, {})
        with rmi.connect(f"rmi:{name}", objects.Store) as other:
            with pytest.raises(rmi.RemoteError, match=r"Refused: .* rmi\.secure\(context\)"):
                other.call_add(store, 1, 2)
            far.run(secure_there)
            assert other.call_add(store, 1, 2) == 3


def secure_there(here):
    rmi.secure(certificates().client_context())


def test_an_address_that_asks_for_tls(secured, no_context):
    address = secured.replace("rmi:", "rmis:")
    with pytest.raises(rmi.Refused, match=r"asks for TLS"):
        rmi.connect(address)
    rmi.secure(certificates().client_context())
    with rmi.connect(address) as store:
        assert store.add(1, 2) == 3
        assert path_of(store).endswith("with TLS")

    async def main():
        async with await rmi.aio.connect(address) as remote:
            return await remote.add(1, 2)

    assert asyncio.run(main()) == 3


def test_tls_is_not_left_out_towards_a_plain_daemon(no_context):
    """Also where the process has a context for others."""
    name = fresh_name()
    rmi.secure(certificates().client_context())
    with rmi.Daemon() as daemon:
        daemon.register(objects.Store(), name)
        daemon.start()
        with rmi.connect(f"rmi:{name}") as store:
            assert store.add(1, 2) == 3
        with pytest.raises(rmi.Refused, match="TLS handshake"):
            rmi.connect(f"rmis:{name}")


def test_a_rule_may_ask_for_tls(secured, no_context):
    name = secured.removeprefix("rmi:")
    config.configure(exports=config.parse_exports(f"export elsewhere rmis:{name}"))
    with pytest.raises(rmi.Refused, match=r"asks for TLS"):
        rmi.connect("rmi:elsewhere")
    rmi.secure(certificates().client_context())
    with rmi.connect("rmi:elsewhere") as store:
        assert store.add(1, 2) == 3
