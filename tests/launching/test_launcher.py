"""A program under the launcher behaves as without it: every test here compares the two."""

from __future__ import annotations

import marshal
import os
import signal
import subprocess
import sys
import venv
import zipfile
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest

from fastsock import launcher
from fastsock.launching.options import interpreter_options

from ..helpers.comparing import PACKAGE_PARENT, Programs, environment

SHOW = """\
import os, sys
print(sys.argv, sys.path, sys.flags)
for name in sorted(globals()):
    print(name, "=", globals()[name])
main = sys.modules["__main__"]
print(main.__dict__ is globals(), getattr(main.__spec__, "name", None), type(main.__loader__))
print("sitecustomize" in sys.modules, [entry for entry in sys.path_importer_cache if "_bootstrap" in entry])
print(sys.stdin.encoding, sys.stdin.errors, sys.stdout.encoding, sys.getfilesystemencoding(), os.getcwd())
print(sys.warnoptions, sys._xoptions, sys.executable, sys.prefix)
"""

BOTH = pytest.mark.parametrize("way", ["launched", "inside"])


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs.inside_of(tmp_path)


# What is run, and how the program sees itself


@BOTH
@pytest.mark.parametrize("name", ["show.py", "./show.py", "sub/../show.py", "sub/show.py", "no suffix"])
def test_script(programs: Programs, way: str, name: str) -> None:
    for written in ("show.py", "sub/show.py", "no suffix"):
        programs.write(written, SHOW)
    programs.no_difference(name, "a", "-m", "--stats", "", "b c", way=way)


@BOTH
def test_script_by_absolute_path(programs: Programs, way: str) -> None:
    programs.no_difference(str(programs.write("show.py", SHOW)), way=way)


@BOTH
def test_script_behind_a_link(programs: Programs, way: str) -> None:
    programs.write("real/show.py", SHOW)
    programs.write("real/helper.py", "")
    (programs.folder / "link.py").symlink_to("real/show.py")
    programs.no_difference("link.py", way=way)


@BOTH
def test_compiled_script(programs: Programs, way: str) -> None:
    code = compile(SHOW, "show.py", "exec", dont_inherit=True)
    (programs.folder / "show.pyc").write_bytes(MAGIC_NUMBER + b"\0" * 12 + marshal.dumps(code))
    programs.no_difference("show.pyc", "a", way=way)


@BOTH
@pytest.mark.parametrize("name", ["module", "package", "package.module", "package.sub"])
def test_module(programs: Programs, way: str, name: str) -> None:
    text = SHOW + "print(__package__)\n"
    programs.write("module.py", text)
    programs.write("package/__init__.py", "import sys; print('parent', sys.argv, sys.path[0])")
    programs.write("package/__main__.py", text + "from . import module")
    programs.write("package/module.py", text)
    programs.write("package/sub/__init__.py", "")
    programs.write("package/sub/__main__.py", text + "from .. import module")
    programs.no_difference("-m", name, "a", "-c", "b", way=way)
    programs.no_difference(f"-m{name}", "a", way=way)


@BOTH
@pytest.mark.parametrize("name", ["nothing", "package", "package.nothing", "broken.sub", "json.tool.x", "show.py"])
def test_module_that_cannot_run(programs: Programs, way: str, name: str) -> None:
    programs.write("package/__init__.py", "")
    programs.write("broken/__init__.py", "1/0")
    programs.write("show.py", SHOW)
    assert programs.no_difference("-m", name, way=way).returncode == 1


@BOTH
def test_directory(programs: Programs, way: str) -> None:
    programs.write("app/__main__.py", SHOW + "import helper; print(helper.__file__)")
    programs.write("app/helper.py", "")
    programs.no_difference("app", "a", way=way)
    programs.no_difference("./app/", "a", way=way)


@BOTH
def test_zip_file(programs: Programs, way: str) -> None:
    with zipfile.ZipFile(programs.folder / "app.zip", "w") as archive:
        archive.writestr("__main__.py", SHOW + "import helper; helper.fail()")
        archive.writestr("helper.py", "def fail(): raise ValueError('from the archive')")
    outcome = programs.no_difference("app.zip", "a", way=way)
    assert "from the archive" in outcome.stderr


@BOTH
def test_directory_without_main(programs: Programs, way: str) -> None:
    (programs.folder / "empty").mkdir()
    assert programs.no_difference("empty", way=way).returncode == 1


@BOTH
def test_missing_script(programs: Programs, way: str) -> None:
    assert programs.no_difference("nothing.py", way=way).returncode == 2


@BOTH
def test_code(programs: Programs, way: str) -> None:
    programs.no_difference("-c", SHOW, "a", "-m", way=way)
    programs.no_difference("-cimport sys; print(sys.argv)", "a", way=way)


@BOTH
def test_code_from_standard_input(programs: Programs, way: str) -> None:
    programs.no_difference("-", "a", "b", stdin=SHOW, way=way)


def test_code_reads_the_rest_of_standard_input(programs: Programs) -> None:
    programs.write("echo.py", "import sys; print(sys.stdin.read())")
    assert programs.no_difference("echo.py", stdin="one\ntwo\n").stdout == "one\ntwo\n\n"


@BOTH
def test_safe_path(programs: Programs, way: str) -> None:
    programs.write("show.py", SHOW)
    programs.write("app/__main__.py", SHOW)
    programs.variables["PYTHONSAFEPATH"] = "1"
    for program in (("show.py",), ("-c", SHOW), ("app",), ("-m", "json.tool", "--help")):
        programs.no_difference(*program, way=way)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="-P came with Python 3.11")
def test_safe_path_option(programs: Programs) -> None:
    programs.write("show.py", SHOW)
    for program in (("show.py",), ("-c", SHOW)):
        programs.no_difference(*program, options=("-P",))


# The interpreter


@pytest.mark.parametrize(
    "options",
    [
        ("-O",),
        ("-OO", "-B"),
        ("-W", "error", "-Wignore::UserWarning"),
        ("-X", "dev"),
        ("-Xutf8=1", "-X", "tracemalloc"),
        ("-bb", "-u", "-q"),
        ("-uW", "ignore"),
        ("-s", "-R"),
        ("--check-hash-based-pycs", "always"),
        ("-X", "warn_default_encoding"),
    ],
    ids=" ".join,
)
def test_options_of_the_interpreter(programs: Programs, options: tuple[str, ...]) -> None:
    programs.write("show.py", SHOW + "print(sys.orig_argv, __debug__, __doc__)")
    programs.no_difference("show.py", "a", options=options)
    programs.no_difference("-m", "show", options=options)


def test_joined_options_before_the_module(programs: Programs) -> None:
    programs.write("show.py", SHOW)
    plain = programs.run("-uOs", "show.py", "a")
    assert programs.run("-uOsm", "fastsock.launcher", "show.py", "a").normalised() == plain.normalised()
    assert programs.run("-uOs", "-mfastsock.launcher", "show.py", "a").normalised() == plain.normalised()


@pytest.mark.parametrize("changes", [{"LC_ALL": "C"}, {"LC_ALL": "", "LANG": "C"}, {"LC_ALL": "", "LC_CTYPE": "POSIX"}])
def test_locale(programs: Programs, changes: dict[str, str]) -> None:
    programs.variables.update(changes)
    programs.write("show.py", SHOW + "print(os.environ.get('LC_CTYPE'), os.environ.get('LC_ALL'))")
    programs.no_difference("show.py", "\udce4")


@pytest.mark.parametrize("options", [("-E",), ("-I",), ("-S",)], ids=" ".join)
def test_interpreter_that_ignores_the_environment(programs: Programs, options: tuple[str, ...]) -> None:
    """The launcher then runs the program in its own process."""
    path = programs.write(
        "show.py",
        "import socket, sys; print('fastsock.' * hasattr(socket.socket, 'transport')+'socket', sys.path[0], sys.argv)",
    )
    command = [sys.executable, *options, "-c", _START, str(path), "a"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
    first = repr(str(programs.folder)) if options != ("-I",) else ""
    assert done.stdout.startswith("fastsock.socket"), done.stderr
    assert first.strip("'") in done.stdout
    assert done.stdout.endswith(f"['{path}', 'a']\n")
    assert (done.returncode, done.stderr) == (0, "")


_START = f"""
import sys
sys.path.append({PACKAGE_PARENT!r})
from fastsock.launcher import main
main(sys.argv[1:])
"""


def test_interactive_after_the_program(programs: Programs) -> None:
    programs.write("app.py", "value = 42")
    outcome = programs.no_difference("app.py", options=("-i",), stdin="print(value, __name__)\n")
    assert outcome.stdout.startswith("42 __main__")


def test_interactive_after_an_error(programs: Programs) -> None:
    programs.write("app.py", "value = 42\n1/0")
    programs.variables["PYTHONINSPECT"] = "1"
    programs.no_difference("app.py", stdin="import sys; print(value, sys.last_type)\n")


def test_debugger(programs: Programs) -> None:
    programs.write("app.py", "value = 42\nbreakpoint()\nprint('on')\n")
    outcome = programs.no_difference("app.py", stdin="p value\nwhere\nc\n")
    assert "42" in outcome.stdout
    assert "on" in outcome.stdout


def test_program_under_the_debugger(programs: Programs) -> None:
    programs.write("app.py", "value = 42\nprint('on')\n")
    programs.no_difference("-m", "pdb", "app.py", stdin="n\nn\np value\nc\nq\n")


def test_profiler_that_runs_the_launcher(programs: Programs) -> None:
    programs.write(
        "app.py",
        "import socket\ndef visited(): print('fastsock.' * hasattr(socket.socket, 'transport')+'socket')\nvisited()\n",
    )
    outcome = programs.run("-m", "cProfile", "-m", "fastsock.launcher", "app.py")
    assert outcome.stdout.startswith("fastsock.socket")
    assert "app.py:2(visited)" in outcome.stdout


# How it ends


@BOTH
@pytest.mark.parametrize(
    "ending",
    [
        "sys.exit()",
        "sys.exit(None)",
        "sys.exit(3)",
        "sys.exit(-1)",
        "sys.exit(256 + 7)",
        "sys.exit('a message')",
        "sys.exit((1, 2))",
        "raise SystemExit(4)",
        "raise SystemExit",
        "os._exit(5)",
        "raise ValueError('unhandled')",
        "raise KeyboardInterrupt",
        "raise KeyboardInterrupt('with text')",
        "os.kill(os.getpid(), signal.SIGINT); signal.pause()",
        "os.kill(os.getpid(), signal.SIGTERM); signal.pause()",
        "os.kill(os.getpid(), signal.SIGKILL); signal.pause()",
        "os.abort()",
        "threading.Thread(target=sys.exit, args=(6,)).start()",
        "threading.Thread(target=lambda: 1 / 0).start()",
        "quit(7)",
        "raise BaseException('bare')",
        "raise ExceptionGroup('group', [ValueError(1), TypeError(2)])",
    ],
)
def test_ending(programs: Programs, way: str, ending: str) -> None:
    text = f"""\
import atexit, os, signal, sys, threading
atexit.register(print, "first registered")
atexit.register(print, "last registered")
threading._register_atexit(print, "threads")
signal.signal(signal.SIGABRT, signal.SIG_DFL)
def deep():
    {ending}
deep()
"""
    programs.write("app.py", text)
    programs.write("package/__init__.py", "")
    programs.write("package/__main__.py", text)
    programs.no_difference("app.py", way=way)
    programs.no_difference("-m", "package", way=way)


@BOTH
def test_signals_at_the_start(programs: Programs, way: str) -> None:
    text = "import signal\nfor number in sorted(signal.valid_signals()): print(number, signal.getsignal(number))"
    programs.write("app.py", text)
    programs.no_difference("app.py", way=way)


def test_ignored_interrupt_stays_ignored(programs: Programs) -> None:
    path = programs.write("app.py", "import signal; print(signal.getsignal(signal.SIGINT))")
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        command = [sys.executable, "-m", "fastsock.launcher", str(path)]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert "SIG_IGN" in done.stdout or done.stdout == "1\n"


TRACEBACKS = [
    "def f(:\n",
    "x = (1,\n",
    "\tx = 1\n  y = 2\n",
    "import nothing_of_this_name\n",
    "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('second') from error\n",
    "x = '\\udc80'\nraise ValueError(x)\n",
    "# coding: latin-1\nraise ValueError('\u00e4')\n",
    "exec(compile('1/0', 'other.py', 'exec'))\n",
    "import sys\nsys.excepthook = lambda *a: print('own hook', a[0], a[2].tb_frame.f_code.co_filename)\n1/0\n",
    "import sys\nsys.tracebacklimit = 0\n1/0\n",
]


@BOTH
@pytest.mark.parametrize("text", TRACEBACKS)
def test_traceback(programs: Programs, way: str, text: str) -> None:
    programs.write("app.py", text)
    programs.no_difference("app.py", way=way)


@pytest.mark.parametrize(
    "text",
    [
        "def f(n): f(n + 1)\nf(0)\n",
        "import sys\ntry:\n    1/0\nfinally:\n    print(sys.exc_info()[2].tb_frame.f_back)\n",
        "import warnings\nwarnings.warn('up', stacklevel=2)\n",
    ],
)
def test_nothing_calls_the_first_frame(programs: Programs, text: str) -> None:
    programs.write("app.py", text)
    programs.no_difference("app.py")


def test_traceback_of_code(programs: Programs) -> None:
    programs.no_difference("-c", "def f():\n    1/0\nf()")
    programs.no_difference("-", stdin="def f():\n    1/0\nf()")


@BOTH
def test_warnings_name_the_program(programs: Programs, way: str) -> None:
    programs.write("helper.py", "import warnings\ndef warn(): warnings.warn('mind', UserWarning, stacklevel=2)\n")
    programs.write("app.py", "import helper\nhelper.warn()\nimport warnings\nwarnings.warn('own')\n")
    outcome = programs.no_difference("app.py", way=way)
    assert "app.py:2" in outcome.stderr


@BOTH
def test_pickled_main(programs: Programs, way: str) -> None:
    text = """\
import copyreg, pickle
class Thing:
    def __init__(self, value): self.value = value
    def __eq__(self, other): return self.value == other.value
data = pickle.dumps(Thing(42))
print(data, pickle.loads(data) == Thing(42), Thing.__module__, Thing.__qualname__)
import __main__
print(__main__.Thing is Thing, __main__)
"""
    programs.write("app.py", text)
    programs.no_difference("app.py", way=way)
    programs.no_difference("-m", "app", way=way)


@BOTH
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_multiprocessing(programs: Programs, way: str, method: str) -> None:
    text = """\
import multiprocessing, os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads
print("importing", __name__, __file__, getattr(__spec__, "name", None), flush=True)

class Thing:
    pass

def work(thing, queue):
    main = sys.modules["__main__"]
    queue.put((type(thing) is Thing, __name__, main.__name__, main.__file__, sys.argv, sys.path, sys.flags[:11]))
    raise ValueError("in the child")

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.Queue()
    process = context.Process(target=work, args=(Thing(), queue))
    process.start()
    print(queue.get())
    process.join()
    print(process.exitcode)
"""
    programs.write("app.py", text)
    programs.write("package/__init__.py", "")
    programs.write("package/module.py", text)
    programs.no_difference("app.py", method, way=way)
    programs.no_difference("-m", "package.module", method, way=way)


@BOTH
def test_process_pool(programs: Programs, way: str) -> None:
    text = """\
import concurrent.futures, multiprocessing
def square(n): return n * n
if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        print(list(pool.map(square, range(5))))
"""
    programs.write("app.py", text)
    programs.no_difference("app.py", way=way)


def test_the_process_is_the_same(programs: Programs) -> None:
    """A supervisor that started the launcher signals and waits for the program itself."""
    path = programs.write("app.py", "import os; print(os.getpid(), os.getppid())")
    command = [sys.executable, "-m", "fastsock.launcher", str(path)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        output, _ = process.communicate(timeout=60)
    assert output == f"{process.pid} {os.getpid()}\n"


_EARLY = """
import socket
def start():
    global taken
    taken = socket.socket
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("early.pth", "import early; early.start()"),
        pytest.param(
            "early.start", "early:start", marks=pytest.mark.skipif(sys.version_info < (3, 15), reason="new in 3.15")
        ),
    ],
)
def test_code_of_a_package_that_python_runs_at_its_start(programs: Programs, name: str, text: str) -> None:
    """It comes before the launcher's own: what it took is named, and everything else is fast."""
    folder = programs.folder / "environment"
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "early.py").write_text(_EARLY)
    (packages / name).write_text(text + "\n")
    program = "import early, socket; print(early.taken is socket.socket, hasattr(socket.socket, 'transport'))"
    done = programs.run("-m", "fastsock.launcher", "-c", program, python=str(folder / "bin" / "python"))
    assert done.stdout == "False True\n"
    assert "by: early.taken" in done.stderr


@pytest.mark.skipif(sys.version_info < (3, 15), reason="new in 3.15")
def test_lazy_imports(programs: Programs) -> None:
    text = """\
import socket, threading
listener = socket.create_server(("127.0.0.1", 0))
def serve():
    accepted = listener.accept()[0]
    accepted.sendall(accepted.recv(5))
thread = threading.Thread(target=serve)
thread.start()
with socket.create_connection(listener.getsockname()) as sock:
    sock.sendall(b"hello")
    print(sock.recv(5))
thread.join()
"""
    programs.write("app.py", text)
    programs.no_difference("app.py", options=("-X", "lazy_imports=all"))


# The launcher's own options


def test_installed(programs: Programs) -> None:
    programs.write("app.py", "import socket; print('fastsock.' * hasattr(socket.socket, 'transport')+'socket')")
    assert programs.run("app.py").stdout == "socket\n"
    assert programs.launched("app.py").stdout == "fastsock.socket\n"
    assert programs.inside("app.py").stdout == "fastsock.socket\n"


@pytest.mark.parametrize(
    ("arguments", "changes", "program"),
    [
        (["app.py", "--stats"], {}, ["app.py", "--stats"]),
        (["--stats", "app.py"], {"FASTSOCK_STATS": "-"}, ["app.py"]),
        (["--stats=-", "app.py"], {"FASTSOCK_STATS": "-"}, ["app.py"]),
        (["--stats=/s", "-m", "x"], {"FASTSOCK_STATS": "/s"}, ["-m", "x"]),
        (["--trace", "--", "-m", "x", "--"], {"FASTSOCK_TRACE": "1"}, ["-m", "x", "--"]),
        (["--transports", "^shm", "-"], {"FASTSOCK_TRANSPORTS": "^shm"}, ["-"]),
        (["--transports=tcp", "-c", "1"], {"FASTSOCK_TRANSPORTS": "tcp"}, ["-c", "1"]),
        (["--config=/c", "-mx"], {"FASTSOCK_CONFIG": "/c"}, ["-mx"]),
        (["--config", "/c", "a"], {"FASTSOCK_CONFIG": "/c"}, ["a"]),
        (["--help", "app.py"], {}, ["--help"]),
        (["-h"], {}, ["--help"]),
        (["--trace", "--version"], {}, ["--version"]),
    ],
)
def test_parse(arguments: list[str], changes: dict[str, str], program: list[str]) -> None:
    assert launcher.parse(arguments) == (changes, program)


def test_parse_makes_paths_absolute() -> None:
    changes, _ = launcher.parse(["--stats=s", "--config", "c", "app.py"])
    assert changes == {"FASTSOCK_STATS": os.path.abspath("s"), "FASTSOCK_CONFIG": os.path.abspath("c")}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "no program"),
        (["--stats"], "no program"),
        (["--"], "no program"),
        (["--nonsense", "app.py"], "--nonsense"),
        (["--trace=1", "app.py"], "--trace"),
        (["--transports"], "--transports needs a value"),
        (["-m"], "-m needs a value"),
        (["-c"], "-c needs a value"),
        (["-u", "app.py"], "options of Python stand before"),
    ],
)
def test_parse_refuses(arguments: list[str], text: str) -> None:
    with pytest.raises(launcher.UsageError, match=text):
        launcher.parse(arguments)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python", "-m", "x", "-m", "y"], ([], "x")),
        (["python", "-mx"], ([], "x")),
        (["python", "-um", "x"], (["-u"], "x")),
        (["python", "-uOmx", "a"], (["-uO"], "x")),
        (["python", "-W", "error", "-X", "dev", "-m", "x"], (["-W", "error", "-X", "dev"], "x")),
        (["python", "-Wm", "-uXm", "-m", "x"], (["-Wm", "-uXm"], "x")),
        (["python", "--check-hash-based-pycs", "never", "-m", "x"], (["--check-hash-based-pycs", "never"], "x")),
        (["python", "app.py", "-m", "x"], ([], None)),
        (["python", "-u", "-", "-m", "x"], (["-u"], None)),
        (["python", "-c", "1", "-m", "x"], ([], None)),
        (["python", "--", "-m", "x"], ([], None)),
        (["python"], ([], None)),
    ],
)
def test_interpreter_options(command: list[str], expected: tuple[list[str], str | None]) -> None:
    assert interpreter_options(command) == expected


def test_a_wrong_command_line_is_refused(programs: Programs) -> None:
    outcome = programs.launched("--nonsense", "app.py")
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert "there is no option --nonsense" in outcome.stderr
    assert "usage:" in outcome.stderr


def test_a_wrong_setting_is_refused_before_the_program_runs(programs: Programs) -> None:
    programs.write("app.py", "print('ran')")
    outcome = programs.launched("--transports", "nonsense", "app.py")
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert "'nonsense' is no path; write some of shm, rdma, rsockets, sdp, tcp," in outcome.stderr
    assert "Traceback" not in outcome.stderr
    outcome = programs.launched("--config", "missing.rules", "app.py")
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert str(programs.folder / "missing.rules") in outcome.stderr


def test_help_and_version(programs: Programs) -> None:
    assert programs.launched("--help").stdout == launcher.USAGE
    assert programs.launched("--version").stdout.startswith("fastsock ")


def test_options_reach_the_program(programs: Programs) -> None:
    programs.write("rules", "connect * * tcp\n")
    text = "import fastsock.config; s = fastsock.config.settings(); print(s.transports, s.rules, s.stats, s.trace)"
    programs.write("app.py", text)
    outcome = programs.launched("--transports=rdma,shm", "--config", "rules", "--stats=out", "app.py")
    assert "('rdma', 'shm', 'tcp')" in outcome.stdout
    assert "connect * * tcp" in outcome.stdout or "Rule(" in outcome.stdout
    assert str(programs.folder / "out") in outcome.stdout


@BOTH
def test_the_program_alone(programs: Programs, way: str) -> None:
    programs.write(
        "app.py",
        """
import os, socket, subprocess, sys
print(socket.socket.__module__, flush=True)
subprocess.run([sys.executable, "-c", "import socket, sys; print('fastsock' in sys.modules)"], check=True)
print([name for name in os.environ if name in ("FASTSOCK_INSTALL", "FASTSOCK_INTERPRETER", "FASTSOCK_CHILDREN")])
""",
    )
    run = getattr(programs, way)
    alone, all_of_them = run("--no-children", "app.py").stdout.splitlines(), run("app.py").stdout.splitlines()
    assert alone[0] == all_of_them[0]
    assert (alone[1:], all_of_them[1]) == (["False", "[]"], "True")
