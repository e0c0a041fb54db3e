"""A local web server of files."""

import functools
import http.server
import threading
from contextlib import contextmanager


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Says nothing."""


@contextmanager
def served(folder):
    """The address under which the files of a folder are, within the context."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
