"""Network namespaces as hosts, joined by one switch, for tests of several hosts. Needs root and iproute2."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def why_not() -> str | None:
    """Why there can be none here, or None."""
    if not shutil.which("ip"):
        return "needs iproute2"
    made = subprocess.run(["ip", "netns", "add", f"fastsock-probe-{os.getpid()}"], capture_output=True, text=True)
    if made.returncode:
        return f"needs the right to make network namespaces: {made.stderr.strip()}"
    bridge = _ip("-n", f"fastsock-probe-{os.getpid()}", "link", "add", "switch", "type", "bridge", check=False)
    _ip("netns", "del", f"fastsock-probe-{os.getpid()}")
    return "needs bridges" if bridge else None


class Hosts:
    """`count` hosts at 10.9.0.1 and so on. A context manager."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.prefix = f"fastsock-{os.getpid()}-"
        self._switch = f"{self.prefix}switch"

    def __enter__(self) -> Hosts:
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self) -> None:
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "switch", "up")
        for host in range(self.count):
            name = self._name(host)
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{host}", "netns", self._switch)
            _ip("-n", name, "addr", "add", f"{self.ip(host)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", self._switch, "link", "set", f"port{host}", "master", "switch", "up")

    def __exit__(self, *_: object) -> None:
        for host in range(self.count):
            _ip("netns", "del", self._name(host), check=False)
        _ip("netns", "del", self._switch, check=False)

    def ip(self, host: int) -> str:
        """The address of a host."""
        return f"10.9.0.{host + 1}"

    def enter(self, host: int) -> None:
        """Moves the calling process there."""
        with open(f"/run/netns/{self._name(host)}", "rb") as namespace:
            if _libc.setns(namespace.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    def inside(self, host: int) -> list[str]:
        """What a command begins with to run there."""
        return ["ip", "netns", "exec", self._name(host)]

    def remote_start(self, folder: Path) -> dict[str, str]:
        """Variables by which fastsock's runner starts ranks there: no ssh, but a command that enters the namespace."""
        command = folder / "ssh"
        # the namespace's name ends with the number that its address begins to count at 1; ssh takes no variables along
        enter = f'exec ip netns exec {self.prefix}$((${{1##*.}} - 1)) sh -c "$2"'
        command.write_text(f"#!/bin/sh\nunset FASTSOCK_MPJ_INTERFACE\n{enter}\n")
        command.chmod(0o755)
        return {"FASTSOCK_MPJ_SSH": str(command)}

    def cut(self, host: int) -> None:
        """Nothing reaches that host any more, and nobody is told."""
        _ip("-n", self._switch, "link", "set", f"port{host}", "nomaster")

    def mend(self, host: int) -> None:
        """What cut() has done ends."""
        _ip("-n", self._switch, "link", "set", f"port{host}", "master", "switch")

    def link_down(self, host: int) -> None:
        """The host's own interface goes down: its routes are gone, and its kernel knows."""
        _ip("-n", self._name(host), "link", "set", "eth0", "down")

    def link_up(self, host: int) -> None:
        """What link_down() has done ends."""
        _ip("-n", self._name(host), "link", "set", "eth0", "up")

    def received(self, host: int) -> int:
        """Bytes that have reached that host over the wire, by its interface's own counter."""
        words = [*self.inside(host), "cat", "/proc/net/dev"]
        lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        return int(lines.split("eth0:")[1].split()[0])

    def delayed_acknowledgements(self, host: int) -> int:
        """How often its TCP has acknowledged only because the time for it had come."""
        words = [*self.inside(host), "cat", "/proc/net/netstat"]
        lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
        names, values = (line.split() for line in lines if line.startswith("TcpExt:"))
        return int(values[names.index("DelayedACKs")])

    def add_address(self, host: int, address: str) -> None:
        """The host is reached by that address too, by itself at least."""
        _ip("-n", self._name(host), "addr", "add", f"{address}/32", "dev", "lo")

    def send_out(self, host: int, address: str) -> None:
        """What goes to that address leaves the host, though the address is its own too."""
        for rule in ("add pref 1 to " + address + " lookup main", "add pref 2 lookup local", "del pref 0"):
            _ip("-n", self._name(host), "rule", *rule.split())

    def why_no_drop(self) -> str | None:
        """Why drop() cannot be had here, or None."""
        if not shutil.which("nft"):
            return "needs nft (apt-get install nftables)"
        done = subprocess.run([*self.inside(0), "nft", "add", "table", "inet", "probe"], capture_output=True, text=True)
        return f"nft cannot be used: {done.stderr.strip()}" if done.returncode else None

    def drop(self, host: int) -> None:
        """A firewall there swallows whatever arrives and whatever is sent."""
        chains = "".join(
            f"chain {hook} {{ type filter hook {hook} priority 0; policy drop; }}\n" for hook in ("input", "output")
        )
        text = f"table inet cut {{\n{chains}}}\n"
        subprocess.run([*self.inside(host), "nft", "-f", "-"], input=text, text=True, check=True)

    def pass_again(self, host: int) -> None:
        """What drop() has done ends."""
        subprocess.run([*self.inside(host), "nft", "delete", "table", "inet", "cut"], check=True)

    def _name(self, host: int) -> str:
        return f"{self.prefix}{host}"


def _ip(*arguments: str, check: bool = True) -> int:
    return subprocess.run(["ip", *arguments], check=check, capture_output=not check).returncode
