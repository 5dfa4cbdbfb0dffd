"""Two hosts on one machine, which are network namespaces, and the MPIs' ranks on both."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import mpi

sys.path.append(str(Path(__file__).parents[2]))  # the tests' hosts
from tests.helpers.hosts import Hosts, why_not

__all__ = ["Hosts", "across", "between", "why_not"]

# between the hosts everybody uses tcp; inside each, its own shared memory
_TCP = ("--mca", "pml", "ob1", "--mca", "btl", "self,sm,tcp")
# UCX tells hosts apart by the boot of the kernel, so it would share memory between network namespaces
_MPICH_TCP = (("UCX_TLS", "tcp,self"), ("FI_PROVIDER", "tcp"))
# called as ssh is: options, host, command. Open MPI tells hosts apart by their names, so each has one
_ENTER = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
number=$((${{1##*.}} - 1)); shift
exec ip netns exec {prefix}$number unshare --uts sh -c "hostname host$number; $*"
"""


def between(network: Hosts, peer: type) -> type:
    """That peer with its listening end on the first host and its connecting end on the second."""

    class Between(peer):  # type: ignore[misc]
        host = network.ip(0)

        def listen(self) -> Any:
            network.enter(0)
            return super().listen()

        def connect(self, address: Any) -> None:
            network.enter(1)
            super().connect(address)

    return Between


def across(network: Hosts, one: mpi.Mpi, folder: Path, each: int) -> mpi.Mpi:
    """That MPI with so many ranks on each of the hosts."""
    enter = folder / "ssh"
    enter.write_text(_ENTER.format(prefix=network.prefix))
    enter.chmod(0o755)
    places = ",".join(f"{network.ip(host)}:{each}" for host in range(2))
    runner, python = one.command[0], one.python
    if one.name == mpi.MPICH:
        words = [runner, "-launcher", "ssh", "-launcher-exec", str(enter), "-hosts", places]
        words += ["-n", "{ranks}", python]
        return replace(one, command=_on_first(network, words), environment=_MPICH_TCP)
    if one.name == mpi.OPENMPI:
        words = [runner, "--allow-run-as-root", "--bind-to", "none", "--mca", "plm_ssh_agent", str(enter), *_TCP]
        words += ["--host", places, "-n", "{ranks}", python]
        return replace(one, command=_on_first(network, words))
    file = folder / f"hosts{each}"
    file.write_text(f"localhost:{each}\n{network.ip(1)}:{each}\n")
    words = [python, "-m", "fastsock.mpj.run", "--as-mpi4py", "--hostfile", str(file)]
    settings = network.remote_start(folder).items()
    return replace(one, command=(*network.inside(0), *words), environment=(*one.environment, *settings))


def _on_first(network: Hosts, words: list[str]) -> tuple[str, ...]:
    # the braces of {ranks} must stay as they are, to be filled in
    return (*network.inside(0), "unshare", "--uts", "sh", "-c", f'hostname host0; exec {shlex.join(words[:-3])} '
            '"$@"', "sh", *words[-3:])  # fmt: skip
