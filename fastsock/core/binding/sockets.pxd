# What is asked of the kernel about sockets and descriptors.
from .system cimport sockaddr, sockaddr_storage

cdef extern from "sockets/registrations.h" nogil:
    int fs_replace_watched(int source, int number, int flags)

cdef extern from "sockets/linger.h" nogil:
    int fs_linger(int descriptor)
    void fs_linger_rest()

cdef extern from "sockets/abstract.h" nogil:
    int fs_abstract_knock(const char *name, size_t length)
    int fs_abstract_listen(const char *name, size_t length)
    int fs_abstract_pair(const char *name, size_t length, int pair[2])
    int fs_abstract_accept(int listener)
    int fs_abstract_reach(const char *name, size_t length)
    int fs_abstract_peer(int stream, int *process, unsigned int *user)
    int fs_abstract_pass(int stream, int descriptor)
    int fs_abstract_passed(int stream)
    int fs_is_own_user(unsigned int user)
    int fs_abstract_told(int descriptor, unsigned long inode, int keep)
    unsigned int fs_abstract_forks()

cdef extern from "sockets/ports.h" nogil:
    enum: FS_ADDRESS_TEXT
    int fs_take_port(int descriptor, char ip[FS_ADDRESS_TEXT], int *port)

cdef extern from "sockets/accepted.h" nogil:
    int fs_put_address(sockaddr_storage *where, int family, const char *ip, int port)
    struct fs_acceptance:
        int state
        int is_signed
    int fs_accepted_sign(int descriptor, int has_sign)
    fs_acceptance fs_accepted(const sockaddr *connecting, const sockaddr *listening)
