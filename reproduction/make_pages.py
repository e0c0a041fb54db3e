"""Writes the generated parts of pages (``make reproduction-docs``); ``--check`` says what differs.

A part stands between ``<!-- begin COMMAND -->`` and ``<!-- end -->``: what that command prints in the repository.
Of ``lrga plot`` it is the picture, with checksums of the records that it was drawn from and of its file.
"""

import hashlib
import io
import re
import shlex
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path

from lrga.cli.main import app
from lrga.errors import DataError
from lrga.experiments.loading import load_runs

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("docs/reproduction.md", "docs/data-sets.md", "README.md")
_PART = re.compile(r"(<!-- begin (?P<command>lrga [^\n]*?) -->\n)(?P<content>.*?)(<!-- end -->)", re.DOTALL)


def refreshed(text: str, page: Path, *, draw: bool) -> str:
    """The page with every part made anew; pictures are written only where ``draw``."""

    def part(found: re.Match[str]) -> str:
        command = shlex.split(found["command"])[1:]
        content = picture(command, page, draw=draw) if command[0] == "plot" else printed(command)
        return f"{found[1]}\n{content.strip()}\n\n{found[4]}"

    return _PART.sub(part, text)


def printed(command: list[str]) -> str:
    """What a command of lrga prints."""
    out = io.StringIO()
    with chdir(ROOT), redirect_stdout(out):
        app(command, standalone_mode=False)
    return out.getvalue()


def picture(command: list[str], page: Path, *, draw: bool) -> str:
    """A link to the picture that ``lrga plot KIND FOLDERS -o FILE`` draws; without enough runs, the reason."""
    place = command.index("-o")
    folders, target = command[2:place], ROOT / command[place + 1]
    with chdir(ROOT), tempfile.TemporaryDirectory() as temporary:
        landed = load_runs(folders)
        drawn = target if draw else Path(temporary) / target.name
        try:
            printed([*command[:place], "-o", str(drawn), *command[place + 2 :]])
        except DataError as error:
            return f"Not drawn yet: it needs {error.expected}."
    digest = hashlib.sha256()
    for path in sorted(entry.place for entry in landed):
        digest.update((ROOT / path).read_bytes())
    link = target.relative_to(page.parent).as_posix() if target.is_relative_to(page.parent) else command[place + 1]
    own = hashlib.sha256(target.read_bytes()).hexdigest() if target.is_file() else "missing"
    drawn_from = f"drawn from {len(landed)} records, sha256 {digest.hexdigest()[:16]}, into a file of sha256 {own[:16]}"
    return f"![{command[1]}]({link})\n\n<!-- {drawn_from} -->"


def main(arguments: list[str]) -> int:
    """Exit code 1 where a page differs and is only to be checked."""
    check, differs = "--check" in arguments, False
    for name in PAGES:
        page = ROOT / name
        text = page.read_text(encoding="utf-8")
        new = refreshed(text, page, draw=not check)
        if new != text:
            differs = True
            print(f"{name}: {'differs from the records; make reproduction-docs' if check else 'written'}")
            if not check:
                page.write_text(new, encoding="utf-8")
    return int(check and differs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
