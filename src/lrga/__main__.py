"""``python -m lrga`` is the ``lrga`` command."""

from lrga.cli.main import run

if __name__ == "__main__":
    run()
