# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""What is asked of the kernel beside streams: what a descriptor is, ports, abstract names, the process that started this one."""
cimport cython
from libc.errno cimport ECONNREFUSED, errno as last_error
from libc.stdio cimport FILE, fclose, fgets, fopen, snprintf
from libc.string cimport strncmp
from posix.stat cimport S_IFMT, fstat, struct_stat
from posix.unistd cimport close as close_descriptor

from ._core cimport checked
from .sockets cimport (
    FS_ADDRESS_TEXT, fs_abstract_accept, fs_abstract_pair, fs_abstract_peer, fs_abstract_reach, fs_is_own_user,
    fs_replace_watched, fs_take_port,
)
from .system cimport O_CLOEXEC

cdef extern from "<sys/prctl.h>":
    int prctl(int option, unsigned long number)
    int PR_SET_PDEATHSIG

cdef extern from *:
    """
    #include <sys/syscall.h>
    #include <unistd.h>
    #ifndef SYS_pidfd_getfd
    #define SYS_pidfd_getfd 438 /* on every architecture */
    #endif
    static int fs_pidfd_getfd(int process, int number) { return (int)syscall(SYS_pidfd_getfd, process, number, 0u); }
    """
    int fs_pidfd_getfd(int process, int number)

cdef str REAPED = "-1"


# ---- descriptors ----

def file_of(int descriptor):
    """The device and the inode of the file, and whether it has a type: what stands for a process has none. Raises OSError."""
    cdef struct_stat status
    checked(-last_error if fstat(descriptor, &status) != 0 else 0)
    return status.st_dev, status.st_ino, (status.st_mode & S_IFMT) != 0


def is_file(int descriptor, unsigned long device, unsigned long inode):
    """Whether the descriptor is open, and its file has that device and inode."""
    cdef struct_stat status
    return fstat(descriptor, &status) == 0 and status.st_dev == device and status.st_ino == inode


def fetch_descriptor(int process, int number):
    """A copy of a descriptor of the process that `process` stands for. Raises OSError, where this process may not trace that
    one also."""
    cdef int fetched = fs_pidfd_getfd(process, number)
    return checked(-last_error if fetched < 0 else fetched)


cdef str process_of(int descriptor):
    """The process that a descriptor stands for, as the kernel tells it. Raises OSError."""
    cdef char path[48], line[128]
    cdef FILE *file
    found = ""
    snprintf(path, sizeof(path), b"/proc/self/fdinfo/%d", descriptor)
    file = fopen(path, b"re")
    if file == NULL:
        checked(-last_error)
    while fgets(line, sizeof(line), file) != NULL:
        if strncmp(line, b"Pid:", 4) == 0:
            found = (<bytes>line)[4:].decode().strip()
    fclose(file)
    return found


@cython.final
cdef class OwnedDescriptor:
    """As system.owned_descriptor.OwnedDescriptor."""

    def __cinit__(self, int number):
        cdef struct_stat status
        self.number = number
        checked(-last_error if fstat(number, &status) != 0 else 0)
        self.device, self.file = status.st_dev, status.st_ino
        # up to Linux 6.8 all of these share one inode, with others even
        self.process = "" if status.st_mode & S_IFMT else process_of(number)

    @property
    def inode(self):
        """The inode. Native code knows the descriptor by it."""
        return self.file

    cdef bint is_same(self) noexcept:
        cdef struct_stat status
        return fstat(self.number, &status) == 0 and status.st_dev == self.device and status.st_ino == self.file

    def is_ours(self):
        """Whether the number is still open on the same file, as far as device and inode tell."""
        return self.is_same()

    cpdef close(self):
        """Closes it, if it is still the same file. Idempotent."""
        cdef int number = self.number
        cdef bint ours = self.is_same()
        self.number = -1
        if not ours:
            return
        if self.process:
            try:
                process = process_of(number)
            except OSError:
                return
            if process != self.process and process != REAPED:
                return
        close_descriptor(number)


def take_port(int descriptor):
    """Binds a TCP socket to a port, unless it has one; the address and the port that it has. Raises OSError."""
    cdef char ip[FS_ADDRESS_TEXT]
    cdef int port = 0
    checked(fs_take_port(descriptor, ip, &port))
    return (<bytes>ip).decode(), port


def replace_watched(int source, int number, bint inheritable):
    """As os.dup2, and every epoll of this process that watches `number` watches it still. Raises OSError."""
    cdef int result
    with nogil:
        result = fs_replace_watched(source, number, 0 if inheritable else O_CLOEXEC)
    checked(result)


# ---- names in the abstract namespace, where two ends of a connection find each other ----

def abstract_pair(bytes name not None):
    """The descriptors of two connected streams, the first of which has the abstract name. Raises OSError."""
    cdef int pair[2]
    checked(fs_abstract_pair(name, len(name), pair))
    return pair[0], pair[1]


def abstract_accept(int listener):
    """The descriptor of a connection that waits there. Raises OSError: BlockingIOError for none."""
    return checked(fs_abstract_accept(listener))


def abstract_reach(bytes name not None):
    """The descriptor of a stream connected to the listener at the abstract name; -1 for no listener. Raises OSError."""
    cdef int stream = fs_abstract_reach(name, len(name))
    return -1 if stream == -ECONNREFUSED else checked(stream)


def abstract_is_own_user(unsigned int user):
    """Whether that user, as the kernel tells it, is surely this process's own: nobody without a number here is."""
    return fs_is_own_user(user) != 0


def abstract_peer(int stream):
    """Process and user at the other end of a connected UNIX stream. Raises OSError."""
    cdef int process = 0
    cdef unsigned int user = 0
    checked(fs_abstract_peer(stream, &process, &user))
    return process, user


# ---- this process and the one that started it ----

def end_with_parent(int number):
    """The kernel sends this process that signal when the thread that started it ends. Raises OSError."""
    if prctl(PR_SET_PDEATHSIG, <unsigned long>number) != 0:
        checked(-last_error)
