# What is asked of the kernel about sockets and descriptors.
from .system cimport sockaddr_storage

cdef extern from "sockets/address.h" nogil:
    int fs_put_address(sockaddr_storage *where, int family, const char *ip, int port)

cdef extern from "sockets/registrations.h" nogil:
    int fs_replace_watched(int source, int number, int flags)

cdef extern from "sockets/abstract.h" nogil:
    int fs_abstract_pair(const char *name, size_t length, int pair[2])
    int fs_abstract_accept(int listener)
    int fs_abstract_reach(const char *name, size_t length)
    int fs_abstract_peer(int stream, int *process, unsigned int *user)
    int fs_is_own_user(unsigned int user)

cdef extern from "sockets/ports.h" nogil:
    enum: FS_ADDRESS_TEXT
    int fs_take_port(int descriptor, char ip[FS_ADDRESS_TEXT], int *port)
