"""The endpoint of the other process: its handlers, and the thread that polls it."""

from __future__ import annotations

import threading

import fastsock.active as active

TAG = 5
REPLY = 9  # the handler of replies at the asking end


def begin(here, name, **options):
    """Registers an endpoint, and polls it in a thread of its own until end()."""
    options = {"segment": bytearray(range(256)) * 4096, **options}
    here.bundle = active.Bundle()
    here.endpoint = here.bundle.endpoint(tag=TAG, **options)
    here.seen, here.kept, here.errors = [], [], []
    here.over = False
    for number, handler in HANDLERS.items():
        here.endpoint.handle(number, handler(here))
    here.endpoint.register(name)
    here.thread = threading.Thread(target=serve, args=(here, here.bundle), daemon=True)
    here.thread.start()
    return here.bundle.door.address


def serve(here, bundle):
    while not here.over:
        try:
            bundle.poll(0.02)
        except Exception as error:
            here.errors.append(f"{type(error).__name__}: {error}")


def end(here):
    """The thread is gone when it returns."""
    here.over = True
    here.thread.join()


def look(here, what):
    """What the handlers noted."""
    return getattr(here, what)


def connections(here):
    return len(here.bundle.connections)


def echo(here):
    def handler(token, *words):
        token.reply(REPLY, *words, data=token.data)

    return handler


def note(here):
    def handler(token, *words):
        here.seen.append(words)

    return handler


def bulk(here):
    """Answers with the length and the sum of the bytes."""

    def handler(token, *words):
        token.reply(REPLY, len(token.data), sum(bytes(token.data)), *words)

    return handler


def bulk_back(here):
    """The first word is an offset, or -1."""

    def handler(token, offset, *words):
        token.reply_bulk(REPLY, token.data, *words, offset=None if offset < 0 else offset)

    return handler


def broken(here):
    def handler(token, *words):
        raise ValueError("this handler fails")

    return handler


def keeps(here):
    def handler(token, *words):
        here.kept.append(token.data)

    return handler


def breaks_a_rule(here):
    """Which one the first word says; the reply tells the error's class."""

    def handler(token, rule):
        said = b""
        try:
            if rule == 0:
                token.endpoint.request(0, 1)
            elif rule == 1:
                token.endpoint.bundle.poll()
            elif rule == 2:
                token.endpoint.bundle.wait(0)
            elif rule == 3:
                token.reply(REPLY, 1)
                token.reply(REPLY, 2)
            elif rule == 4:
                token.reply_bulk(REPLY, b"x")
            elif rule == 5:
                token.endpoint.get(0, 1, 0, 1)
            elif rule == 6:
                token.endpoint.request_bulk(0, 1, b"x")
        except active.HandlerRule as error:
            said = str(error).encode()
        here.seen.append(said.decode())
        here.kept.append(token)
        if rule != 3:
            token.reply(REPLY, data=said)

    return handler


def reply_late(here):
    try:
        here.kept[-1].reply(REPLY)
    except active.HandlerRule as error:
        return str(error)
    return "nothing was raised"


HANDLERS = {1: echo, 2: note, 3: bulk, 4: bulk_back, 5: broken, 6: keeps, 7: breaks_a_rule}
