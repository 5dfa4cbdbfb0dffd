"""Names that other hosts find: the name server, and the lines of the rules file."""

from __future__ import annotations

import pytest

from fastsock import config, rmi
from fastsock.rmi import names
from fastsock.rmi.client import connecting
from fastsock.rmi.server import naming
from fastsock.testing.process import FarProcess

from . import objects
from .conftest import begin_daemon, fresh_name, no_more_threads, threads_again, until


def begin_names(here, port=0):
    here.daemon = rmi.Daemon(("127.0.0.1", port), names="")
    here.daemon.register(names.Names(), connecting.NAMES, local=False)
    here.daemon.start()
    return "{}:{}".format(*here.daemon.address)


def begin_here(here, name, options, metadata):
    here.daemon = rmi.Daemon(**options)
    here.daemon.register(objects.Store(), name, local=False, metadata=metadata)
    here.daemon.start()


def stop(here):
    here.daemon.close()


@pytest.fixture
def server(monkeypatch):
    """host:port of a name server in another process, which all processes of the test ask."""
    with FarProcess() as far:
        address = far.run(begin_names)
        monkeypatch.setenv(connecting.NAMES_VARIABLE, address)
        yield address


@pytest.fixture
def listed(server):
    with rmi.connect(f"rmi://{server}/{connecting.NAMES}", names.Names) as proxy:
        yield proxy


def test_a_name_is_found_by_the_server_and_gone_with_its_daemon(listed):
    name = fresh_name()
    with FarProcess() as far:
        far.run(begin_here, name, {}, {"kind": "store"})
        with rmi.connect(f"rmi:{name}", objects.Store) as store:
            assert store.add(1, 2) == 3
        address, metadata = listed.entries(name)[name]
        assert address.endswith(f"/{name}")
        assert metadata == {"kind": "store"}
        assert name in listed.entries(metadata={"kind": "store"})
        assert name not in listed.entries(metadata={"kind": "other"})
        far.kill()
        far.wait()
        while listed.entries(name):  # its connection ends with it
            pass
        with pytest.raises(rmi.UnknownObject, match="no daemon has told"):
            rmi.connect(f"rmi:{name}")


def test_a_daemon_takes_its_names_back(listed):
    name = fresh_name()
    with rmi.Daemon() as daemon:
        daemon.register(objects.Store(), name)
        assert name in listed.entries(name)
        daemon.unregister(name)
        assert listed.entries(name) == {}


def test_a_name_belongs_to_the_daemon_that_has_it(listed):
    name = fresh_name()
    with rmi.Daemon() as first, rmi.Daemon() as second:
        first.register(objects.Store(), name, local=False)
        with pytest.raises(ValueError, match="registered already"):
            second.register(objects.Store(), name, local=False)
        assert repr(second).endswith("no objects>")
        with pytest.raises(rmi.UnknownObject, match="not registered by this connection"):
            listed.unregister(name)


def test_the_server_takes_no_nonsense(listed):
    with pytest.raises(ValueError, match="names no host"):
        listed.register("x", "rmi:x")
    with pytest.raises(rmi.BadAddress, match="no address"):
        listed.register("x", "x")
    with pytest.raises(ValueError, match="no name"):
        listed.register("", "rmi://host:1/x")


def test_a_line_of_the_rules_file_says_where_an_object_is(path, tmp_path, monkeypatch):
    name = fresh_name()
    with FarProcess() as far:
        host, port = far.run(begin_daemon, name, {})
        rules = tmp_path / "rules"
        rules.write_text(
            f"# what the site exports\nexport the-store rmi:again\nexport again rmi://{host}:{port}/{name}\n"
        )
        monkeypatch.setenv("FASTSOCK_CONFIG", str(rules))
        config.reload()
        with rmi.connect("rmi:the-store", objects.Store) as store:
            assert store.add(1, 2) == 3


@pytest.mark.parametrize("line", ["export", "export name", "export name host:1/x", "export a rmi:b c"])
def test_a_line_that_exports_nothing_is_refused(line):
    with pytest.raises(config.ConfigError, match="line 2: write export name"):
        config.parse_exports(f"connect * * tcp\n{line}\n", file="f")
    assert len(config.parse_rules(f"connect * * tcp\n{line}\n", file="f")) == 1


def test_a_server_that_was_restarted_is_told_again(monkeypatch):
    monkeypatch.setattr(naming, "AGAIN_AFTER", 0.05)
    before, after = fresh_name(), fresh_name()
    with FarProcess() as first, FarProcess() as second:
        server = first.run(begin_names)
        with rmi.Daemon(names=server) as daemon:
            daemon.register(objects.Store(), before, local=False)
            first.kill()
            first.wait()
            second.run(begin_names, int(server.rpartition(":")[2]))
            with rmi.connect(f"rmi://{server}/{connecting.NAMES}", names.Names) as listed:
                until(lambda: listed.entries(before))
                daemon.register(objects.Store(), after, local=False)
                assert listed.entries(after)


def test_a_daemon_that_can_start_no_thread_to_tell_the_server_again_says_so_and_serves(monkeypatch, caplog):
    name = fresh_name()
    with FarProcess() as far:
        server = far.run(begin_names)
        monkeypatch.setenv(connecting.NAMES_VARIABLE, server)
        with rmi.Daemon() as daemon:
            daemon.register(objects.Store(), name)
            daemon.start()
            with rmi.connect(f"rmi:{name}", objects.Store) as store:
                assert store.add(1, 2) == 3
                no_more_threads()
                try:
                    far.kill()
                    until(lambda: f"the name server {server} will not be told again" in caplog.text)
                    assert store.add(2, 3) == 5
                finally:
                    threads_again()
