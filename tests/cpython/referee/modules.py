"""Which of CPython's test modules are run, and which tests of each are left out."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, replace

from .interpreters import Interpreter

# The longest first, so that none of them is left to run alone at the end.
_WHOLE = (
    "test_imaplib",
    "test_socket",
    "test_ssl",
    "test_xmlrpc",
    "test_selectors",
    "test_poll",
    "test_ftplib",
    "test_poplib",
    "test_select",
    "test_epoll",
    "test_socketserver",
    "test_httplib",
    "test_httpservers",
    "test_urllib2_localnet",
    "test_smtplib",
    "test_wsgiref",
    "test_timeout",
)

# These ask for the network as a whole and use the loopback interface, apart from the two tests left out below.
_LOOPBACK = ("test_socketserver", "test_timeout")

_LEFT_OUT = {
    "test_timeout": ("*.TCPTimeoutTestCase.testConnectTimeout", "*.TCPTimeoutTestCase.testRecvTimeout"),
    # Hangs in a guest whose hypervisor has no loopback for this family, which is none of ours.
    "test_socket": ("*.ThreadedVSOCKSocketStreamTest.*",),
}

# Left out of the quick subset: modules of test_asyncio that open no TCP connection, ...
_QUICK_ASYNCIO = (
    "test_buffered_proto",
    "test_events",
    "test_sendfile",
    "test_server",
    "test_sock_lowlevel",
    "test_ssl",
    "test_streams",
)
# ... and tests that wait long for something that is no connection, or repeat what a sibling shows.
_QUICK_LEFT_OUT = (
    "*_imaplib.*timeout_test",
    "*_imaplib.NewIMAPSSLTests.test_ssl_*",
    "*_xmlrpc.MultiPathServerTestCase.*",
    "*_poll.PollTests.test_poll2",
    "*_selectors.*.test_select_interrupt_*",
    "*_selectors.SelectSelectorTestCase.*",
    "*_selectors.PollSelectorTestCase.*",
    "*_socket.*UDP*",
    "*_socket.*Can*",
    "*_socket.*SCTP*",
    "*_socket.*RDS*",
    "*_socket.Unicode*FileObject*",
    "*_socket.LineBuffered*",
    "*_timeout.UDPTimeoutTestCase.*",
    "*_ssl.ContextTests.*",
    "*_ssl.*test_pha_*",
    "*_ssl.*alpn*",
    "*_ssl.*idn*",
    "*_ssl.*sni*",
    "*_ssl.*ecdh*",
    "*_ssl.ThreadedTests.test_PROTOCOL_TLS",
    "*_ssl.ThreadedTests.test_protocol_*",
    "multiprocessing_by_*.TestWait.test_wait_*timeout*",
    "multiprocessing_by_*.TestWait.test_wait_integer",
    "multiprocessing_by_*TestPollEintr.*",
    "multiprocessing_by_forkserver.*",
    "multiprocessing_by_spawn.WithManager*",
    "multiprocessing_by_spawn.Test*",
    "*.test_asyncio.*slow*",
)

_START_METHODS = ("fork", "spawn", "forkserver")

# Of some 350 multiprocessing tests for each start method, those about connections and what is built on them.
# The rest are about locks, shared memory and queues, which hold no socket.
_MULTIPROCESSING = tuple(
    f"*.{name}.*"
    for name in (
        "With*TestConnection",
        "With*TestListener",
        "With*TestListenerClient",
        "With*TestPoll",
        "With*TestPollEintr",
        "With*TestPicklingConnections",
        "With*TestMyManager",
        "With*TestRemoteManager",
        "With*TestManagerRestart",
        "TestInvalidHandle",
        "OtherTest",
        "ChallengeResponseTest",
        "TestWait",
        "TestInvalidFamily",
        "TestTimeouts",
        "TestCloseFds",
        "TestIgnoreEINTR",
        "TestStdinBadfiledescriptor",
        "TestForkAwareThreadLock",
    )
)


@dataclass(frozen=True)
class Module:
    """A module to run: `only` and `leave_out` are globs over test ids, `resources` are enabled besides the usual."""

    name: str
    only: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()


def of(interpreter: Interpreter) -> list[Module]:
    """Every module that this interpreter has, test_asyncio one file at a time."""
    found = [
        Module(f"test.{name}", leave_out=_LEFT_OUT.get(name, ()), resources=("network",) if name in _LOOPBACK else ())
        for name in _WHOLE
        if name in interpreter.modules
    ]
    if "_test_multiprocessing" in interpreter.modules:
        found += [Module(f"multiprocessing_by_{method}", only=_MULTIPROCESSING) for method in _START_METHODS]
    found += [Module(f"test.test_asyncio.{name}") for name in interpreter.asyncio]
    return found


def quick(modules: list[Module]) -> list[Module]:
    """The subset for a change under way."""
    return [
        replace(module, leave_out=module.leave_out + _QUICK_LEFT_OUT)
        for module in modules
        if not module.name.startswith("test.test_asyncio.") or module.name.rpartition(".")[2] in _QUICK_ASYNCIO
    ]


def select(modules: list[Module], patterns: list[str]) -> list[Module]:
    """Those that a user named: `test_socket`, `test_asyncio`, `test_asyncio.test_events`, `multiprocessing*`."""

    def named(module: Module) -> bool:
        short = module.name.removeprefix("test.")
        return any(fnmatch.fnmatchcase(short, p) or short.startswith(p + ".") for p in patterns)

    return [module for module in modules if named(module)]
