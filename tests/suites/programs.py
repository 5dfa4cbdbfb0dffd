"""Runs test suites of programs in other languages plain and with the preloaded library, and compares test by test.

    python tests/suites/programs.py --fetch --suite libuv     clones the project at its pinned tag, and builds it
    python tests/suites/programs.py --suite libuv --details
    python tests/suites/programs.py --suite ltp --after 0 --match 'recv*'

Exit status: 0 the same results, 1 a test that passes plain does not with the library, 2 it could not run.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
# What fails within a test, where the test tells it by TAP, as redis' runtest does, as automake, or as pg_regress.
FAILED = re.compile(
    r"^(?:\s*not ok \d+(?: +-)? *(.*)|\[(?:err|exception)\]: (.*?)(?: in tests/.*)?|FAIL: (.*)"
    r"|(?:test)? +(\S+) +\.\.\. FAILED.*)$",
    re.M,
)
NOTHING = re.compile(r"^1\.\.0\b", re.M)  # a script of TAP that does not run here
COLOURS = re.compile(r"\x1b\[[\d;]*m")
KEPT = 6000  # characters of a failed test's output that --details shows


@dataclass(frozen=True)
class Test:
    """One process that is run for itself: `folder` is where, `environment` what it has beside the runner's own."""

    name: str
    words: tuple[str, ...]
    folder: Path
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Suite:
    """A project's tests.

    tag: the release that they are of; nothing: the newest state, where the project has no releases of them.
    build: commands of a shell, in the source's folder.
    tests: finds them there.
    known: tests that need not pass with the library, with the reason.
    limit: seconds that one test may take.
    skipped: the exit status of a test that does not run here.
    """

    repository: str
    tag: str
    build: tuple[str, ...]
    tests: Callable[[Path], Iterator[Test]]
    known: tuple[tuple[str, str], ...] = ()
    limit: float = 60
    skipped: int | None = None


def told(words: list[str], folder: Path) -> list[str]:
    return subprocess.run(words, cwd=folder, capture_output=True, text=True).stdout.split()


def of_libuv(source: Path) -> Iterator[Test]:
    words = ["env", "UV_RUN_AS_ROOT=1", "build/uv_run_tests", "--list"]
    listed = subprocess.run(words, cwd=source, capture_output=True, text=True).stdout
    for name in dict.fromkeys(re.findall(r"^(\w+)", listed, re.M)):  # behind a name come its helpers
        yield Test(name, ("build/uv_run_tests", name), source, (("UV_RUN_AS_ROOT", "1"),))


BACKENDS = {
    "epoll": (),
    "changelist": (("EVENT_EPOLL_USE_CHANGELIST", "yes"),),
    "poll": (("EVENT_NOEPOLL", "1"),),
    "select": (("EVENT_NOEPOLL", "1"), ("EVENT_NOPOLL", "1")),
}


# Each a program of its own: what it does when its peer ends, what it leaks, what it lets through in a second.
LIBEVENT_PROGRAMS = (
    ("test-changelist",), ("test-closed",), ("test-eof",), ("test-fdleak",), ("test-init",), ("test-weof",),
    ("test-ratelim", "-g", "30000", "-n", "30", "-t", "100", "--check-grouplimit", "1000", "--check-stddev", "100"),
    ("test-ratelim", "-c", "1000", "-n", "30", "-t", "100", "--check-connlimit", "50", "--check-stddev", "50"),
)  # fmt: skip


def of_libevent(source: Path) -> Iterator[Test]:
    """Its regression tests and programs by each backend, and the tests once more in its mode of checks."""
    folder = source / "build"
    listed = subprocess.run(["bin/regress", "--list-tests"], cwd=folder, capture_output=True, text=True).stdout
    tests = re.findall(r"^ *(\w+/\w+)( +\(Off)?", listed, re.M)
    ways = {**BACKENDS, "checks": (("EVENT_DEBUG_MODE", "1"),)}
    for way, environment in ways.items():
        for name, off in tests:
            chosen = f"+{name}" if off else name  # one that is off runs where its name says so
            yield Test(f"{way}/{name}", ("bin/regress", "--quiet", chosen), folder, environment)
    for backend, environment in BACKENDS.items():
        for program, *words in LIBEVENT_PROGRAMS:
            name = f"{backend}/{program}{words[0] if words else ''}"
            yield Test(name, (f"bin/{program}", *words), folder, environment)


LTP_FOLDERS = (
    "accept", "accept4", "bind", "close", "close_range", "connect", "dup", "dup2", "dup3", "epoll_create",
    "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_wait", "eventfd", "eventfd2", "execve", "execveat", "fcntl",
    "fork", "fstat", "getpeername", "getsockname", "getsockopt", "io_uring", "ioctl", "listen", "lseek", "pidfd_getfd",
    "pipe", "pipe2", "poll", "ppoll", "preadv", "preadv2", "pselect", "pwritev", "pwritev2", "read", "readv", "recv",
    "recvfrom", "recvmmsg", "recvmsg", "select", "send", "sendfile", "sendmmsg", "sendmsg", "sendto", "setsockopt",
    "shutdown", "signalfd", "signalfd4", "socket", "socketcall", "socketpair", "splice", "tee", "vfork", "vmsplice",
    "write", "writev",
)  # fmt: skip


def of_ltp(source: Path) -> Iterator[Test]:
    calls = source / "testcases" / "kernel" / "syscalls"
    folders = {str(path): path for name in LTP_FOLDERS for path in (calls / name).glob("*") if os.access(path, os.X_OK)}
    environment = (("PATH", f"{calls}/execve:{calls}/execveat:{os.environ['PATH']}"), ("LTPROOT", str(source)))
    # These race for a minute and more over what has nothing to do with sockets of TCP.
    slow = {"bind06", "fork13", "preadv203", "preadv203_64"}
    for line in (source / "runtest" / "syscalls").read_text().splitlines():
        words = line.split()
        for path in (calls / name / words[1] for name in LTP_FOLDERS if len(words) > 1):
            if str(path) in folders and words[0] not in slow:
                yield Test(words[0], (str(path), *words[2:]), path.parent, environment)


def of_memcached(source: Path) -> Iterator[Test]:
    for path in sorted((source / "t").glob("*.t")):
        yield Test(path.stem, ("perl", f"t/{path.name}"), source)
        yield Test(f"tls/{path.stem}", ("perl", f"t/{path.name}"), source, (("SSL_TEST", "1"),))
    yield Test("testapp", ("./testapp",), source)


def of_redis(source: Path) -> Iterator[Test]:
    for name in told(["./runtest", "--list-tests"], source):
        yield Test(name, ("./runtest", "--clients", "1", "--single", name), source)


def of_curl(source: Path) -> Iterator[Test]:
    """The tests of http, so many at a time: their servers take a second to start."""
    folder, script = source / "build" / "tests", "../../tests/runtests.pl"
    files = {int(path.name[4:]): path for path in (source / "tests" / "data").glob("test[0-9]*")}
    numbers = [str(n) for n in sorted(files) if re.search(r"^HTTP$", files[n].read_text(errors="replace"), re.M)]
    for first in range(0, len(numbers), 50):
        some = numbers[first : first + 50]
        yield Test(f"{some[0]}-{some[-1]}", ("perl", script, "-c", "../src/curl", "-n", "-a", "-am", *some), folder)


def of_postgres(source: Path) -> Iterator[Test]:
    """Its regression tests over TCP, those of sessions beside each other, its clients within servers, and libpq's."""
    begin = (str(HERE / "child" / "with_postgres.sh"), "sh", "-ec")
    regress, isolation = source / "src" / "test" / "regress", source / "src" / "test" / "isolation"
    words = '"$0" --bindir="$BIN" --host=127.0.0.1 --outputdir=. --dlpath="$1" --inputdir="$2"'
    program = str(regress / "pg_regress")
    at = ' --max-concurrent-tests=20 --schedule="$2/parallel_schedule"'
    yield Test("regress", (*begin, words + at, program, str(regress), str(regress)), source)
    at = ' --schedule="$2/isolation_schedule"'
    yield Test("isolation", (*begin, words + at, f"{isolation}/pg_isolation_regress", ".", str(isolation)), source)
    for name in ("dblink", "postgres_fdw"):
        at = f" --dbname=contrib_regression {name}"
        yield Test(name, (*begin, words + at, program, str(regress), str(source / "contrib" / name)), source)
    folder = source / "src" / "test" / "modules" / "libpq_pipeline"
    for name in told(["./libpq_pipeline", "tests"], folder):
        trace = f"traces/{name}.trace"
        words = f'"$0/libpq_pipeline" -r 700 -t trace {name} dbname=postgres'
        words += f' && diff "$0/{trace}" trace' if (folder / trace).exists() else ""
        yield Test(f"pipeline-{name}", (*begin, words, str(folder)), source)


def of_nginx(source: Path) -> Iterator[Test]:
    binary = os.environ.get("TEST_NGINX_BINARY", "/usr/sbin/nginx")
    environment = [("TEST_NGINX_BINARY", binary)]
    if os.getuid() == 0:  # else its workers are nobody's, and may not open what the test has made
        environment.append(("TEST_NGINX_GLOBALS", "user root;"))
    for path in sorted(source.glob("*.t")):
        yield Test(path.stem, ("perl", path.name), source, tuple(environment))


CMAKE = "cmake -S . -B build -DCMAKE_BUILD_TYPE=RelWithDebInfo"
SUITES = {
    "libuv": Suite(
        "https://github.com/libuv/libuv",
        "v1.52.1",
        (f"{CMAKE} -DBUILD_TESTING=ON", "cmake --build build"),
        of_libuv,
        skipped=7,
    ),
    "libevent": Suite(
        "https://github.com/libevent/libevent",
        "release-2.2.1-alpha",
        (f"{CMAKE} -DEVENT__DISABLE_MBEDTLS=ON -DEVENT__DISABLE_SAMPLES=ON", "cmake --build build"),
        of_libevent,
    ),
    "ltp": Suite(
        "https://github.com/linux-test-project/ltp",
        "20260529",
        (
            "make autotools && ./configure && make -C lib && make -C libs",
            *(f"make -C testcases/kernel/syscalls/{name}" for name in LTP_FOLDERS),
        ),
        of_ltp,
        known=(
            ("io_uring0*", "io_uring is refused: it would go past the doors"),
            ("select03", "ends by SIGSEGV for a set that lies where no memory is; plain it is EFAULT"),
            ("send02", "MSG_MORE: bytes in memory are there at once; TCP holds them back for up to 200 ms"),
        ),
        limit=20,
        skipped=32,
    ),
    "memcached": Suite(
        "https://github.com/memcached/memcached",
        "1.6.45",
        ("./autogen.sh && ./configure --disable-unix-socket --enable-tls && make",),
        of_memcached,
        limit=300,
    ),
    "redis": Suite("https://github.com/redis/redis", "7.0.15", ("make MALLOC=libc",), of_redis, limit=600),
    "curl": Suite(
        "https://github.com/curl/curl",
        "curl-8_21_0",
        (f"{CMAKE} -DCURL_USE_LIBPSL=OFF", "cmake --build build", "cmake --build build --target testdeps"),
        of_curl,
        limit=300,
    ),
    "postgres": Suite(
        "https://github.com/postgres/postgres",
        "REL_15_18",
        (
            "./configure --without-readline --without-zlib && make -C src/backend generated-headers",
            *(f"make -C src/{name}" for name in ("interfaces/libpq", "test/regress", "test/isolation")),
            "make -C src/test/modules/libpq_pipeline",
        ),
        of_postgres,
        limit=600,
    ),
    "nginx": Suite("https://github.com/nginx/nginx-tests", "", (), of_nginx, limit=120),
}


@dataclass
class Outcome:
    """How a test ended: the status, and which of its own tests failed."""

    status: int | str
    failed: frozenset[str]
    output: str
    ends: int = 0  # of connections that had memory
    seconds: float = 0
    skipped: bool = False  # it does not run here

    @property
    def passed(self) -> bool:
        return self.status == 0 and not self.failed


@dataclass
class Result:
    """A test's outcomes: `plain` once, and again if something failed; `ours` likewise."""

    test: str
    plain: list[Outcome] = field(default_factory=list)
    ours: list[Outcome] = field(default_factory=list)
    reason: str = ""

    @property
    def verdict(self) -> str:
        if self.ours[-1].passed:
            return "pass" if len(self.ours) == 1 else "flaky"
        expected = frozenset().union(*(outcome.failed for outcome in self.plain))
        if any(not outcome.passed for outcome in self.plain):
            news = min((outcome.failed - expected for outcome in self.ours), key=len)
            if not news:
                return "fails plain too"
        return "known" if self.reason else "regression"


def gained(report: Path) -> int:
    """How many ends had memory, by the lines of FASTSOCK_STATS."""
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    return sum(line["totals"]["shm"] for line in lines if "totals" in line)


def end_session(session: int) -> None:
    """Kills what a test has left: it may have made groups of processes of its own."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[3]) == session:
                os.kill(int(path.parent.name), signal.SIGKILL)


def play(suite: Suite, test: Test, after: str | None) -> Outcome:
    """One run, plain where `after` is None. What it leaves in its session is ended."""
    with tempfile.TemporaryDirectory(prefix="suites-", ignore_cleanup_errors=True) as folder:
        report = Path(folder, "report")
        report.touch()
        report.chmod(0o666)  # a test may go on as another user
        Path(folder).chmod(0o711)
        environment = {**os.environ, **dict(test.environment)}
        words = list(test.words)
        if after is not None:
            environment.update(FASTSOCK_UPGRADE_AFTER=after, PYTHONPATH=str(CHECKOUT))
            words = [sys.executable, "-m", "fastsock", "run", f"--stats={report}", *words]
        started = time.monotonic()
        with open(Path(folder, "output"), "w+b") as output:
            process = subprocess.Popen(
                words, cwd=test.folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
            status: int | str
            try:
                status = process.wait(suite.limit)
            except subprocess.TimeoutExpired:
                status = f"no end after {suite.limit:.0f} s"
            finally:
                end_session(process.pid)
                process.wait()
            output.seek(0)
            text = COLOURS.sub("", output.read().decode(errors="replace"))
        names = frozenset(next(filter(None, found.groups()), "") for found in FAILED.finditer(text))
        failed = frozenset(name for name in names if not re.search(r"# *(TODO|SKIP)", name, re.I))
        skipped = status == suite.skipped or (status == 0 and NOTHING.search(text) is not None)
        return Outcome(status, failed, text[-KEPT:], gained(report), time.monotonic() - started, skipped)


def compare(suite: Suite, test: Test, after: str, times: int, plain: Outcome) -> Result:
    reason = next((why for glob, why in suite.known if fnmatch.fnmatchcase(test.name, glob)), "")
    result = Result(test.name, [plain], [play(suite, test, after)], reason)
    while result.verdict == "regression" and len(result.ours) <= times:
        result.plain.append(play(suite, test, None))
        result.ours.append(play(suite, test, after))
    return result


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=SUITES, help="may be repeated (default: all)")
    parser.add_argument("--fetch", action="store_true", help="clone the projects and build their tests first")
    parser.add_argument("--sources", type=Path, default=HERE / ".programs", help="their place (default: %(default)s)")
    parser.add_argument(
        "--after",
        action="append",
        metavar="CALLS",
        help="as FASTSOCK_UPGRADE_AFTER; may be repeated (default: pays, then 0)",
    )
    parser.add_argument("--match", action="append", default=[], metavar="GLOB", help="only tests whose name matches")
    parser.add_argument("--part", default="1/1", metavar="N/M", help="the Nth of M parts of the tests")
    parser.add_argument("--times", type=int, default=3, help="how often a regression is run again on both sides")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add each test's outcomes, a line each")
    parser.add_argument("--details", action="store_true", help="print the end of the output of each regression")
    return parser.parse_args(argv)


def fetch(name: str, place: Path) -> None:
    suite = SUITES[name]
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        (place.parent / ".gitignore").write_text("*\n")
        tag = ["--branch", suite.tag] if suite.tag else []
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", *tag, suite.repository, str(place)], check=True)
    for command in suite.build:
        subprocess.run(command, shell=True, cwd=place, check=True, stdout=subprocess.DEVNULL)


def chosen(tests: list[Test], options: argparse.Namespace) -> list[Test]:
    part, parts = map(int, options.part.split("/"))
    globs = options.match or ["*"]
    return [test for test in tests if any(fnmatch.fnmatchcase(test.name, glob) for glob in globs)][part - 1 :: parts]


def run(name: str, options: argparse.Namespace) -> list[Result]:
    suite, place = SUITES[name], options.sources / name
    if options.fetch:
        fetch(name, place)
    tests = chosen(list(suite.tests(place)), options)
    if not tests:
        raise FileNotFoundError(f"{name}: no tests in {place}: run once with --fetch")
    plain = {test.name: play(suite, test, None) for test in tests}
    skipped = {name for name, outcome in plain.items() if outcome.skipped}
    failed = sum(not outcome.passed and not outcome.skipped for outcome in plain.values())
    print(f"{name} plain: {len(tests)} tests, {failed} fail, {len(skipped)} do not run here", flush=True)
    tests = [test for test in tests if test.name not in skipped]
    results = []
    for after in options.after or ["pays", "0"]:
        verdicts: dict[str, int] = {}
        ends = 0
        for test in tests:
            result = compare(suite, test, after, options.times, plain[test.name])
            results.append(result)
            ends += result.ours[-1].ends
            verdicts[result.verdict] = verdicts.get(result.verdict, 0) + 1
            if result.verdict in ("regression", "flaky"):
                last = next(outcome for outcome in reversed(result.ours) if not outcome.passed)
                what = f"{result.verdict.upper()} {name} {test.name} after {after}"
                print(f"{what}: {last.status} {sorted(last.failed)}", flush=True)
                if options.details and result.verdict == "regression":
                    print(last.output, flush=True)
            if options.json:
                line = {"suite": name, "test": test.name, "after": after, "verdict": result.verdict}
                shown = {
                    side: [[o.status, sorted(o.failed), round(o.seconds, 1)] for o in outcomes]
                    for side, outcomes in (("plain", result.plain), ("ours", result.ours))
                }
                with options.json.open("a") as lines:
                    print(json.dumps({**line, **shown, "ends": result.ours[-1].ends}), file=lines)
        counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
        print(f"{name} after {after}: {counts}; {ends} ends had memory", flush=True)
    return results


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    regressions = 0
    for name in options.suite or SUITES:
        try:
            results = run(name, options)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"programs.py: {error}", file=sys.stderr)
            return 2
        regressions += sum(result.verdict == "regression" for result in results)
    print(f"{regressions} regressions")
    return 1 if regressions else 0


if __name__ == "__main__":
    sys.exit(main())
