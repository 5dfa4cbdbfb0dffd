"""Raw verbs beside the sockets: the programs of perftest, each run as a pair over the same device."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable

from .process import Broken, Unusable

SECONDS = 60.0


def runner(program: str, device: str, address: str, cores: tuple[int, int]) -> Callable[[int, int], float]:
    """Runs it for a size and a count: microseconds a round trip (``*_lat``), or gigabytes a second (``*_bw``).

    The ends meet by the connection manager, so soft iWARP has it too. Raises Unusable where it is not installed.
    """
    if shutil.which(program) is None:
        raise Unusable(f"{program} is not installed: apt-get install perftest")
    latency = program.endswith("_lat")

    def run(size: int, count: int) -> float:
        port = _free_port()
        words = [program, "-R", "-F", "-d", device, "-s", str(size), "-n", str(max(count, 5)), "-p", str(port)]
        words += [] if latency else ["--report_gbits"]
        server = subprocess.Popen(_on(cores[1], words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            said = _client(_on(cores[0], [*words, address]), server)
            server.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise Broken(f"{program} did not end within {SECONDS:g} s") from None
        finally:
            server.kill()
            server.communicate()
        return _value(program, said, size, latency)

    return run


def _client(words: list[str], server: subprocess.Popen[str]) -> str:
    """Tries until the server listens: perftest does not say when it does."""
    end = time.monotonic() + SECONDS
    while True:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode == 0:
            return done.stdout
        if server.poll() is not None or time.monotonic() > end:
            raise Broken(f"{words[3]}: {(done.stderr or done.stdout).strip()[-200:]}")
        time.sleep(0.05)


def _on(core: int, words: list[str]) -> list[str]:
    return ["taskset", "-c", str(core), *words]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _value(program: str, said: str, size: int, latency: bool) -> float:
    """The row of the size. Latency: #bytes #iterations min max typical ...; half a round trip. Else: peak, average."""
    for line in said.splitlines():
        words = line.split()
        if len(words) > 4 and words[0] == str(size):
            return 2 * float(words[4]) if latency else float(words[3]) / 8
    raise Broken(f"{program} printed no row for {size} bytes")
