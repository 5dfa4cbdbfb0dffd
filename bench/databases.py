"""PostgreSQL (pgbench, psycopg2, pg8000) and memcached (pymemcache): plain, by `fastsock run`, by a UNIX socket."""

from __future__ import annotations

import getpass
import glob
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from any_program import RUN, WAYS, compared
from common import question
from common.question import Options
from common.target import Result

SYSTEM = "/usr/bin/python3"  # which has the clients that the system's packages bring
USER = "postgres"
PGBENCH = {  # how statements are sent, connections; and what is wanted, in times of plain
    "prepared, 1 connection": ("prepared", 1, 5.0),
    "prepared, 8 connections": ("prepared", 8, 1.1),
    "simple, 1 connection": ("simple", 1, 2.0),
    "simple, 8 connections": ("simple", 8, 1.0),
}
CALLS = """\
import sys, time
host, port, folder = sys.argv[1:]
{begin}
end = time.perf_counter() + 1.5
count = 0
while time.perf_counter() < end:
    for _ in range(20):
        {call}
    count += 20
print(count / 1.5)
"""
CLIENTS = {  # of Python: which module, what is run once and in turns; and what is wanted, in times of plain
    "psycopg2, SELECT 1": (
        "psycopg2",
        "import psycopg2\n"
        "cursor = psycopg2.connect(host=host or folder, port=port, dbname='postgres', user='postgres').cursor()",
        "cursor.execute('select 1'); assert cursor.fetchone() == (1,)",
        2.0,
    ),
    "pg8000, SELECT 1": (
        "pg8000",
        "import pg8000\n"
        "place = dict(host=host, port=int(port)) if host else dict(unix_sock=f'{folder}/.s.PGSQL.{port}')\n"
        "cursor = pg8000.connect(user='postgres', database='postgres', **place).cursor()",
        "cursor.execute('select 1'); assert list(cursor.fetchone()) == [1]",
        2.0,
    ),
}
CACHE = (
    "pymemcache",
    "from pymemcache.client.base import Client\n"
    "one = Client((host, int(port)) if host else f'{folder}/{port}')\n"
    "one.set('key', b'x' * 100, noreply=False)",
    "assert one.get('key') == b'x' * 100",
    5.0,
)


def a_free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


def as_its_user() -> list[str]:
    """PostgreSQL refuses to run as root, and both ends must be the same user."""
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if getpass.getuser() == "root" else []


def postgres(name: str) -> str | None:
    """A program of PostgreSQL's; Debian has them in a folder a version."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
    return found[-1] if found else shutil.which(name)


@contextmanager
def database(folder: str, prefix: list[str]) -> Iterator[str]:
    """PostgreSQL with pgbench's tables; gives its port."""
    port, home = a_free_port(), tempfile.mkdtemp(dir=folder)
    if getpass.getuser() == "root":
        shutil.chown(home, USER)
    data = os.path.join(home, "data")
    user = as_its_user()
    words = [*user, postgres("initdb") or "", "-D", data, "-A", "trust", "-U", "postgres"]
    subprocess.run(words, check=True, capture_output=True, cwd="/")
    words = [*user, *prefix, postgres("postgres") or "", "-D", data, "-p", port, "-k", folder]
    process = subprocess.Popen([*words, "-c", "listen_addresses=127.0.0.1"], stderr=subprocess.DEVNULL, cwd="/")
    try:
        fill = [*user, postgres("pgbench") or "", "-h", folder, "-p", port, "-U", "postgres", "-i", "-q", "-s", "5"]
        fill += ["postgres"]
        while subprocess.run(fill, capture_output=True, cwd="/").returncode != 0:
            time.sleep(0.05)
        yield port
    finally:
        process.send_signal(2)  # SIGINT: a fast end
        process.wait()


@contextmanager
def cache(folder: str, prefix: list[str], unix: bool = False) -> Iterator[str]:
    """memcached; gives its port, which is also the name of its UNIX socket."""
    port = a_free_port()
    user = ["-u", "root"] if getpass.getuser() == "root" else []
    place = ["-s", os.path.join(folder, port)] if unix else ["-l", "127.0.0.1", "-p", port]
    process = subprocess.Popen([*prefix, "memcached", *place, *user])
    try:
        while True:
            try:
                if unix:
                    with socket.socket(socket.AF_UNIX) as one:
                        one.connect(os.path.join(folder, port))
                else:
                    socket.create_connection(("127.0.0.1", int(port))).close()
                break
            except (ConnectionRefusedError, FileNotFoundError):
                time.sleep(0.01)
        yield port
    finally:
        process.terminate()
        process.wait()


def transactions(prefix: list[str], host: str, port: str, mode: str, connections: int) -> float:
    words = [*as_its_user(), *prefix, postgres("pgbench") or "", "-h", host, "-p", port, "-U", "postgres"]
    words += ["-n", "-S", "-M", mode, "-c", str(connections), "-T", "2", "postgres"]
    told = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/").stdout
    found = re.search(r"tps = ([\d.]+)", told)
    assert found is not None, told
    return float(found[1])


def calls(prefix: list[str], user: list[str], client: tuple[str, str, str, float], place: list[str]) -> float:
    _module, begin, call, _wanted = client
    words = [*user, *prefix, SYSTEM, "-c", CALLS.format(begin=begin, call=call), *place]
    return float(subprocess.run(words, capture_output=True, text=True, check=True, cwd="/").stdout)


def has(module: str) -> bool:
    words = [SYSTEM, "-c", f"import {module}"]
    return os.path.exists(SYSTEM) and subprocess.run(words, capture_output=True).returncode == 0


class Loads(dict[str, tuple[Callable[[str], float], float]]):
    """By name: the rate of a way, and what is wanted in times of plain. `lacking` says why some are not there."""

    lacking: list[Result]

    def __init__(self) -> None:
        super().__init__()
        self.lacking = []

    def lacks(self, name: str, why: str) -> None:
        self.lacking.append(Result(name, None, "x", note=why))


def prefix_of(way: str) -> list[str]:
    return RUN if way == "fastsock" else []


def host_of(way: str) -> str:
    return "" if way == "UNIX socket" else "127.0.0.1"


def add_database(loads: Loads, stack: ExitStack, folder: str) -> None:
    if postgres("pgbench") is None or postgres("initdb") is None:
        return loads.lacks("PostgreSQL", "it is not installed")
    ports = {way: stack.enter_context(database(folder, prefix_of(way))) for way in WAYS[:2]}
    ports["UNIX socket"] = ports["plain"]
    for name, (mode, connections, wanted) in PGBENCH.items():

        def rate(way: str, mode: str = mode, connections: int = connections) -> float:
            return transactions(prefix_of(way), host_of(way) or folder, ports[way], mode, connections)

        loads[f"pgbench -S, {name}"] = rate, wanted
    for name, client in CLIENTS.items():
        if not has(client[0]):
            loads.lacks(name, f"{SYSTEM} has no {client[0]}")
            continue

        def call(way: str, client: tuple[str, str, str, float] = client) -> float:
            return calls(prefix_of(way), as_its_user(), client, [host_of(way), ports[way], folder])

        loads[name] = call, client[3]
    return None


def add_cache(loads: Loads, stack: ExitStack, folder: str) -> None:
    name = "memcached and pymemcache, get"
    if shutil.which("memcached") is None or not has(CACHE[0]):
        return loads.lacks(name, "memcached or pymemcache is not installed")
    ports = {way: stack.enter_context(cache(folder, prefix_of(way), way == "UNIX socket")) for way in WAYS}
    loads[name] = (lambda way: calls(prefix_of(way), [], CACHE, [host_of(way), ports[way], folder])), CACHE[3]
    return None


def measure(options: Options) -> list[Result]:
    loads = Loads()
    rates: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.chmod(folder, 0o777)
        add_database(loads, stack, folder)
        add_cache(loads, stack, folder)
        for _ in range(options.times(3, 5)):
            for load, (rate, _wanted) in loads.items():
                for way in WAYS:
                    rates.setdefault((load, way), []).append(rate(way))
    found = [compared(load, {way: rates[load, way] for way in WAYS}, wanted) for load, (_rate, wanted) in loads.items()]
    return [*loads.lacking, *found]


if __name__ == "__main__":
    question.run(measure, __doc__)
