# cython: language_level=3, boundscheck=False, wraparound=True, freethreading_compatible=True
"""What is called here: the requests of the other end, their order, and their answers.

Requests of one thread of the other end run one after the other, those of different threads at once.
"""
from fastsock.rmi.codec._packing cimport Packer
from fastsock.rmi.codec._unpacking cimport Unpacker
from fastsock.rmi.wire._frames cimport BATCH, BEHALF, CALL, CHAIN, DEADLINE, FREE, HEADER_BYTES, KEYWORDS, ONEWAY, RESULT
from fastsock.rmi.wire._records cimport (
    Entry, context_of, enter_context, goes_on, leave_context, Rows, new_request, whole_number,
)

from collections import deque
from functools import partial

from fastsock.rmi.errors import BadFrame, LimitExceeded, LostPeer, RmiError, UnknownMethod, UnknownObject
from fastsock.rmi.interrupts import interrupted
from fastsock.rmi.wire import chains
from fastsock.rmi.wire._locks import Lock
from fastsock.rmi.wire._records import WAITS, current

THREADS = 255


cdef class Servant(Sender):
    """The end of a connection that is called."""

    def __init__(self, sock, carrier, session, packer, unpacker, peer, limit):
        Sender.__init__(self, sock, carrier, session, packer, unpacker, peer, limit)
        self.exports = {}
        self._current = current
        self._order = Lock()
        self._running = [None] * (THREADS + 1)  # by the caller's thread
        self._free = {}  # those for which later ones do not wait, by their number
        self._given_up = {}  # those that run though nobody waits for them any more

    cdef Request _request(self):
        """The request of the frame. None: it cannot be run, and its caller was told."""
        cdef unsigned int number
        cdef Request request
        cdef Entry exported
        cdef int flags = self._flags
        cdef Unpacker unpacker = self._unpacker
        cdef double deadline = 0.0
        cdef unsigned int behalf = 0
        keywords = None
        chain = None
        try:
            self._begin()
            if flags & DEADLINE:
                deadline = self._deadline_given(unpacker.unpack())
            if flags & BEHALF:
                behalf = self._behalf_given(unpacker.unpack())
            if flags & CHAIN:
                chain = unpacker.unpack()
                if not chains.is_chain(chain):
                    raise BadFrame(f"{self.peer}: a call on behalf of a chain that is none")
            arguments = unpacker.unpack()
            if flags & KEYWORDS:
                keywords = unpacker.unpack()
                if type(keywords) is not dict:
                    raise BadFrame(f"{self.peer}: the keyword arguments of a call are no dict")
            unpacker.end()
        except (BadFrame, LimitExceeded):
            raise
        except BaseException as error:
            if self.is_half_read(error):
                self._half_handled(error)
            unpacker.end()
            request = new_request(self, self._kind, flags, self._number, None, self._method, (), None, 0.0, 0)
            self._taken()
            self.session.refuse(request, error)
            return None
        if type(arguments) is not tuple:
            raise BadFrame(f"{self.peer}: the arguments of a call are no tuple")
        exported = self.exports.get(self._object)
        request = new_request(
            self, self._kind, flags, self._number, exported, self._method, arguments, keywords, deadline, behalf
        )
        number = self._object
        self._taken()
        if self.shown is not None:
            self.shown.called(len(arguments) // 4 if self._kind == BATCH else 1)
        if exported is None:
            missing = UnknownObject(f"{self.peer}: there is no object of number {number} on this connection")
            self.session.refuse(request, missing)
            return None
        if request.method >= exported.count:
            unknown = UnknownMethod(f"{self.peer}: {exported.name} has no method of number {request.method}")
            self.session.refuse(request, unknown)
            return None
        if chain is not None:
            request.chain = chain if exported.flags else chains.passed(chain, request)
        return request

    cdef double _deadline_given(self, object left) except? -1:
        """When the caller waits no more. 0: it waits for ever."""
        if type(left) is not float or left != left:
            raise BadFrame(f"{self.peer}: the time of a call is no number")
        return left + now() if left else 0.0

    cdef unsigned int _behalf_given(self, object number) except? 0:
        """The number of the call on whose behalf this one is made."""
        if not 0 <= whole_number(number) <= 0xFFFFFFFF:
            raise BadFrame(f"{self.peer}: a call on behalf of what is no call")
        return number

    cpdef bint is_half_read(self, object error) except -1:
        """Whether the frame cannot be gone on with: what was raised is no error of one of its values."""
        if not isinstance(error, Exception) or interrupted(error):
            return True
        return isinstance(error, MemoryError) and self._unpacker.is_broken

    cdef int _half_handled(self, object error) except -1:
        """Something was raised while a frame was handled, by a signal handler perhaps. Handled twice it could give an
        item, or let an object go, twice; left out it could leave a call without its answer. So the connection ends.

        Raises the error, which is that of the thread. Want of memory may be another thread's: then it is LostPeer.
        """
        if isinstance(error, RmiError) and not interrupted(error):
            self.fail(error)
            raise error
        text = f"{self.peer}: {type(error).__name__} was raised while a message was handled"
        self.fail(LostPeer(text))
        if isinstance(error, MemoryError):
            raise LostPeer(text) from error
        raise error

    cdef bint claim(self, Request request) except -1:
        """Whether it may run now. Else it is put behind the call of the same thread that runs."""
        cdef Request first
        cdef unsigned int key = request.number >> THREAD_SHIFT
        self._order.acquire()
        try:
            first = self._running[key]
            if first is not None:
                if first.behind is None:
                    first.behind = deque()
                first.behind.append(request)
                return False
            if request.flags & FREE:
                self._free[request.number] = request
            else:
                self._running[key] = request
            return True
        finally:
            self._order.release()

    cpdef object run_claimed(self, Request request):
        """Runs a request that was claimed, then those that were put behind it.

        Where one waits for its object they wait behind it, and this thread does not.
        """
        cdef Request following = request
        while following is not None:
            request = following
            if not request.cancelled or request.waits is not None:
                if request.exported.flags or request.kind == BATCH:
                    request.resume = self.run_claimed
                if not self.execute(request):
                    return
            if request.flags & FREE:
                self._free.pop(request.number, None)
                return
            following = self._following(request)

    cpdef object run_alone(self, Request request):
        """Runs a request for which no other one waits."""
        request.resume = self.run_alone
        self.execute(request)

    cpdef object make_way(self, Request request):
        """The method has returned, though its work goes on: the calls behind it need not wait for that."""
        cdef Request following = self._following(request)
        if following is not None:
            self.session.submit(self.run_claimed, following)

    cdef Request _following(self, Request request):
        """The next one of the thread whose request is done. None: there is none, or another thread runs it."""
        cdef Request following
        cdef unsigned int key = request.number >> THREAD_SHIFT
        self._order.acquire()
        try:
            if self._running[key] is not request:
                self._given_up.pop(request.number, None)
                return None  # those behind it have gone on already
            behind = request.behind
            request.behind = None
            while behind:
                following = behind.popleft()
                if following.flags & FREE:
                    self._free[following.number] = following
                    self.session.submit(self.run_claimed, following)
                    continue
                self._running[key] = following
                following.behind = behind
                return following
            self._running[key] = None
            return None
        finally:
            self._order.release()

    cpdef object cancel(self, unsigned int number):
        """The caller has given a call up: those behind it need not wait for it, and it does not begin any more."""
        cdef Request first, each
        cdef unsigned int key = number >> THREAD_SHIFT
        self._order.acquire()
        try:
            first = self._free.get(number)
            if first is not None:
                first.cancelled = True
                return
            first = self._running[key]
            if first is None:
                return
            behind = first.behind
            if first.number != number:
                for each in behind or ():
                    if each.number == number:
                        each.cancelled = True
                return
            first.cancelled = True
            first.behind = None
            self._running[key] = None
            self._given_up[number] = first
        finally:
            self._order.release()
        for each in behind or ():
            self.run_later(each)

    cpdef list under_way(self):
        """What runs for the other end, or waits for what runs."""
        known = [*self._running, *list(self._free.values()), *list(self._given_up.values())]
        return [each for each in known if each is not None]

    cpdef object run_later(self, object request):
        """Has another thread run a request, in its order. None is no request."""
        if request is not None and self.claim(request):
            self.session.submit(self.run_claimed, request)

    cdef object _run_inbox_later(self, Call call):
        """Nobody waits for the call any more. What was made on its behalf runs all the same."""
        cdef Request request
        while call.inbox:
            try:
                request = call.inbox.popleft()
            except IndexError:
                return
            if request.kind == ONEWAY:
                request.chain = None  # its own caller does not wait for it either
            self.session.submit(self.run_alone, request)

    cdef object _run_apart(self, Call call, Request request):
        """Nobody waits for the call on whose behalf the request is made: an event loop does, or somebody will later.
        So another thread runs it. It must not be put behind the request that has made the call, and may wait for it.
        """
        if request.kind == ONEWAY:
            request.chain = None
        if request.flags & FREE:
            self.session.submit(self.run_alone, request)
            return
        self._order.acquire()
        try:
            if call.inbox is None:
                call.inbox = deque()
            call.inbox.append(request)
            if call.apart:
                return
            call.apart = True
        finally:
            self._order.release()
        self.session.submit(self.run_inbox, call)

    cpdef object run_inbox(self, Call call):
        """In a thread of its own: what is made on behalf of a call that nobody waits for, in its order."""
        cdef Request request
        while True:
            self._order.acquire()
            try:
                if not call.inbox:
                    call.apart = False
                    return
                request = call.inbox.popleft()
            finally:
                self._order.release()
            request.resume = partial(self.put_back, call)
            if not self.execute(request):
                return

    cpdef object put_back(self, Call call, Request request):
        """A request of an inbox may go on, and those behind it."""
        call.inbox.appendleft(request)
        self.run_inbox(call)

    cpdef bint execute(self, Request request) except -1:
        """Runs a request here and now, and answers it.

        False: it waits for its object, and `resume` goes on with it, perhaps already. A request without it waits here.
        """
        cdef Entry exported = request.exported
        if exported.flags and request.kind != BATCH:
            return self.session.execute(request)
        token = None
        # a one-way call without a deadline has nothing to tell those that it makes, but must hide an outer request
        if request.kind != ONEWAY or request.deadline or context_of(self._current) is not None:
            token = enter_context(self._current, request)
        try:
            if request.kind == BATCH:
                value = self._run_batch(request)
            else:
                function = exported.functions[request.method]
                if request.keywords is None:
                    value = function(*request.arguments)
                else:
                    value = function(*request.arguments, **request.keywords)
        except BaseException as error:
            if token is not None:
                leave_context(self._current, token)
            self.session.failed(request, error)
            if interrupted(error):
                raise
            return True
        if token is not None:
            leave_context(self._current, token)
        if value is WAITS:
            return False
        if goes_on(value):
            self.session.special(request, value)
        elif request.kind != ONEWAY and not request.cancelled:
            self.answer(request, value)
        return True

    cdef object _run_batch(self, Request request):
        """Runs the calls of a batch in their order, from the first that has not run. Gives True and a value, or False
        and an error's parts, for each; WAITS where one waits: then another thread may go on with it already.
        """
        cdef list found
        cdef Py_ssize_t at
        cdef tuple given = request.arguments
        cdef Py_ssize_t count = len(given)
        if count % 4:
            raise BadFrame(f"{self.peer}: a batch of what are no calls")
        if request.rows is None:
            request.rows = Rows(request)
        found = request.rows.found
        for at in range(2 * len(found), count, 4):
            if request.cancelled:
                break
            try:
                value = self._run_row(request, given, at)
            except Exception as error:
                if interrupted(error):
                    raise
                found.append(False)
                value = self.session.described_error(error)
            else:
                if value is WAITS:
                    return WAITS
                found.append(True)
            found.append(value)
        request.rows = None  # it knows the request
        return found

    cdef object _run_row(self, Request request, tuple given, Py_ssize_t at):
        cdef Rows rows
        cdef Request one
        cdef object arguments, keywords
        cdef Py_ssize_t number
        cdef Entry exported = self.exports.get(given[at])
        if exported is None:
            raise UnknownObject(f"{self.peer}: there is no object of number {given[at]} on this connection")
        number = whole_number(given[at + 1])
        if not 0 <= number < exported.count:
            raise UnknownMethod(f"{self.peer}: {exported.name} has no method of number {given[at + 1]}")
        arguments = given[at + 2]
        if type(arguments) is not tuple:
            raise BadFrame(f"{self.peer}: the arguments of a call are no tuple")
        keywords = given[at + 3]
        if exported.flags or keywords is not None:
            rows = request.rows
            one = rows.waiting
            if one is None:
                one = new_request(
                    self, CALL, 0, request.number, exported, number, arguments, keywords, request.deadline, 0
                )
                one.chain = request.chain
                rows.waiting = one  # before it runs: where it waits, another thread may have gone on with it
            if request.resume is not None:
                one.resume = rows.resume
            try:
                value = self.session.run(one)
            except BaseException:
                rows.waiting = None
                raise
            if value is WAITS:
                return WAITS
            rows.waiting = None
        else:
            value = exported.functions[number](*arguments)
        if goes_on(value):
            self.session.refuse_source(value)
            raise TypeError(f"{exported.name}: generators and async methods cannot be called in a batch")
        return value

    cpdef object answer(self, Request request, object value):
        """Sends the value that a request returned. Where it cannot be sent, the caller gets that error."""
        cdef Packer packer
        self.sending.acquire()
        try:
            if self.lost is not None:
                return
            packer = self._packer
            packer.start(HEADER_BYTES)
            try:
                packer.pack(value)
                self._send_frame(RESULT, 0, request.number, 0, 0)
                return
            except LostPeer:
                return
            except Exception as error:
                self._abandon()
                failure = error
        finally:
            self.sending.release()
        if request.kind == BATCH and type(value) is list:
            self.session.answer_packable(request, value)
        else:
            self.session.failed(request, failure)
        if interrupted(failure):
            raise failure
