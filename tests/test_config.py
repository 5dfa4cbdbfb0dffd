"""Settings: what is read, what is refused, and what a refusal says."""

from __future__ import annotations

import copy
import ipaddress
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastsock
from fastsock import config
from fastsock.config import ConfigError, Settings, parse_rules, parse_transports
from fastsock.system import variables

unhurried = settings(deadline=None)  # a busy machine is no failure


@pytest.fixture(autouse=True)
def fresh_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test reads a clean environment, and leaves the settings of the others alone."""
    for name in variables.SOCKETS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(config.in_force, "current", None)
    yield


class TestTransports:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("shm,rdma,tcp", ("shm", "rdma", "tcp")),
            ("rdma", ("rdma", "tcp")),
            ("tcp", ("tcp",)),
            ("rdma,shm", ("rdma", "shm", "tcp")),
            (" SHM , rdma ", ("shm", "rdma", "tcp")),
            ("shm,shm", ("shm", "tcp")),
            ("tcp,shm", ("tcp",)),
            ("^shm", ("tcp",)),
            ("^rdma", ("shm", "tcp")),
        ],
    )
    def test_reads(self, text: str, expected: tuple[str, ...]) -> None:
        assert parse_transports(text) == expected

    def test_exclusion_keeps_the_order_given_by_the_caller(self) -> None:
        known = ("shm", "rdma", "other", "tcp")
        assert parse_transports("^other", known, default=("other", "rdma", "shm", "tcp")) == ("rdma", "shm", "tcp")

    @pytest.mark.parametrize("text", ["", " ", "shmem", "shm,,tcp", "shm,^rdma", "^", "shm;rdma", "shm rdma", "^iser"])
    def test_refuses(self, text: str) -> None:
        with pytest.raises(ConfigError, match="write some of shm, rdma, rsockets, sdp, tcp,"):
            parse_transports(text)

    def test_the_paths_that_may_be_asked_for_are_those_that_there_are(self) -> None:
        assert tuple(fastsock.transports()) == config.KNOWN_TRANSPORTS

    def test_tcp_cannot_be_left_out(self) -> None:
        with pytest.raises(ConfigError, match="tcp cannot be left out"):
            parse_transports("^tcp")

    def test_error_names_file_and_line(self) -> None:
        with pytest.raises(ConfigError, match=r"^some\.conf, line 7: 'x'") as caught:
            parse_transports("x", file="some.conf", line=7)
        assert (caught.value.file, caught.value.line) == ("some.conf", 7)

    @unhurried
    @given(st.text(alphabet="shmrdmatcp^, ", max_size=20))
    def test_any_text_gives_paths_that_end_in_tcp_or_a_config_error(self, text: str) -> None:
        try:
            paths = parse_transports(text)
        except ConfigError:
            return
        assert paths[-1] == "tcp"
        assert len(set(paths)) == len(paths)
        assert set(paths) <= set(config.KNOWN_TRANSPORTS)


def chosen(rules: str, direction: str, ip: str, port: int) -> tuple[str, ...] | None:
    """The paths that a rules text chooses, or None where no rule matches."""
    paths, rule = Settings(rules=parse_rules(rules)).paths_for(direction, ip, port)
    return None if rule is None else paths


class TestRules:
    def test_no_rules(self) -> None:
        assert Settings().paths_for("connect", "10.0.0.1", 80) == (config.DEFAULT_TRANSPORTS, None)

    def test_first_match_wins(self) -> None:
        text = """
            # the database speaks to a C program
            connect 127.0.0.1 5432 tcp   # never tried
            connect 127.0.0.0/8 5000-6000 rdma, tcp
            listen * * ^rdma
        """
        assert chosen(text, "connect", "127.0.0.1", 5432) == ("tcp",)
        assert chosen(text, "connect", "127.0.0.1", 5433) == ("rdma", "tcp")
        assert chosen(text, "connect", "127.200.3.4", 6000) == ("rdma", "tcp")
        assert chosen(text, "connect", "127.0.0.1", 6001) is None
        assert chosen(text, "connect", "128.0.0.1", 5500) is None
        assert chosen(text, "listen", "0.0.0.0", 1) == ("shm", "tcp")

    def test_directions_are_apart(self) -> None:
        assert chosen("listen * 80 tcp", "connect", "127.0.0.1", 80) is None
        assert chosen("connect * 80 tcp", "listen", "127.0.0.1", 80) is None

    def test_rule_says_where_it_stands(self) -> None:
        settings = Settings(rules=parse_rules("\nconnect 10.0.0.0/8 5000-6000 rdma", file="my.conf"))
        rule = settings.paths_for("connect", "10.1.1.1", 5000)[1]
        assert str(rule) == "connect 10.0.0.0/8 5000-6000 rdma,tcp (my.conf, line 2)"

    def test_ipv6(self) -> None:
        assert chosen("connect fe80::/10 * tcp", "connect", "fe80::1%eth0", 1) == ("tcp",)
        assert chosen("connect [::1] 80 tcp", "connect", "::1", 80) == ("tcp",)
        assert chosen("connect 0:0:0:0:0:0:0:1 80 tcp", "connect", "::1", 80) == ("tcp",)
        assert chosen("connect ::1 80 tcp", "connect", "::2", 80) is None

    def test_one_address_written_two_ways_is_one_address(self) -> None:
        assert chosen("connect 127.0.0.1 80 tcp", "connect", "::ffff:127.0.0.1", 80) == ("tcp",)
        assert chosen("connect ::ffff:127.0.0.1 80 tcp", "connect", "127.0.0.1", 80) == ("tcp",)
        assert chosen("connect ::ffff:127.0.0.0/104 80 tcp", "connect", "127.9.9.9", 80) == ("tcp",)

    def test_families_do_not_mix(self) -> None:
        assert chosen("connect 0.0.0.0/0 * tcp", "connect", "::1", 80) is None
        assert chosen("connect ::/0 * tcp", "connect", "127.0.0.1", 80) is None
        assert chosen("connect * * tcp", "connect", "::1", 80) == ("tcp",)

    def test_what_is_no_address_matches_only_the_star(self) -> None:
        assert chosen("connect 0.0.0.0/0 * tcp", "connect", "somewhere", 80) is None
        assert chosen("connect * * tcp", "connect", "somewhere", 80) == ("tcp",)

    def test_host_name(self) -> None:
        assert chosen("connect localhost 80 tcp", "connect", "127.0.0.1", 80) == ("tcp",)

    def test_rules_choose_among_the_transports_in_force(self) -> None:
        settings = Settings(transports="rdma", rules=parse_rules("connect * * shm,rdma\nlisten * * shm"))
        assert settings.paths_for("connect", "127.0.0.1", 1)[0] == ("rdma", "tcp")
        assert settings.paths_for("listen", "127.0.0.1", 1)[0] == ("tcp",)

    @pytest.mark.parametrize(
        ("line", "what"),
        [
            ("connect", "is no rule"),
            ("connect * 80", "is no rule"),
            ("bind * 80 tcp", "not 'bind'"),
            ("connect * 80 quick", "'quick' is no path"),
            ("connect * 80-70 tcp", "out of order"),
            ("connect * 65536 tcp", "above 65535"),
            ("connect * -1 tcp", "is no port"),
            ("connect * 1-2-3 tcp", "is no port"),
            ("connect * http tcp", "is no port"),
            ("connect * ²-3 tcp", "is no port"),
            ("connect 10.0.0.0/33 80 tcp", "from 0 to 32"),
            ("connect ::/129 80 tcp", "from 0 to 128"),
            ("connect 10.0.0.0/ 80 tcp", "is no prefix"),
            ("connect localhost/8 80 tcp", "only a numeric one"),
            ("connect no.such.host.invalid 80 tcp", "is unknown"),
        ],
    )
    def test_error_names_file_line_and_remedy(self, line: str, what: str) -> None:
        with pytest.raises(ConfigError, match=what) as caught:
            parse_rules(f"# first\n{line}\n", file="my.conf")
        assert str(caught.value).startswith("my.conf, line 2: ")

    @unhurried
    @given(st.ip_addresses(), st.ip_addresses(v=4), st.integers(0, 32), st.integers(0, 65535))
    def test_prefixes_match_as_ipaddress_does(
        self,
        ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
        base: ipaddress.IPv4Address,
        prefix: int,
        port: int,
    ) -> None:
        network = ipaddress.ip_network(f"{base}/{prefix}", strict=False)
        rules = f"connect {base}/{prefix} {port} tcp"
        mapped = getattr(ip, "ipv4_mapped", None)
        expected = ("tcp",) if (mapped or ip) in network else None
        assert chosen(rules, "connect", str(ip), port) == expected
        assert chosen(rules, "connect", str(network.broadcast_address), port) == ("tcp",)

    @unhurried
    @given(st.text(max_size=60))
    def test_any_text_gives_rules_or_a_config_error(self, text: str) -> None:
        # A host name would ask the resolver, which is not what is tested here.
        try:
            rules = parse_rules("connect 127.0.0.1 " + text, file="f")
        except ConfigError as error:
            assert error.file == "f" and error.line is not None
            return
        assert all(rule.transports[-1] == "tcp" for rule in rules)


class TestEnvironment:
    def test_defaults(self) -> None:
        found = config.from_environment({})
        assert found == Settings()
        assert found.transports == config.DEFAULT_TRANSPORTS
        assert (found.spin_us, found.look_us, found.meeting_ms) == (50.0, 2.0, 10.0)
        assert found.ring_bytes == 1 << 20
        assert found.direct_min == 64 << 10
        assert (found.peers, found.stats, found.trace, found.rules) == ("same-user", None, False, ())

    def test_everything(self, tmp_path) -> None:
        rules = tmp_path / "rules"
        rules.write_text("connect * 80 tcp\n")
        found = config.from_environment(
            {
                "FASTSOCK_TRANSPORTS": "^rdma",
                "FASTSOCK_CONFIG": str(rules),
                "FASTSOCK_SPIN_US": "0",
                "FASTSOCK_LOOK_US": "1.5",
                "FASTSOCK_MEETING_MS": "10",
                "FASTSOCK_RING_BYTES": "64K",
                "FASTSOCK_DIRECT_MIN": "0",
                "FASTSOCK_PEERS": "any",
                "FASTSOCK_FAILOVER": "resume",
                "FASTSOCK_RDMA_RENDEZVOUS": "read",
                "FASTSOCK_STATS": "-",
                "FASTSOCK_TRACE": "1",
            }
        )
        assert found.transports == ("shm", "tcp")
        assert found.paths_for("connect", "127.0.0.1", 80)[0] == ("tcp",)
        assert (found.spin_us, found.look_us, found.meeting_ms) == (0.0, 1.5, 10.0)
        assert found.ring_bytes == 65536
        assert found.direct_min == 0
        assert (found.peers, found.stats, found.trace) == ("any", "-", True)
        assert found.failover == "resume"
        assert found.rdma_rendezvous == "read"

    def test_an_empty_variable_counts_as_unset(self) -> None:
        names = variables.SOCKETS
        assert config.from_environment(dict.fromkeys(names, "")) == Settings()

    @pytest.mark.parametrize(
        ("variable", "text"),
        [
            ("FASTSOCK_TRANSPORTS", "shmem"),
            ("FASTSOCK_SPIN_US", "fast"),
            ("FASTSOCK_SPIN_US", "-1"),
            ("FASTSOCK_SPIN_US", "nan"),
            ("FASTSOCK_SPIN_US", "inf"),
            ("FASTSOCK_LOOK_US", "1e9"),
            ("FASTSOCK_MEETING_MS", "2ms"),
            ("FASTSOCK_RING_BYTES", "1000000"),
            ("FASTSOCK_RING_BYTES", "2048"),
            ("FASTSOCK_RING_BYTES", "2G"),
            ("FASTSOCK_RING_BYTES", "K"),
            ("FASTSOCK_DIRECT_MIN", "-1"),
            ("FASTSOCK_PEERS", "everybody"),
            ("FASTSOCK_TRACE", "maybe"),
        ],
    )
    def test_error_names_the_variable(self, variable: str, text: str) -> None:
        with pytest.raises(ConfigError, match=f"^{variable}: ") as caught:
            config.from_environment({variable: text})
        assert caught.value.file == variable

    def test_rules_file_that_cannot_be_read(self, tmp_path) -> None:
        with pytest.raises(ConfigError, match="No such file"):
            config.from_environment({"FASTSOCK_CONFIG": str(tmp_path / "absent")})
        binary = tmp_path / "binary"
        binary.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ConfigError, match="cannot be read"):
            config.from_environment({"FASTSOCK_CONFIG": str(binary)})

    def test_exclusion_in_a_rule_is_of_the_environments_paths(self, tmp_path) -> None:
        rules = tmp_path / "rules"
        rules.write_text("connect * 1 ^shm\nconnect * 2 ^rdma\n")
        found = config.from_environment({"FASTSOCK_TRANSPORTS": "rdma,shm", "FASTSOCK_CONFIG": str(rules)})
        assert found.paths_for("connect", "127.0.0.1", 1)[0] == ("rdma", "tcp")
        assert found.paths_for("connect", "127.0.0.1", 2)[0] == ("shm", "tcp")

    @pytest.mark.parametrize(
        ("path", "why"),
        [("nodir/x", "there is no folder"), ("", "it is a folder"), ("report", ""), ("-", "")],
    )
    def test_a_report_that_cannot_be_written(self, tmp_path, path, why) -> None:
        target = path if path == "-" else str(tmp_path / path)
        if why:
            with pytest.raises(ConfigError, match=f"the statistics cannot be written to {target}: {why}"):
                config.from_environment({"FASTSOCK_STATS": target})
        else:
            assert config.from_environment({"FASTSOCK_STATS": target}).stats == target
        assert list(tmp_path.iterdir()) == []


class TestCurrent:
    def test_cached_and_read_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        first = config.settings()
        monkeypatch.setenv("FASTSOCK_SPIN_US", "7")
        assert config.settings() is first
        assert config.reload().spin_us == 7.0
        assert config.settings().spin_us == 7.0

    def test_configure(self) -> None:
        new = config.configure(transports="^shm", spin_us=0, ring_bytes="64K")
        assert config.settings() is new
        assert (new.transports, new.spin_us, new.ring_bytes) == (("tcp",), 0.0, 65536)
        assert config.configure(transports=("shm",)).spin_us == 0.0

    @pytest.mark.parametrize(
        "changes",
        [
            {"spin_us": -1},
            {"ring_bytes": 65536.0},
            {"nonsense": 1},
            {"peers": "x"},
            {"rules": ["connect * * tcp"]},
            {"transports": ()},
        ],
    )
    def test_a_wrong_change_changes_nothing(self, changes: dict[str, object]) -> None:
        before = config.settings()
        with pytest.raises(ConfigError):
            config.configure(**changes)
        assert config.settings() is before

    def test_frozen(self) -> None:
        with pytest.raises(AttributeError, match="configure"):
            config.settings().spin_us = 3.0
        with pytest.raises(AttributeError, match="configure"):
            del config.settings().spin_us

    def test_equal_copied_and_pickled(self) -> None:
        found = Settings(transports="rdma", rules=parse_rules("connect 10.0.0.0/8 80 tcp"))
        for twin in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
            assert twin == found and hash(twin) == hash(found) and repr(twin) == repr(found)
            assert twin.paths_for("connect", "10.0.0.1", 80)[0] == ("tcp",)
        assert found != Settings() and found != "rdma"


def test_importing_it_loads_nothing_heavy_and_little_of_fastsock() -> None:
    folder = os.path.dirname(config.__file__)
    code = "import sys, types; sys.modules['fastsock'] = package = types.ModuleType('fastsock'); "
    code += f"package.__path__ = [{folder!r}]; before = set(sys.modules); import fastsock.config; "
    code += "fastsock.config.settings(); print(*(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    own = {"fastsock.config", "fastsock.system", "fastsock.system.variables"}
    assert set(loaded) <= {*own, "__future__", "operator", "_operator", "os"}
