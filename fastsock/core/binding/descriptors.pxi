# What a descriptor is.
from libc.stdio cimport FILE, fclose, fgets, fopen, snprintf
from libc.string cimport strncmp
from posix.stat cimport S_IFMT, S_IFSOCK, fstat, struct_stat

cdef str REAPED = "-1"


def file_of(int descriptor):
    """The device and the inode of the file, and whether it has a type: what stands for a process has none. Raises OSError."""
    cdef struct_stat status
    checked(-last_error if fstat(descriptor, &status) != 0 else 0)
    return status.st_dev, status.st_ino, (status.st_mode & S_IFMT) != 0


def is_file(int descriptor, unsigned long device, unsigned long inode):
    """Whether the descriptor is open, and its file has that device and inode."""
    cdef struct_stat status
    return fstat(descriptor, &status) == 0 and status.st_dev == device and status.st_ino == inode


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
cdef class Hidden:
    """As system.hidden.Hidden."""

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
