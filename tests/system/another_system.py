"""A Python as another system has it: what that system lacks is taken away. test_other_systems.py puts it into a venv.

    import another_system; another_system.be("darwin")      a line of a .pth file, before any program

It is this machine's Python all the same. What another system has in place of Linux's (kqueue, IOCP) is not there.
"""

from __future__ import annotations

import _socket
import importlib
import os
import select
import sys
import time
import types

_MODULES = {
    "darwin": (),
    "win32": ("_posixshmem", "_posixsubprocess", "curses", "fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog",
              "termios", "tty"),
}  # fmt: skip
_POLLERS = {"darwin": ("epoll",), "win32": ("epoll", "poll")}
_CALLS = {
    "darwin": """copy_file_range eventfd eventfd_read eventfd_write memfd_create pidfd_open pipe2 posix_fadvise
        posix_fallocate sched_getaffinity sched_setaffinity getxattr setxattr listxattr removexattr splice setns unshare
        getresuid setresuid fdatasync""",
    "win32": """copy_file_range eventfd eventfd_read eventfd_write memfd_create pidfd_open pipe2 posix_fadvise
        posix_fallocate sched_getaffinity sched_setaffinity getxattr setxattr listxattr removexattr splice setns unshare
        getresuid setresuid fdatasync fork forkpty register_at_fork getuid geteuid getgid getegid setuid seteuid setgid
        setegid getgroups setgroups getpgid getpgrp setpgid getsid setsid getpriority setpriority pread preadv pwrite
        pwritev readv writev sendfile posix_spawn posix_spawnp POSIX_SPAWN_CLOSE POSIX_SPAWN_DUP2 POSIX_SPAWN_OPEN
        POSIX_SPAWN_CLOSEFROM uname chown fchown lchown chroot mkfifo mknod killpg nice wait wait3 wait4 waitid
        get_blocking set_blocking confstr sysconf pathconf fpathconf openpty ttyname tcgetpgrp ctermid getloadavg
        statvfs fstatvfs lockf sync sched_yield O_CLOEXEC O_NONBLOCK O_DIRECTORY O_NOFOLLOW O_PATH O_TMPFILE""",
}
_OF_SOCKETS = {
    "darwin": """AF_ALG AF_NETLINK AF_PACKET AF_TIPC AF_VSOCK MSG_CMSG_CLOEXEC MSG_ERRQUEUE MSG_MORE MSG_NOSIGNAL
        SCM_CREDENTIALS SOCK_CLOEXEC SOCK_NONBLOCK SO_BINDTODEVICE SO_DOMAIN SO_MARK SO_PASSCRED SO_PEERCRED SO_PROTOCOL
        TCP_CORK TCP_DEFER_ACCEPT TCP_INFO TCP_QUICKACK TCP_USER_TIMEOUT""",
    "win32": """AF_ALG AF_NETLINK AF_PACKET AF_TIPC AF_UNIX AF_VSOCK CMSG_LEN CMSG_SPACE MSG_CMSG_CLOEXEC MSG_DONTWAIT
        MSG_EOR MSG_MORE MSG_NOSIGNAL SCM_CREDENTIALS SCM_RIGHTS SOCK_CLOEXEC SOCK_NONBLOCK SO_BINDTODEVICE SO_DOMAIN
        SO_MARK SO_PASSCRED SO_PEERCRED SO_PROTOCOL SO_REUSEPORT TCP_CORK TCP_DEFER_ACCEPT TCP_INFO TCP_QUICKACK
        TCP_USER_TIMEOUT sethostname socketpair""",
}
# These ask for the system while they are imported, and then need modules that are not here.
_AS_THEY_ARE = "ctypes ctypes.util multiprocessing numpy pathlib platform shutil subprocess tempfile zipfile"


def be(system: str) -> None:
    """From now on this process runs on `system`, as far as a program can tell."""
    if sys.platform == system:  # a venv's files are read twice
        return
    if system == "win32":
        for name in _AS_THEY_ARE.split():
            importlib.import_module(name)
        sys.modules.pop("selectors", None)
        sys.modules.pop("socket", None)
        posix = sys.modules["posix"]
        lacking = set(_CALLS[system].split())
        nt = types.ModuleType("nt")
        nt.__dict__.update({name: value for name, value in vars(posix).items() if name not in lacking})
        sys.modules["nt"] = nt
        del time.clock_gettime
    else:
        _take(sys.modules["posix"], _CALLS[system])
    _take(os, _CALLS[system])
    _take(_socket, _OF_SOCKETS[system])
    _take(select, " ".join(_POLLERS[system]))
    for name in _MODULES[system]:
        sys.modules[name] = None
    sys.platform = system


def _take(module: types.ModuleType, names: str) -> None:
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
