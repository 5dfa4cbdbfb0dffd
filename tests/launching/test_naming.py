"""Installed as `socket.socket` the class says that it is: programs and warning filters look for that name."""

from __future__ import annotations

import pytest

from ..helpers.comparing import Programs
from ..helpers.paths import carriers_of, maker_of
from ..helpers.scripts import Script

NAMES = """
import inspect, pickle, socket, sys, typing
kind = socket.socket
print(kind, kind.__module__, kind.__qualname__, kind.__doc__, typing.get_type_hints(kind))
print(pickle.dumps(kind, 0), pickle.loads(pickle.dumps(kind)) is kind, inspect.getmodule(kind))
for name in ("accept", "close", "detach", "dup", "makefile", "sendfile", "__init__", "__repr__"):
    function = getattr(kind, name)
    print(name, function.__module__, function.__qualname__, typing.get_type_hints(function))
    print(pickle.dumps(function, 0))
for name in ("connect", "recv", "send", "setsockopt", "listen", "fileno", "sendmsg"):
    print(name, bool(getattr(kind, name).__doc__))
class Sub(kind):
    pass
print(Sub, Sub(), issubclass(Sub, kind), isinstance(Sub(), kind), isinstance(Sub(), kind.__mro__[-2]))
print(socket.SocketType, socket.socket(socket.AF_UNIX), socket.socketpair()[0].__class__)
for wrong in (lambda: pickle.dumps(kind()), lambda: kind().missing):
    try:
        wrong()
    except Exception as error:
        print(type(error), error)
"""

UNCLOSED = """
        import socket, sys, warnings
        warnings.simplefilter("error")
        heard = []
        sys.unraisablehook = lambda unraisable: heard.append(str(unraisable.exc_value))
        listener = socket.create_server(("127.0.0.1", 0))
        tell(listener.getsockname())
        sock = listener.accept()[0]
        shown = repr(sock)
        del sock
        tell([shown, *heard])
        heard.clear()
        del listener
        tell(heard)
        warnings.filterwarnings("ignore", "unclosed <socket.socket", ResourceWarning)
        left = socket.socket()
        del left
        tell(heard[1:])
    """


@pytest.fixture
def programs(tmp_path):
    return Programs.inside_of(tmp_path)


def test_names_are_those_of_the_standard_class(programs):
    programs.write("names.py", NAMES)
    plain = programs.no_difference("names.py")
    assert plain.stderr.count("ResourceWarning") == 0


def test_the_name_of_an_unclosed_socket(kind):
    """In the warning that programs filter, on every path, and nothing else is told at the interpreter's end."""
    with Script(kind, UNCLOSED) as program:
        with maker_of(kind).connect(program.hear()) as sock:
            if kind != "plain":
                assert sock.transport in carriers_of(kind)
            shown, warned = program.hear()
        assert shown.startswith("<socket.socket fd=")
        assert warned == f"unclosed {shown}"
        [listener] = program.hear()
        assert listener.startswith("unclosed <socket.socket fd=")
        assert program.hear() == []
        assert program.finish() == 0
        assert program.process.stderr.read() == b""


SAYS = """
import fastsock, pickle, socket, sys
def says():
    kind = fast.socket
    return str(kind), kind.__doc__, kind.dup.__module__, kind.accept.__module__, kind.transport.fget.__module__
from fastsock import socket as fast
before = says()
own = fast.socket.__module__
assert own.startswith("fastsock.") and before[0] == f"<class '{own}.socket'>" and set(before[2:]) == {own}, before
assert pickle.loads(pickle.dumps(fast.socket)) is fast.socket
fastsock.install()
assert fast.socket is socket.socket
during = says()
assert during[0] == "<class 'socket.socket'>" and set(during[2:]) == {"socket"}, during
fastsock.uninstall()
assert says() == before
assert str(socket.socket) == "<class 'socket.socket'>"
print("done")
"""


def test_taken_away_it_has_its_own_name_again(programs):
    programs.write("says.py", SAYS)
    outcome = programs.run("says.py")
    assert outcome.stdout == "done\n", outcome.stderr


LEFT = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
connection = socket.create_connection(listener.getsockname())
sys.excepthook = lambda *error: print(listener, connection)  # keeps them beyond the modules
"""


def test_sockets_left_behind_say_nothing_at_the_end(programs):
    programs.write("left.py", LEFT)
    programs.no_difference("left.py")
