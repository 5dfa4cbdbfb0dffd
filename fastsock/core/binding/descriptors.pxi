# What a descriptor is.
from posix.stat cimport S_IFMT, S_IFSOCK, fstat, struct_stat


def file_of(int descriptor):
    """The device and the inode of the file, and whether it has a type: what stands for a process has none. Raises OSError."""
    cdef struct_stat status
    checked(-last_error if fstat(descriptor, &status) != 0 else 0)
    return status.st_dev, status.st_ino, (status.st_mode & S_IFMT) != 0


def is_file(int descriptor, unsigned long device, unsigned long inode):
    """Whether the descriptor is open, and its file has that device and inode."""
    cdef struct_stat status
    return fstat(descriptor, &status) == 0 and status.st_dev == device and status.st_ino == inode


def take_port(int descriptor):
    """Binds a TCP socket to a port, unless it has one; the address and the port that it has. Raises OSError."""
    cdef char ip[FS_ADDRESS_TEXT]
    cdef int port = 0
    checked(fs_take_port(descriptor, ip, &port))
    return (<bytes>ip).decode(), port
