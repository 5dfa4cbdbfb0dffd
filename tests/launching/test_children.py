"""Child Python processes: which are covered, and that nothing else about them changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from fastsock.launching import children

from ..helpers.comparing import PACKAGE_PARENT, Programs


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs.inside_of(tmp_path)


SHOW = "import socket; print('fastsock.' * hasattr(socket.socket, 'transport') + 'socket', flush=True)"

# The environment that a covered process has


def test_cover_and_uncover() -> None:
    for before in (
        {},
        {"PYTHONPATH": "a"},
        {"PYTHONPATH": f"a{os.pathsep}"},
        {"PYTHONPATH": f"{os.pathsep}a", "X": "y"},
    ):
        environ = dict(before)
        children.cover(environ)
        once = dict(environ)
        children.cover(environ)
        assert environ == once
        assert environ["FASTSOCK_INSTALL"] == "1"
        first, _, rest = environ["PYTHONPATH"].partition(os.pathsep)
        assert (first, rest) == (children.BOOTSTRAP, before.get("PYTHONPATH", ""))
        children.uncover(environ)
        children.uncover(environ)
        assert environ == before


def test_cover_moves_the_directory_to_the_front() -> None:
    environ = {"PYTHONPATH": os.pathsep.join(["a", children.BOOTSTRAP, "b"])}
    children.cover(environ)
    assert environ["PYTHONPATH"].split(os.pathsep) == [children.BOOTSTRAP, "a", "b"]


def test_an_empty_search_path_stays_empty() -> None:
    """A trailing separator would put the current directory on sys.path."""
    environ = {"PYTHONPATH": ""}
    children.cover(environ)
    assert environ["PYTHONPATH"] == children.BOOTSTRAP


def test_the_directory_holds_nothing_else() -> None:
    found = {path.name for path in Path(children.BOOTSTRAP).iterdir()} - {"__pycache__"}
    assert found == {"sitecustomize.py"}


# Ways to start a child

WAYS = {
    "subprocess": "subprocess.run(child, check=True)",
    "subprocess of a subprocess": "subprocess.run([*child[:2], f'import subprocess; subprocess.run({child!r})'])",
    "subprocess in a shell": "subprocess.run(shlex.join(child), shell=True, check=True)",
    "subprocess elsewhere": "subprocess.run(child, cwd='/', check=True)",
    "os.system": "os.system(shlex.join(child))",
    "os.popen": "print(os.popen(shlex.join(child)).read(), end='')",
    "os.execv": "os.execv(sys.executable, child)",
    "os.execlp": "os.execlp(sys.executable, *child)",
    "os.execve": "os.execve(sys.executable, child, os.environ)",
    "os.spawnv": "os.spawnv(os.P_WAIT, sys.executable, child)",
    "os.posix_spawn": "os.waitpid(os.posix_spawn(sys.executable, child, os.environ), 0)",
    "os.fork": "if not os.fork(): show(); os._exit(0)\nos.wait()",
    "asyncio": "asyncio.run(start())",
    "shebang": "subprocess.run(['./tool'], check=True)",
    "another program": "subprocess.run(['sh', '-c', shlex.join(child)], check=True)",
    "with more variables": "subprocess.run(child, env={**os.environ, 'X': 'y'}, check=True)",
}


@pytest.mark.parametrize("way", WAYS)
def test_child_is_covered(programs: Programs, way: str) -> None:
    tool = programs.write("tool", f"#!{sys.executable}\n{SHOW}\n")
    tool.chmod(0o755)
    programs.write(
        "app.py",
        f"""
import asyncio, os, shlex, subprocess, sys, warnings
warnings.simplefilter("ignore")
child = [sys.executable, "-c", {SHOW!r}]
def show():
    {SHOW}
async def start():
    await (await asyncio.create_subprocess_exec(*child)).wait()
{WAYS[way]}
""",
    )
    assert programs.run("app.py").stdout == "socket\n"
    assert programs.launched("app.py").stdout == "fastsock.socket\n"
    assert programs.inside("app.py").stdout == "fastsock.socket\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_multiprocessing_child_is_covered(programs: Programs, method: str) -> None:
    programs.write(
        "app.py",
        f"""
import multiprocessing, warnings
warnings.simplefilter("ignore")
def show():
    {SHOW}
def deeper():
    show()
    process = multiprocessing.get_context({method!r}).Process(target=show)
    process.start(); process.join()
if __name__ == "__main__":
    process = multiprocessing.get_context({method!r}).Process(target=deeper)
    process.start(); process.join()
""",
    )
    assert programs.run("app.py").stdout == "socket\n" * 2
    assert programs.launched("app.py").stdout == "fastsock.socket\n" * 2


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_child_that_ignores_the_environment_is_not(programs: Programs, option: str) -> None:
    programs.write("app.py", f"import subprocess, sys; subprocess.run([sys.executable, {option!r}, '-c', {SHOW!r}])")
    programs.no_difference("app.py")


@pytest.mark.parametrize("value", ["0", "no", "off", ""])
def test_child_that_is_told_not_to(programs: Programs, value: str) -> None:
    text = f"import os, subprocess, sys; os.environ['FASTSOCK_INSTALL'] = {value!r}"
    programs.write("app.py", f"{text}\nsubprocess.run([sys.executable, '-c', {SHOW!r}])")
    programs.no_difference("app.py")


def test_child_with_an_empty_environment_is_not(programs: Programs) -> None:
    programs.write("app.py", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SHOW!r}], env={{}})")
    programs.no_difference("app.py")


# What a child sees of it

SELF_PORTRAIT = """
import socket, sys
print(sys.path, sys.flags, sys.argv, "sitecustomize" in sys.modules, "usercustomize" in sys.modules)
print([name for name in sys.path_importer_cache if "_bootstrap" in name], sys.meta_path, sys.path_hooks)
print(sorted(vars()), sys.warnoptions)
"""


def test_child_looks_as_without_it(programs: Programs) -> None:
    programs.write("child.py", SELF_PORTRAIT)
    programs.write(
        "app.py",
        """
import subprocess, sys
for command in (["child.py", "a"], ["-m", "child"], ["-c", "import child"], ["-W", "error", "-O", "child.py"]):
    subprocess.run([sys.executable, *command], check=True)
""",
    )
    programs.no_difference("app.py")


def test_search_path_of_the_user_is_kept(programs: Programs) -> None:
    programs.write("library/mine.py", "print('mine')")
    programs.variables["PYTHONPATH"] = os.pathsep.join(["library", PACKAGE_PARENT, ""])
    programs.write("child.py", SELF_PORTRAIT + "import mine")
    programs.write("app.py", "import subprocess, sys; subprocess.run([sys.executable, 'child.py'], check=True)")
    programs.no_difference("app.py")
    programs.no_difference("child.py")


def test_package_that_only_the_launcher_s_directory_leads_to(programs: Programs) -> None:
    """As in a checkout that is not installed: the program's sys.path stays free of it."""
    text = SHOW + "; import sys, fastsock; print([p for p in sys.path if p in ('', sys.argv[1])], fastsock.__file__)"
    start = "import subprocess, sys; subprocess.run([sys.executable, '-c', "
    app = programs.write("app.py", f"{start} {text!r}, sys.argv[1]])")
    command = [sys.executable, "-m", "fastsock.launcher", str(app), PACKAGE_PARENT]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FASTSOCK"))}
    done = subprocess.run(command, cwd=PACKAGE_PARENT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout == f"fastsock.socket\n[''] {os.path.join(PACKAGE_PARENT, 'fastsock', '__init__.py')}\n"


# The user's own sitecustomize


def test_own_sitecustomize_runs_once(programs: Programs) -> None:
    programs.write("site/sitecustomize.py", "import sys\nprint('customised', __file__, len(sys.path))\nvalue = 42\n")
    programs.variables["PYTHONPATH"] = os.pathsep.join(["site", PACKAGE_PARENT])
    text = "import subprocess, sys, sitecustomize\nprint(sitecustomize.value, sitecustomize.__spec__)\n"
    programs.write("app.py", text + "subprocess.run([sys.executable, '-c', 'import sitecustomize as s; s.value'])")
    programs.variables["PYTHONUNBUFFERED"] = "1"
    plain = programs.run("app.py").normalised()
    assert plain.stdout.count("customised") == 2
    fast = programs.launched("app.py").normalised()
    # The launcher is a Python process of its own before it becomes the program.
    head, _, rest = fast.stdout.partition("\n")
    assert head.startswith("customised")
    assert (rest, fast.stderr) == (plain.stdout, plain.stderr)


@pytest.mark.parametrize(
    "text",
    [
        "raise ValueError('in it')",
        "raise ImportError('in it')",
        "import nothing_of_this_name",
        "import sys; sys.exit(3)",
        "def f(:",
        "import sitecustomize; print(sitecustomize.__file__)",
        "import sys; sys.modules['sitecustomize'] = 42",
        "import sys; del sys.modules['sitecustomize']",
        "import socket; socket.setdefaulttimeout(5)",
    ],
)
def test_own_sitecustomize_that_is_odd(programs: Programs, text: str) -> None:
    """Compared in a child, since the launcher's own process runs it as well."""
    programs.write("site/sitecustomize.py", f"import os\nif os.environ.get('ODD'):\n exec({text!r})\n")
    programs.variables["PYTHONPATH"] = os.pathsep.join(["site", PACKAGE_PARENT])
    programs.write(
        "app.py",
        """
import os, subprocess, sys
child = "import sys; print(sys.modules.get('sitecustomize'))"
done = subprocess.run([sys.executable, "-c", child], env={**os.environ, "ODD": "1"}, capture_output=True, text=True)
print(done.returncode, done.stdout)
beginnings = ("Error", "ValueError", "ImportError", "SystemExit")
print([line for line in done.stderr.splitlines() if line.startswith(beginnings)])
""",
    )
    programs.no_difference("app.py")


def test_own_usercustomize_still_runs(programs: Programs) -> None:
    programs.variables["PYTHONUSERBASE"] = str(programs.folder / "base")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    programs.write(f"base/lib/{version}/site-packages/usercustomize.py", "print('user')")
    programs.variables["PYTHONUNBUFFERED"] = "1"
    programs.write("app.py", f"import subprocess; subprocess.run([{sys.executable!r}, '-c', 'print(1)'])")
    plain, fast = programs.run("app.py"), programs.launched("app.py")
    own = plain.stdout.partition("\n")[0] + "\n" if plain.stdout.startswith("user") else ""
    assert fast.stdout == own + plain.stdout


# Children that have no use for it


def other_pythons() -> list[str]:
    """Interpreters of other versions on this machine, old ones included."""
    found = {}
    names = ["python2", "python2.7", *(f"python3.{minor}" for minor in range(6, 16)), "pypy3"]
    homes = sorted(Path.home().glob(".pyenv/versions/*/bin"))
    for path in [*(home / name for home in homes for name in names), *map(shutil.which, names)]:
        if path and os.access(path, os.X_OK):
            done = subprocess.run([path, "-c", "import sys; print(sys.version)"], capture_output=True, text=True)
            if done.returncode == 0 and done.stdout.strip() != sys.version:
                found.setdefault(done.stdout.split()[0], str(path))
    return list(found.values())


OLD_TEXT = (
    "import sys; print(sys.argv, [p for p in sys.path if '_bootstrap' in p], 'sitecustomize' in sys.modules); "
    "import socket; print('fastsock.' * hasattr(socket.socket, 'transport') + 'socket')"
)


@pytest.mark.parametrize("python", other_pythons() or [None])
@pytest.mark.parametrize("importable", [False, True])
def test_other_python(programs: Programs, python: str | None, importable: bool) -> None:
    """One in which fastsock is not importable, or whose version is too old, starts silently unpatched."""
    if python is None:
        pytest.skip("there is no other Python here")
    own = PACKAGE_PARENT if importable else "nowhere"
    text = f"""
import os, subprocess
entries = [entry for entry in os.environ["PYTHONPATH"].split(os.pathsep) if entry != {PACKAGE_PARENT!r}]
environment = {{**os.environ, "PYTHONPATH": os.pathsep.join([*entries, {own!r}])}}
done = subprocess.run([{python!r}, "-c", {OLD_TEXT!r}, "a"], env=environment, capture_output=True, text=True)
print(done.returncode, done.stdout, done.stderr)
"""
    programs.write("app.py", text)
    plain, fast = programs.run("app.py"), programs.launched("app.py")
    recent = subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 10))"]).returncode == 0
    if importable and recent:
        assert fast.stdout.replace("fastsock.socket", "socket") == plain.stdout
        assert "fastsock.socket" in fast.stdout
    else:
        assert fast == plain


def test_environment_without_fastsock(programs: Programs, tmp_path: Path) -> None:
    """The same Python in a virtual environment that has no fastsock."""
    venv.create(tmp_path / "other", with_pip=False, symlinks=True)
    python = str(tmp_path / "other" / "bin" / "python")
    programs.write(
        "app.py",
        f"""
import os, subprocess
kept = [entry for entry in os.environ["PYTHONPATH"].split(os.pathsep) if entry != {PACKAGE_PARENT!r}]
environment = {{**os.environ, "PYTHONPATH": os.pathsep.join(kept)}}
subprocess.run([{python!r}, "-c", {SHOW!r}], env=environment, check=True)
""",
    )
    programs.no_difference("app.py")
    programs.variables["FASTSOCK_TRACE"] = "1"
    assert "not installed in this process" in programs.launched("app.py").stderr


def test_a_failure_to_install_breaks_nothing(programs: Programs) -> None:
    programs.write("site/sitecustomize.py", "print('customised')")
    text = "import os, subprocess, sys; os.environ['FASTSOCK_TRANSPORTS'] = 'nonsense'\n"
    programs.write("app.py", text + f"subprocess.run([sys.executable, '-c', {SHOW!r}], check=True)")
    outcome = programs.launched("app.py")
    assert (outcome.returncode, outcome.stdout) == (0, "socket\n")
    [line] = outcome.stderr.splitlines()
    assert line.startswith("fastsock is not installed in this process: ConfigError: FASTSOCK_TRANSPORTS")
