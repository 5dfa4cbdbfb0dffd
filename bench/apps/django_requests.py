"""Django's development server, fetched by requests in a session."""

from __future__ import annotations

import django
import program
import requests
from django.conf import settings
from django.core.servers import basehttp
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

BODIES = {"/small": b"s" * program.SMALL, "/large": b"l" * program.LARGE}


def view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(BODIES[request.path])


urlpatterns = [path("small", view), path("large", view)]


class Quiet(basehttp.WSGIRequestHandler):
    def log_message(self, *words: object) -> None:
        """Print nothing."""


def serve() -> None:
    settings.configure(ROOT_URLCONF=__name__, SECRET_KEY="none", ALLOWED_HOSTS=["*"], LOGGING_CONFIG=None)
    django.setup()
    # what `manage.py runserver` starts
    server = type("Server", (basehttp.ThreadedWSGIServer,), {})(("127.0.0.1", 0), Quiet)
    server.set_app(get_wsgi_application())
    program.announce(server.server_port)
    server.serve_forever()


def main() -> None:
    options = program.arguments()
    if options.serve:
        return serve()
    with program.Server() as server, requests.Session() as session:
        session.trust_env = False

        def fetch(name: str) -> None:
            assert len(session.get(f"http://127.0.0.1:{server.port}{name}").content) == len(BODIES[name])

        program.report(
            small=program.rate(lambda: fetch("/small"), options.seconds),
            large=program.rate(lambda: fetch("/large"), options.seconds),
        )


if __name__ == "__main__":
    main()
