"""nginx and wrk, plain and under `fastsock run`: small files on connections that last, or do not; 1 MiB by sendfile."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median

from any_program import RUN
from common import question
from common.question import Options
from common.target import Result

CLOSE = 'wrk.headers["Connection"] = "close"\n'
LOADS = {  # path, connections, whether each ends with its request; and what is wanted, in times of plain
    "600 B, 1 connection": ("small", 1, False, 10.0),
    "600 B, 16 connections": ("small", 16, False, 2.5),
    "600 B, a connection a request, 16 at once": ("small", 16, True, 0.98),
    "1 MiB, 1 connection": ("large", 1, False, 2.2),
}
SETTINGS = """\
worker_processes 1; error_log {folder}/errors; pid {folder}/{port}.pid;
events {{ worker_connections 256; }}
http {{ access_log off; sendfile on; keepalive_requests 100000000;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; root {folder}; }} }}
"""


@contextmanager
def server(folder: str, prefix: list[str]) -> Iterator[str]:
    """nginx with one worker; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = os.path.join(folder, f"{port}.conf")
    with open(settings, "w") as file:
        file.write(("user root;\n" if os.geteuid() == 0 else "") + SETTINGS.format(folder=folder, port=port))
    process = subprocess.Popen([*prefix, "nginx", "-c", settings, "-g", "daemon off;"])
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait()


def rate(prefix: list[str], url: str, connections: int, script: list[str], seconds: int) -> float:
    """Requests a second."""
    words = [*prefix, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", *script, url]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    if "Socket errors" in told or "Non-2xx" in told:
        raise RuntimeError(f"wrk had errors: {told}")
    found = re.search(r"Requests/sec:\s+([\d.]+)", told)
    assert found is not None, told
    return float(found[1])


def measure(options: Options) -> list[Result]:
    if shutil.which("nginx") is None or shutil.which("wrk") is None:
        return [Result(f"nginx, {load}", None, "x", note="nginx or wrk is not installed") for load in LOADS]
    rates: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.chmod(folder, 0o755)
        for name, size in (("small", 600), ("large", 1 << 20)):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(os.urandom(size))
        script = os.path.join(folder, "close.lua")
        with open(script, "w") as lines:
            lines.write(CLOSE)
        where = {way: stack.enter_context(server(folder, prefix)) for way, prefix in (("plain", []), ("fastsock", RUN))}
        for _ in range(options.times(3, 5)):
            for load, (path, connections, ends, _wanted) in LOADS.items():
                for way, url in where.items():
                    one = rate(
                        RUN if way == "fastsock" else [], url + path, connections, ["-s", script] if ends else [], 2
                    )
                    rates.setdefault((load, way), []).append(one)
    results = []
    for load, (_path, _connections, _ends, wanted) in LOADS.items():
        plain, ours = median(rates[load, "plain"]), median(rates[load, "fastsock"])
        note = f"plain {plain / 1000:,.1f}k/s, fastsock {ours / 1000:,.1f}k/s"
        results.append(Result(f"nginx, {load}: the rate of plain TCP", ours / plain, "x", at_least=wanted, note=note))
    return results


if __name__ == "__main__":
    question.run(measure, __doc__)
