# Part of _point_to_point: waiting for messages that were started natively. Where any of those that are asked about is not
# one of them, or has failed, the general way does all of it.

cdef enum:
    NOT_HERE = -1, NONE_ACTIVE = -2, NONE_DONE = -3


cdef inline Started going_on(Started started):
    """The same. A receive that ended since somebody failed goes on where that is acknowledged."""
    if started is not None and awaits_others(started):
        started.c_again()
    return started


cdef Started started_of(object handle, bint *is_here):
    """The message that a request waits for now; None where it waits for nothing."""
    kind = type(handle)
    if kind is not request_class and kind is not prequest_class:
        is_here[0] = False
        return None
    record = record_of(handle)
    if record is COMPLETE:
        return None
    if isinstance(record, Started):
        return going_on(<Started>record)
    if isinstance(record, Repeated):
        return going_on((<Repeated>record).current())
    if type(record) is Persistent:
        current = record.current
        if current is None or isinstance(current, Started):
            return going_on(<Started>current)
    is_here[0] = False
    return None


cdef object taken(object handle, Started started):
    """Takes the result of a message that is complete and went well; the object that arrived."""
    record = record_of(handle)
    if record is started:
        refer(handle, COMPLETE)
    elif isinstance(record, Repeated):
        (<Repeated>record).become(None)
    elif type(record) is Persistent:
        record.current = None
    started.take()
    return started.result() if type(started) is StartedObject else None


cdef Py_ssize_t first_done(list handles, list waiting) except -4:
    """The place of the first that is complete. `waiting` gets those before it that are not."""
    cdef Started started
    cdef Py_ssize_t place
    cdef bint active = False, is_here = True
    for place in range(len(handles)):
        started = started_of(handles[place], &is_here)
        if not is_here:
            return NOT_HERE
        if started is None:
            continue
        if fs_request_is_done(&started.request):
            return place if started.request.error == FS_FINE else NOT_HERE
        active = True
        if waiting is not None:
            waiting.append(started)
    return NONE_DONE if active else NONE_ACTIVE


cdef Engine engine_of(list waiting):
    """The engine of all of these; None where they have several."""
    cdef Engine engine = (<Started>waiting[0]).engine
    for started in waiting:
        if (<Started>started).engine is not engine:
            return None
    return engine


cdef Py_ssize_t test_for_one(list handles) except -4:
    """As first_done(), after a round of progress where none is."""
    cdef Engine engine
    cdef list waiting = []
    cdef Py_ssize_t place = first_done(handles, waiting)
    if place != NONE_DONE:
        return place
    engine = engine_of(waiting)
    if engine is None:
        return NOT_HERE
    if engine.c_progress():
        place = first_done(handles, None)
    if place == NONE_DONE:
        engine.c_give_way()
    return place


cdef Py_ssize_t wait_for_one(list handles) except -4:
    """As first_done(), once there is one."""
    cdef Engine engine
    cdef list waiting = []
    cdef Py_ssize_t place = first_done(handles, waiting)
    while place == NONE_DONE:
        engine = engine_of(waiting)
        if engine is None:
            return NOT_HERE
        wait_among(engine, waiting, False)
        waiting = []
        place = first_done(handles, waiting)
    return place


cdef int wait_among(Engine engine, list waiting, bint for_all) except -1:
    """Waits for one of these messages of one engine, or for all."""
    cdef fs_request *here[MANY]
    cdef fs_request **requests = here
    cdef Py_ssize_t i, count = len(waiting)
    if count > MANY:
        requests = <fs_request **>malloc(count * sizeof(fs_request *))
        if requests == NULL:
            raise MemoryError()
    try:
        for i in range(count):
            requests[i] = &(<Started>waiting[i]).request
        if for_all:
            engine.c_wait_all(requests, count)
        else:
            engine.c_wait_any(requests, count)
    finally:
        if requests != here:
            free(requests)
    return 0


cdef list listed(requests):
    """A list of its own of the requests; None where the general way is to read them."""
    return list(requests) if type(requests) is list or type(requests) is tuple else None


cdef list all_started(list handles, bint *is_here):
    """The messages that they wait for, of one engine, None for none."""
    cdef Engine engine = None
    cdef Started started
    cdef list found = []
    for handle in handles:
        started = started_of(handle, is_here)
        if started is not None:
            if engine is None:
                engine = started.engine
            elif started.engine is not engine:
                is_here[0] = False
        if not is_here[0]:
            return found
        found.append(started)
    return found


cdef list take_all(list handles, list found):
    """Takes the results; None where one has failed."""
    cdef Py_ssize_t place
    cdef list values = []
    for started in found:
        if started is not None and (<Started>started).request.error != FS_FINE:
            return None
    for place in range(len(handles)):
        started = found[place]
        values.append(None if started is None else taken(handles[place], <Started>started))
    return values


cdef list wait_for_all(requests, statuses):
    """The objects that arrived; None where the general way is to go on."""
    cdef bint is_here = True
    cdef list waiting, found, handles = listed(requests)
    if handles is None:
        return None
    found = all_started(handles, &is_here)
    if not is_here:
        return None
    waiting = [started for started in found if started is not None]
    if waiting:
        wait_among((<Started>waiting[0]).engine, waiting, True)
    return take_all(handles, found) if statuses is None else None


cdef object test_for_all(requests, statuses):
    """The objects that arrived; False where not all are complete; None where the general way is to do it."""
    cdef bint is_here = True
    cdef list found, handles = listed(requests)
    cdef Engine engine = None
    if handles is None:
        return None
    found = all_started(handles, &is_here)
    if not is_here:
        return None
    for started in found:
        if started is None or fs_request_is_done(&(<Started>started).request):
            continue
        if engine is None:
            engine = (<Started>started).engine
            engine.c_progress()
        if not fs_request_is_done(&(<Started>started).request):
            engine.c_give_way()
            return False
    return take_all(handles, found) if statuses is None else None


cdef list done_places(list handles, Py_ssize_t first):
    """Of all that are complete, from the first such one on; None where one has failed."""
    cdef Started started
    cdef bint is_here = True
    cdef Py_ssize_t place
    cdef list places = []
    for place in range(first, len(handles)):
        started = started_of(handles[place], &is_here)
        if not is_here:
            return None
        if started is not None and fs_request_is_done(&started.request):
            if started.request.error != FS_FINE:
                return None
            places.append(place)
    return places


cdef object some_of(requests, statuses, bint waits):
    """The places of those that are complete, and the objects that arrived; (None, None): none is active. None: the general
    way is to do it."""
    cdef list places, values, handles = listed(requests)
    cdef Py_ssize_t first
    if handles is None or statuses is not None:
        return None
    first = wait_for_one(handles) if waits else test_for_one(handles)
    if first == NONE_ACTIVE:
        return None, None
    if first == NONE_DONE:
        return [], []
    places = None if first == NOT_HERE else done_places(handles, first)
    if places is None:
        return None
    values = []
    for place in places:
        handle = handles[place]
        values.append(take_one(handle, None))
    return places, values


cdef object take_one(object handle, status):
    """Takes the result of a request that is complete and went well."""
    cdef bint is_here = True
    cdef Started started = started_of(handle, &is_here)
    if started is None:  # the same one stands in the list twice
        return None
    if status is not None:
        started.look(status)
    return taken(handle, started)


cdef object any_of(requests, status, bint waits):
    """The place of one that is complete, whether there is one or none is active, and the object that arrived. None: the
    general way is to do it."""
    cdef list handles = listed(requests)
    cdef Py_ssize_t place
    if handles is None:
        return None
    place = wait_for_one(handles) if waits else test_for_one(handles)
    if place == NOT_HERE:
        return None
    if place == NONE_DONE:
        return UNDEFINED, False, None
    if place == NONE_ACTIVE:
        fill_empty(status)
        return UNDEFINED, True, None
    return place, True, take_one(handles[place], status)


cdef Started done_one(object handle, bint waits, bint *done):
    """The message of one request, once it is complete and went well: None where the general way is to do it. Where it is
    not to wait, `done` tells whether it is complete."""
    cdef bint is_here = True
    cdef fs_request *one
    cdef Started started = started_of(handle, &is_here)
    done[0] = True
    if started is None:
        return None
    one = &started.request
    if waits:
        started.engine.c_wait_all(&one, 1)
    elif not fs_request_is_done(one):
        started.engine.c_progress()
        if not fs_request_is_done(one):
            started.engine.c_give_way()
            done[0] = False
            return None
    return started if one.error == FS_FINE else None


def start_all(requests):
    """Starts persistent requests, in this order."""
    for request in requests:
        record = record_of(request) if type(request) is prequest_class else None
        if not isinstance(record, Repeated):
            request.Start()
            continue
        try:
            (<Repeated>record).c_start()
        except MessageError as error:
            raise (<Repeated>record).path.record.failed(error) from error


class NativeRequest:
    """Waiting for messages that were started natively."""

    __slots__ = ()

    def Wait(self, status=None):
        """Wait until the operation is complete, and take its result: its error is raised. Returns True."""
        cdef bint done
        cdef Started started = done_one(self, True, &done)
        if started is None:
            return super().Wait(status)
        if status is not None:
            started.look(status)
        taken(self, started)
        return True

    def Test(self, status=None):
        """Return whether the operation is complete. If it is, its result is taken as `Wait` does."""
        cdef bint done
        cdef Started started = done_one(self, False, &done)
        if started is None:
            return super().Test(status) if done else False
        if status is not None:
            started.look(status)
        taken(self, started)
        return True

    @classmethod
    def Waitany(cls, requests, status=None):
        """Wait until one operation is complete; return its index, or UNDEFINED where none is active."""
        found = any_of(requests, status, True)
        return super().Waitany(requests, status) if found is None else found[0]

    @classmethod
    def Testany(cls, requests, status=None):
        """Return the index of a complete operation, and True; (UNDEFINED, True) where none is active."""
        found = any_of(requests, status, False)
        return super().Testany(requests, status) if found is None else found[:2]

    @classmethod
    def Waitall(cls, requests, statuses=None):
        """Wait until all operations are complete. Returns True."""
        return super().Waitall(requests, statuses) if wait_for_all(requests, statuses) is None else True

    @classmethod
    def Testall(cls, requests, statuses=None):
        """Return whether all operations are complete. If they are, their results are taken as `Waitall` does."""
        found = test_for_all(requests, statuses)
        return super().Testall(requests, statuses) if found is None else found is not False

    @classmethod
    def Waitsome(cls, requests, statuses=None):
        """Wait until an operation is complete; return the indices of all that are, None where none is active."""
        found = some_of(requests, statuses, True)
        return super().Waitsome(requests, statuses) if found is None else found[0]

    @classmethod
    def Testsome(cls, requests, statuses=None):
        """Return the indices of the complete operations, or None where none is active."""
        found = some_of(requests, statuses, False)
        return super().Testsome(requests, statuses) if found is None else found[0]

    def wait(self, status=None):
        """Do what `Wait` does; return the object that arrived, None where the operation brings no object."""
        cdef bint done
        cdef Started started = done_one(self, True, &done)
        if started is None:
            return super().wait(status)
        if status is not None:
            started.look(status)
        return taken(self, started)

    def test(self, status=None):
        """Return whether the operation is complete, and the object that arrived (None: none)."""
        cdef bint done
        cdef Started started = done_one(self, False, &done)
        if started is None:
            return super().test(status) if done else (False, None)
        if status is not None:
            started.look(status)
        return True, taken(self, started)

    @classmethod
    def waitany(cls, requests, status=None):
        """Wait until one operation is complete; return its index and the object that arrived."""
        found = any_of(requests, status, True)
        return super().waitany(requests, status) if found is None else (found[0], found[2])

    @classmethod
    def testany(cls, requests, status=None):
        """Return what `Testany` does, and the object that arrived (None: none)."""
        found = any_of(requests, status, False)
        return super().testany(requests, status) if found is None else found

    @classmethod
    def waitall(cls, requests, statuses=None):
        """Wait until all operations are complete; return the objects that arrived."""
        found = wait_for_all(requests, statuses)
        return super().waitall(requests, statuses) if found is None else found

    @classmethod
    def testall(cls, requests, statuses=None):
        """Return whether all operations are complete, and if so the objects that arrived."""
        found = test_for_all(requests, statuses)
        if found is None:
            return super().testall(requests, statuses)
        return (False, None) if found is False else (True, found)

    @classmethod
    def waitsome(cls, requests, statuses=None):
        """Do what `Waitsome` does; return the indices and the objects that arrived."""
        found = some_of(requests, statuses, True)
        return super().waitsome(requests, statuses) if found is None else found

    @classmethod
    def testsome(cls, requests, statuses=None):
        """Do what `Testsome` does; return the indices and the objects that arrived."""
        found = some_of(requests, statuses, False)
        return super().testsome(requests, statuses) if found is None else found


class NativeMessage:
    """Receiving a matched message."""

    __slots__ = ()

    def Recv(self, buf, status=None):
        """Receive this message into memory. Raises MPI.Exception (ERR_REQUEST) where it was received already."""
        cdef Matched record
        cdef Span span
        cdef fs_request request
        if type(self.ob) is not Matched or not span_of(buf, &span, True):
            return super().Recv(buf, status)
        record = self.ob
        refer(self, self.null)
        try:
            prepare(&request, &span, FS_RECEIVING)
            record.matched.c_recv(&request)
        except MessageError as error:
            if status is not None:
                status.error = error_class(error)
            raise record.communicator.failed(error) from error
        finally:
            release_span(&span)
        if status is not None:
            record.communicator.fill(status, record.matched.envelope)

    def recv(self, status=None):
        """Return the object of this message. Raises MPI.Exception (ERR_REQUEST) where it was received already."""
        cdef Matched record
        if type(self.ob) is not Matched or self._codec is not CODEC:
            return super().recv(status)
        record = self.ob
        refer(self, self.null)
        request = record.matched.irecv_new()
        try:
            request.wait_or_cancel()
        except MessageError as error:
            raise record.communicator.failed(error) from error
        if status is not None:
            record.communicator.fill(status, record.matched.envelope)
        return object_of(request.payload)
