# Part of _point_to_point: objects as messages.

cdef class Beside:
    """Takes the buffers of an object that are not copied into its pickle."""

    cdef list buffers

    def __call__(self, given):
        cdef Py_buffer view
        try:
            raw = given.raw()
        except BufferError:  # not in one piece
            return True
        if raw.nbytes < BESIDE_LEAST:
            return True
        if self.buffers is None:
            self.buffers = []
        self.buffers.append(raw)
        return False


cdef object object_of(payload):
    """The object of a message."""
    cdef Py_buffer view
    if get_buffer(payload, &view, PyBUF_SIMPLE) == 0:
        try:
            if is_plain(<char *>view.buf, view.len):
                return plain_object(<char *>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
    else:
        PyErr_Clear()
    return CODEC.load(payload)


cdef object message_of(object obj):
    """The message for an object, with no memory of the object in it."""
    cdef char[PLAIN_MOST] memory
    cdef Py_ssize_t length = plain_message(obj, memory)
    return PyBytes_FromStringAndSize(memory, length) if length else CODEC.message(obj)


cdef object start_object(self, object obj, int dest, int tag, int mode):
    """None where the arguments are not simple."""
    cdef Path path = self.ob.path
    cdef Started started
    if dest < 0 or dest >= path.count or tag < 0 or self._codec is not CODEC or not _pickle._standard:
        return None
    started = Started.__new__(Started)
    started.communicator, started.engine = path.record, path.engine
    started.take_buffers(message_of(obj), PyBUF_SIMPLE, FS_SENDING)
    try:
        path.engine.c_isend(started, path.peers[dest], tag, path.context, mode)
    except MessageError as error:
        raise path.record.failed(error) from error
    return handle_of(started)


cdef object exchange_objects(Path path, object obj, int dest, int sendtag, int source, int recvtag, status):
    cdef char[PLAIN_MOST] memory
    cdef Py_ssize_t length = plain_message(obj, memory)
    cdef StartedObject incoming = StartedObject.__new__(StartedObject)
    cdef fs_request *one = &incoming.request
    cdef Beside beside
    data = None
    if not length:
        beside = Beside.__new__(Beside)
        data = _dumps(obj, 5, buffer_callback=beside)
        if beside.buffers is not None:
            data = embedded(data, beside.buffers)
    incoming.communicator = path.record
    incoming.take_memory(path.engine, NULL, 0, NULL, FS_RECEIVING)
    incoming.request.allocates = 1
    try:
        path.engine.c_irecv(incoming, path.peer(source), recvtag, path.context)
        try:
            if length:
                path.engine.c_send(memory, length, path.peers[dest], sendtag, path.context, MODE)
            else:
                path.engine.send(data, path.peers[dest], sendtag, path.context, MODE)
            path.engine.c_wait_all(&one, 1)
        except:  # a receive that nobody waits for would take the next message
            incoming.cancel()
            raise
        if one.error != FS_FINE:
            raise path.engine.failure(one)
    except MessageError as error:
        raise path.record.failed(error) from error
    path.fill(status, source, &incoming.request.envelope)
    incoming.take()
    return incoming.result()
