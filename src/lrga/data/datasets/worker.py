"""A process that makes parts: reads one request a line, answers one line each, leaves when its input ends."""

import json
import os
import sys
from pathlib import Path
from typing import IO

from lrga.data.datasets.shards import make_part
from lrga.errors import LRGAError


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answers every request (see :func:`lrga.data.datasets.shards.make_parts`) until ``requests`` ends.

    Example:
        >>> import io
        >>> answers = io.StringIO()
        >>> serve(io.StringIO('{"name": "a", "task": "none", "arguments": {}, "folder": "."}'), answers)
        >>> json.loads(answers.getvalue())["error"][0]
        'OptionError'
    """
    for line in requests:
        request = json.loads(line)
        error: tuple[str, list[str]] | None = None
        try:
            make_part(request["name"], request["task"], request["arguments"], Path(request["folder"]))
        except LRGAError as problem:
            error = (type(problem).__name__, [problem.expected, problem.got, problem.remedy])
        except Exception as problem:  # whatever it is, the process that asked must hear of it
            error = (type(problem).__name__, [str(problem)])
        answers.write(json.dumps({"name": request["name"], "error": error}) + "\n")
        answers.flush()


if __name__ == "__main__":
    # Compiled libraries print to file descriptor 1 as they like: answers get a descriptor of their own.
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, output)
