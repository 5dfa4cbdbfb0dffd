# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""The data calls of a socket whose TCP stream may have memory, as `_socket` has them for any socket.

`SocketCalls` is a base of the socket class, before the standard one. A call looks its descriptor up in the core's table.
A TCP stream that is there goes by the core, which knows whether TCP or a ring carries the next byte. For any other
socket, UDP or UNIX, listening or not connected, the call is `_socket`'s own.

Arguments, results, errors, timeouts and signals are `_socket`'s (PEP 475). Methods are the interpreter's own kind
(binding=False), see _core.pyx. The class has no fields, so that it stands beside `_socket.socket` among the bases of one
class.
"""
from cpython.buffer cimport PyBuffer_Release
from cpython.long cimport PyLong_AsLong, PyLong_AsLongAndOverflow, PyLong_AsSsize_t
from cpython.number cimport PyNumber_Index
from libc.errno cimport EINPROGRESS, EMSGSIZE
from libc.limits cimport INT_MAX, INT_MIN

from ._buffers cimport Gather
from ._stream cimport (
    CLOSE_ON_EXEC, IOV_MAX, NO_SIGNAL, PEEK, Stream, WAIT_ALL, descriptor_of, fail, find, is_tcp_stream, raise_errno,
    receive_into, receive_new, send_bytes, send_parts, take_writable,
)
from ._table cimport before_connect, doors, enter, leave_number
from ._watching cimport ask_for
from .switch cimport (
    FS_ROLE_CONNECTED, fs_beside_pass, fs_carry_is_attached, fs_carry_receive_begins, fs_carry_receive_ended,
    fs_carry_send_begins, fs_carry_send_ended, fs_leave_release, fs_leave_shutdown, fs_option_get, fs_option_set,
    fs_options_bound, fs_table_find,
)

import _socket

cdef extern from "Python.h":
    bint PyLong_Check(object candidate) noexcept

cdef object plain_class = _socket.socket
cdef object plain_connect = _socket.socket.connect, plain_connect_ex = _socket.socket.connect_ex
cdef object close_number = _socket.close, plain_close = _socket.socket.close, plain_detach = _socket.socket.detach
cdef object plain_del = _socket.socket.__del__, plain_shutdown = _socket.socket.shutdown
cdef object plain_setsockopt = _socket.socket.setsockopt, plain_getsockopt = _socket.socket.getsockopt
cdef object plain_recv = _socket.socket.recv, plain_recv_into = _socket.socket.recv_into
cdef object plain_recvfrom = _socket.socket.recvfrom, plain_recvfrom_into = _socket.socket.recvfrom_into
cdef object plain_recvmsg = _socket.socket.recvmsg, plain_recvmsg_into = _socket.socket.recvmsg_into
cdef object plain_send = _socket.socket.send, plain_sendall = _socket.socket.sendall
cdef object plain_sendto = _socket.socket.sendto, plain_sendmsg = _socket.socket.sendmsg


# ---- arguments, as `_socket` reads them ----

cdef inline int as_int(object value) except? -1:
    cdef long number = PyLong_AsLong(value)
    if number > INT_MAX:
        raise OverflowError("signed integer is greater than maximum")
    if number < INT_MIN:
        raise OverflowError("signed integer is less than minimum")
    return <int>number


cdef inline Py_ssize_t as_size(object value) except? -1:
    return PyLong_AsSsize_t(value) if PyLong_Check(value) else PyLong_AsSsize_t(PyNumber_Index(value))


cdef list as_list(object buffers, str name):
    try:
        return list(buffers)
    except TypeError:
        raise TypeError(f"{name}() argument 1 must be an iterable") from None


cdef long TCP_LEVEL = _socket.IPPROTO_TCP, SOCKET_LEVEL = _socket.SOL_SOCKET
cdef long NO_DELAY = _socket.TCP_NODELAY, CORK = _socket.TCP_CORK, LOW_WATER = _socket.SO_RCVLOWAT
cdef long SEND_BUFFER = _socket.SO_SNDBUF, RECEIVE_BUFFER = _socket.SO_RCVBUF, LAST_ERROR = _socket.SO_ERROR


cdef long option_number(object value) except? -2:
    """-1: it names no option."""
    cdef int overflow = 0
    cdef long number = PyLong_AsLongAndOverflow(value, &overflow) if PyLong_Check(value) else -1
    return -1 if overflow else number


cdef bint is_kept(object level, object option) except -1:
    """Whether another value may hold underneath while memory is attached."""
    cdef long at = option_number(level), which = option_number(option)
    return at == TCP_LEVEL and which in (NO_DELAY, CORK) or at == SOCKET_LEVEL and which == LOW_WATER


cdef bint is_error(object level, object option) except -1:
    """Whether it is the option by which the kernel tells an error once, which it may have told a token's send."""
    return option_number(level) == SOCKET_LEVEL and option_number(option) == LAST_ERROR


cdef bint is_buffer(object level, object option) except -1:
    return option_number(level) == SOCKET_LEVEL and option_number(option) in (SEND_BUFFER, RECEIVE_BUFFER)


cdef object elsewhere = None


def also_serve(calls):
    """The data calls of sockets that have left TCP, as functions of that module. They have `_fast_connection`."""
    global elsewhere
    elsewhere = calls


cdef object other(object sock, str name, object plain):
    """The call of a socket whose stream the core does not have."""
    if elsewhere is None:
        return plain
    connection = getattr(sock, "_fast_connection", None)
    return plain if connection is None or connection.is_tcp else getattr(elsewhere, name)


cdef class SocketCalls:
    """The data calls of a socket. A class has it as a base before `socket.socket`."""

    def __cinit__(self):
        raise TypeError("SocketCalls is a base for classes of sockets")

    # ---- from connect() to close() ----

    def connect(self, address, /):
        """As socket.connect()."""
        before_connect()
        try:
            plain_connect(self, address)
        except BlockingIOError:
            enter(self, FS_ROLE_CONNECTED, address)
            raise
        enter(self, FS_ROLE_CONNECTED, address)

    def connect_ex(self, address, /):
        """As socket.connect_ex()."""
        before_connect()
        result = plain_connect_ex(self, address)
        if result == 0 or result == EINPROGRESS:
            enter(self, FS_ROLE_CONNECTED, address)
        return result

    def _real_close(self, _ss=_socket.socket):
        cdef int descriptor = descriptor_of(self)
        if fs_table_find(descriptor) != NULL:
            plain_detach(self)  # first: what another thread begins now must not go past the memory
            leave_number(descriptor)
            close_number(descriptor)
        if _ss is plain_class:
            plain_close(self)
        else:
            _ss.close(self)

    def __del__(self):
        cdef int descriptor
        if type(self) is SocketCalls:  # which was refused
            return
        descriptor = descriptor_of(self)
        if descriptor >= 0:  # what is closed has nothing more to do
            leave_number(descriptor)
            plain_del(self)

    def fileno(self):
        """As socket.fileno(). Whoever asks may poll the number, or use it by C code."""
        cdef int descriptor = descriptor_of(self)
        if doors:
            return descriptor
        if fs_table_find(descriptor) != NULL:
            ask_for(descriptor, True)
        elif descriptor >= 0 and is_tcp_stream(self):
            ask_for(descriptor, False)
        return descriptor

    def shutdown(self, how, /):
        """As socket.shutdown()."""
        cdef Stream stream
        cdef int half = as_int(how), result
        if not find(self, &stream, 0):
            plain_shutdown(self, how)
            return
        with nogil:
            result = fs_leave_shutdown(stream.connection, stream.descriptor, half)
        if result < 0:
            fail(&stream, result)

    def setsockopt(self, level, option, *value):
        """As socket.setsockopt()."""
        cdef Stream stream
        cdef int done
        if is_kept(level, option) and len(value) == 1 and type(value[0]) in (int, bool) and find(self, &stream, 0):
            if option == LOW_WATER and as_int(value[0]) > 1 and fs_carry_is_attached(stream.connection):
                with nogil:  # TCP alone waits for so many; where unread bytes are in the way, nobody does
                    fs_leave_release(stream.connection, stream.descriptor)
            done = fs_option_set(stream.connection, stream.descriptor, level, option, as_int(value[0]))
            if done < 0:
                fail(&stream, done)
            if done:
                return
        plain_setsockopt(self, level, option, *value)
        if is_buffer(level, option) and find(self, &stream, 0):
            with nogil:
                fs_options_bound(stream.connection, stream.descriptor)

    def getsockopt(self, level, option, *length):
        """As socket.getsockopt()."""
        cdef Stream stream
        cdef int value = 0, done
        if (is_kept(level, option) or is_error(level, option)) and not length and find(self, &stream, 0):
            done = fs_option_get(stream.connection, stream.descriptor, level, option, &value)
            if done < 0:
                fail(&stream, done)
            if done:
                return value
        return plain_getsockopt(self, level, option, *length)

    # ---- sending ----

    def send(self, data, flags=0, /):
        """As socket.send()."""
        cdef Stream stream
        cdef int number = as_int(flags)
        if not find(self, &stream, 0):
            return other(self, "send", plain_send)(self, data, flags)
        return send_bytes(&stream, data, number, False)

    def sendall(self, data, flags=0, /):
        """As socket.sendall()."""
        cdef Stream stream
        cdef int number = as_int(flags)
        if not find(self, &stream, 0):
            other(self, "sendall", plain_sendall)(self, data, flags)
            return
        send_bytes(&stream, data, number, True)

    def sendto(self, data, *rest):
        """As socket.sendto()."""
        cdef Stream stream
        cdef int number = as_int(rest[0]) if len(rest) == 2 else 0
        if not 1 <= len(rest) <= 2 or not find(self, &stream, 0):
            return other(self, "sendto", plain_sendto)(self, data, *rest)
        return send_bytes(&stream, data, number, False)  # a connected TCP stream ignores the address

    def sendmsg(self, buffers, ancdata=(), flags=0, address=None, /):
        """As socket.sendmsg()."""
        cdef Stream stream
        cdef Gather gather
        cdef int number = as_int(flags)
        if not find(self, &stream, 0):
            return other(self, "sendmsg", plain_sendmsg)(self, buffers, ancdata, flags, address)
        buffers = as_list(buffers, "sendmsg")
        if ancdata or address is not None:
            if fs_carry_send_begins(stream.connection, stream.descriptor, False, &stream.within) == 0:
                return send_as_it_is(self, &stream, buffers, ancdata, flags, address)
            # a TCP stream ignores them if they are well-formed, else it refuses them
            check_arguments(plain_sendmsg, ([], ancdata, number | NO_SIGNAL, address))
        if len(buffers) > IOV_MAX:
            raise_errno(EMSGSIZE)
        gather = Gather.__new__(Gather)
        gather.take(buffers)
        return send_parts(&stream, &gather.parts, number, False)

    # ---- receiving ----

    def recv(self, bufsize, flags=0, /):
        """As socket.recv()."""
        cdef Stream stream
        cdef Py_ssize_t size = as_size(bufsize)
        cdef int number = as_int(flags)
        if size < 0:
            raise ValueError("negative buffersize in recv")
        if not find(self, &stream, number):
            return other(self, "recv", plain_recv)(self, bufsize, flags)
        return receive_new(&stream, size, number)

    def recv_into(self, buffer, nbytes=0, flags=0):
        """As socket.recv_into()."""
        cdef Stream stream
        cdef Py_ssize_t size = as_size(nbytes)
        cdef int number = as_int(flags)
        if not find(self, &stream, number):
            return other(self, "recv_into", plain_recv_into)(self, buffer, nbytes, flags)
        return receive_into(&stream, buffer, size, number, "recv_into")

    def recvfrom(self, bufsize, flags=0, /):
        """As socket.recvfrom()."""
        cdef Stream stream
        cdef Py_ssize_t size = as_size(bufsize)
        cdef int number = as_int(flags)
        if size < 0:
            raise ValueError("negative buffersize in recvfrom")
        if not find(self, &stream, number):
            return other(self, "recvfrom", plain_recvfrom)(self, bufsize, flags)
        return receive_new(&stream, size, number), None

    def recvfrom_into(self, buffer, nbytes=0, flags=0):
        """As socket.recvfrom_into()."""
        cdef Stream stream
        cdef Py_ssize_t size = as_size(nbytes)
        cdef int number = as_int(flags)
        if not find(self, &stream, number):
            return other(self, "recvfrom_into", plain_recvfrom_into)(self, buffer, nbytes, flags)
        return receive_into(&stream, buffer, size, number, "recvfrom_into"), None

    def recvmsg(self, bufsize, ancbufsize=0, flags=0, /):
        """As socket.recvmsg()."""
        cdef Stream stream
        cdef Py_ssize_t size = as_size(bufsize)
        cdef int number = as_int(flags)
        if size < 0:
            raise ValueError("negative buffer size in recvmsg()")
        if not find(self, &stream, number):
            return other(self, "recvmsg", plain_recvmsg)(self, bufsize, ancbufsize, flags)
        if as_size(ancbufsize) != 0:
            if fs_carry_receive_begins(stream.connection, stream.descriptor, number & WAIT_ALL, &stream.within) == 0:
                received = receive_as_it_is(self, &stream, bufsize, ancbufsize, flags)
                if received is not None:
                    return received
            check_arguments(plain_recvmsg, (0, ancbufsize, number))
        return receive_new(&stream, size, number), [], number & CLOSE_ON_EXEC, None

    def recvmsg_into(self, buffers, ancbufsize=0, flags=0, /):
        """As socket.recvmsg_into()."""
        cdef Stream stream
        cdef Py_ssize_t taken = 0, count
        cdef int number = as_int(flags)
        if not find(self, &stream, number):
            return other(self, "recvmsg_into", plain_recvmsg_into)(self, buffers, ancbufsize, flags)
        buffers = as_list(buffers, "recvmsg_into")
        if as_size(ancbufsize) != 0 or not buffers:
            check_arguments(plain_recvmsg_into, (buffers, ancbufsize, number))
        if len(buffers) == 1:
            return receive_into(&stream, buffers[0], 0, number, "recvmsg_into"), [], number & CLOSE_ON_EXEC, None
        views = [writable(buffer) for buffer in buffers]
        # One receive, whose bytes are spread over the buffers: a second receive would wait.
        data = memoryview(receive_new(&stream, sum([len(view) for view in views]), number))
        for view in views:
            count = min(<Py_ssize_t>len(view), <Py_ssize_t>len(data) - taken)
            view[:count] = data[taken:taken + count]
            taken += count
        return taken, [], number & CLOSE_ON_EXEC, None


cdef object send_as_it_is(object sock, Stream *stream, list buffers, object ancdata, object flags, object address):
    """By `_socket`'s own call, after fs_carry_send_begins()."""
    cdef ssize_t moved = -1
    cdef int before = fs_beside_pass(stream.descriptor)
    try:
        moved = plain_sendmsg(sock, buffers, ancdata, flags, address)
    finally:
        fs_beside_pass(before)
        fs_carry_send_ended(stream.connection, stream.descriptor, stream.within, moved)
    return moved


cdef object receive_as_it_is(object sock, Stream *stream, object bufsize, object ancbufsize, object flags):
    """By `_socket`'s own call, after fs_carry_receive_begins(). None: nothing came but tokens."""
    cdef ssize_t moved = -1, payload = -1
    cdef int number = as_int(flags)
    cdef bint peeked = number & PEEK != 0
    cdef int before = fs_beside_pass(stream.descriptor)
    try:
        data, ancillary, kinds, address = plain_recvmsg(sock, bufsize, ancbufsize, flags)
        moved = len(data)
    finally:
        fs_beside_pass(before)
        payload = fs_carry_receive_ended(stream.connection, stream.descriptor, number & WAIT_ALL, stream.within, moved, peeked)
    if payload < 0:
        return None
    return data if payload == moved else data[:payload], ancillary, kinds, address


cdef object writable(object buffer):
    cdef Py_buffer view
    take_writable(buffer, &view, "recvmsg_into")
    PyBuffer_Release(&view)
    return memoryview(buffer).cast("B")


cdef int check_arguments(object call, tuple arguments) except -1:
    """Raises the error that `call` of the standard class raises for malformed arguments. Moves no byte."""
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        probe.setblocking(False)
        call(probe, *arguments)
    except OSError:
        pass  # well-formed: only the probe is not connected
    finally:
        probe.close()
    return 0
