"""The servers of the campaign: how each is started, which of its processes may die, and when it serves again."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .shared import Shared
from .talks import FILES, ROWS, body, value

DEADLINE = 60.0


def until(what: str, holds: Callable[[], bool]) -> None:
    """Asks again and again, where nobody tells."""
    end = time.monotonic() + DEADLINE
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"not within {DEADLINE:.0f} s: {what}")
        time.sleep(0.001)


def children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def words_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return ""


class Server:
    """One that is killed as a whole and started again."""

    needs: tuple[str, ...] = ()

    def __init__(self, folder: Path, port: int, environment: dict[str, str], user: int | None) -> None:
        self.folder, self.port, self.environment, self.user = folder, port, environment, user
        self.process: subprocess.Popen[bytes] | None = None
        self.prepare()

    def prepare(self) -> None:
        pass

    def command(self) -> list[str]:
        raise NotImplementedError

    def run(self, words: list[str]) -> subprocess.Popen[bytes]:
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(
                words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment, user=self.user,
                cwd=self.folder, start_new_session=True,
            )  # fmt: skip

    def start(self) -> None:
        self.process = self.run(self.command())
        until("the server serves", self.serves)

    def serves(self) -> bool:
        assert self.process is not None and self.process.poll() is None, "the server has ended"
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    def victims(self) -> list[int]:
        assert self.process is not None
        return [self.process.pid]

    def kill(self, pid: int) -> None:
        assert self.process is not None
        os.kill(pid, signal.SIGKILL)
        self.process.wait()
        until("nobody listens there", self._refuses)  # a child that was just forked may yet
        self.start()

    def _refuses(self) -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == errno.ECONNREFUSED

    def reload(self, shared: Shared) -> bool:
        """False if it knows no such thing."""
        return False

    def stop(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Redis(Server):
    needs = ("redis-server",)
    starts = 0

    def command(self) -> list[str]:
        where = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        return ["redis-server", *where, "--dbfilename", f"dump.{self.starts}"]

    def start(self) -> None:
        self.starts += 1  # the child of a killed one may save yet, and nobody shall load that
        super().start()


class Nginx(Server):
    needs = ("nginx",)
    _SETTINGS = """\
worker_processes 2; error_log {folder}/errors; pid {folder}/pid; daemon off; {user}
events {{ worker_connections 256; }}
http {{ access_log off; sendfile on; keepalive_requests 100000000; keepalive_timeout 3600s;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream self {{ server 127.0.0.1:{port} max_fails=0; keepalive 4; keepalive_requests 100000000; }}
  server {{ listen 127.0.0.1:{port}; root {folder}/files; add_header X-N $arg_n; add_header X-Pid $pid;
    location /via/ {{ proxy_pass http://self/; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_hide_header X-N; proxy_hide_header X-Pid; proxy_force_ranges off; }} }} }}
"""

    def prepare(self) -> None:
        (self.folder / "files").mkdir()
        for size in FILES:
            (self.folder / "files" / str(size)).write_bytes(value(size, size))
        user = "user root;" if os.geteuid() == 0 else ""
        (self.folder / "conf").write_text(self._SETTINGS.format(folder=self.folder, port=self.port, user=user))

    def command(self) -> list[str]:
        return ["nginx", "-e", str(self.folder / "errors"), "-c", str(self.folder / "conf")]

    def victims(self) -> list[int]:
        assert self.process is not None
        return [pid for pid in children(self.process.pid) if "worker process" in words_of(pid)]

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        until("the worker is gone", lambda: pid not in self.victims())
        until("there are two workers", lambda: len(self.victims()) >= 2)

    def reload(self, shared: Shared) -> bool:
        assert self.process is not None
        old = self.victims()
        shared.begin(reload=True)
        self.process.send_signal(signal.SIGHUP)
        until("there are new workers", lambda: len(set(self.victims()) - set(old)) >= 2)
        until("old ones end", lambda: all("shutting" in words_of(pid) for pid in set(self.victims()) & set(old)))
        shared.done()
        return True


class Mixed(Server):
    """Python's own, whose workers use the class and C code by turns (mixed.py)."""

    def command(self) -> list[str]:
        return [sys.executable, str(Path(__file__).with_name("mixed.py")), str(self.port)]

    def victims(self) -> list[int]:
        assert self.process is not None
        return children(self.process.pid)

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        until("the worker is gone", lambda: pid not in self.victims())
        until("there are two workers", lambda: len(self.victims()) >= 2)


class Postgres(Server):
    needs = ("postgres", "initdb", "psql")
    _OPTIONS = (
        "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "autovacuum=off", "max_connections=40",
        "shared_buffers=8MB", "max_wal_senders=0", "wal_level=minimal", "min_wal_size=32MB", "restart_after_crash=on",
    )  # fmt: skip

    def prepare(self) -> None:
        words = ["initdb", "-D", str(self.folder / "data"), "-U", "faults", "-A", "trust", "--no-sync"]
        assert self.run(words).wait() == 0, "initdb failed"
        self.start()
        rows = ",".join(f"({row}, '{body(row).decode()}')" for row in range(ROWS))
        text = f"""CREATE TABLE acknowledged (who bigint, n bigint); CREATE INDEX ON acknowledged (who, n);
            CREATE TABLE bodies (id int PRIMARY KEY, body text); INSERT INTO bodies VALUES {rows};"""
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "faults", "-d", "postgres", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(["psql", "-q", *where], input=text, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def command(self) -> list[str]:
        options = [word for option in self._OPTIONS for word in ("-c", option)]
        return ["postgres", "-D", str(self.folder / "data"), "-p", str(self.port), *options]

    def serves(self) -> bool:
        assert self.process is not None and self.process.poll() is None, "the server has ended"
        words = b"user\0faults\0database\0postgres\0\0"
        with socket.socket() as sock, suppress(OSError):
            sock.settimeout(DEADLINE)
            sock.connect(("127.0.0.1", self.port))
            sock.sendall(struct.pack("!II", len(words) + 8, 196_608) + words)
            return sock.recv(1) == b"R"
        return False

    def victims(self) -> list[int]:
        assert self.process is not None
        return [pid for pid in children(self.process.pid) if "127.0.0.1" in words_of(pid)]

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        until("the server knows of it", lambda: not os.path.exists(f"/proc/{pid}"))
        until("it has recovered", self.serves)

    def reload(self, shared: Shared) -> bool:
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)
        return True


SERVERS = {"redis": Redis, "nginx": Nginx, "postgres": Postgres, "mixed": Mixed}


def why_not(name: str) -> str | None:
    missing = [word for word in SERVERS[name].needs if shutil.which(word) is None]
    return f"{', '.join(missing)} is not installed" if missing else None
