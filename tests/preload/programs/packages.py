"""Packages whose C code uses the descriptor: packages.py redis|psycopg2|pycurl PORT. Prints what came."""

from __future__ import annotations

import sys


def redis(port: int) -> object:
    import hiredis  # noqa: F401  redis takes it where it is there
    import redis

    with redis.Redis(port=port, protocol=2) as server:
        server.set("large", b"7" * 1_000_000)
        with server.pipeline(transaction=False) as pipeline:
            for i in range(200):
                pipeline.incr(f"counter-{i % 7}")
            counted = sum(pipeline.execute())
        return counted, len(server.get("large")), [server.incr("alone") for _ in range(60)][-1]


def psycopg2(port: int) -> object:
    import psycopg2

    link = psycopg2.connect(host="127.0.0.1", port=port, user="postgres", dbname="postgres")
    with link as connection, connection.cursor() as cursor:
        found = []
        for i in range(100):
            cursor.execute("select %s, repeat('x', %s)", (i, 300 * i))
            found.append([(number, len(text)) for number, text in cursor.fetchall()])
        cursor.execute("select repeat('y', 1000) from generate_series(1, 5000)")
        return len(found), found[-1], sum(len(text) for (text,) in cursor.fetchall())


def pycurl(port: int) -> object:
    from io import BytesIO

    import pycurl

    handle, sums = pycurl.Curl(), []
    for length in [10] * 60 + [1_000_000]:
        came = BytesIO()
        handle.setopt(pycurl.URL, f"http://127.0.0.1:{port}/{length}")
        handle.setopt(pycurl.WRITEDATA, came)
        handle.perform()
        sums.append(len(came.getvalue()))
    handle.close()
    return len(sums), sum(sums)


print(globals()[sys.argv[1]](int(sys.argv[2])))
