"""Where data files live: one root for everything, found the same way by the library and the command line."""

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from lrga.errors import OptionError

ENVIRONMENT_VARIABLE = "LRGA_DATA"


def data_root(root: str | Path | None = None) -> Path:
    """Folder that holds every data set: the argument, else ``$LRGA_DATA``, else the platform's cache folder.

    The folder need not exist; it is created by the first build.

    Example:
        >>> data_root("some/folder") == Path("some/folder").absolute()
        True
    """
    if root is not None and str(root) == "":
        raise OptionError("a folder for the data", "an empty path", "name a folder, or leave the data root out")
    given = root if root is not None else os.environ.get(ENVIRONMENT_VARIABLE) or cache_folder(sys.platform, os.environ)
    remedy = f"name a folder with --data-root, root= or {ENVIRONMENT_VARIABLE}"
    try:
        path = Path(given).expanduser().absolute()
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):  # the first build makes it, or says why it cannot
            return path
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, a loop of links, an unknown ~user, …
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise OptionError("a usable folder for the data", f"{str(given)!r} ({reason})", remedy) from error
    if not stat.S_ISDIR(mode):
        raise OptionError("a folder for the data", f"the file {path}", remedy)
    return path


def cache_folder(platform: str, environment: Mapping[str, str]) -> Path:
    """The folder where ``platform`` (as in ``sys.platform``) keeps what can be made again.

    Example:
        >>> cache_folder("linux", {"XDG_CACHE_HOME": "/var/cache"}).as_posix()
        '/var/cache/lrga'
    """
    if platform == "darwin":
        return Path.home() / "Library" / "Caches" / "lrga"
    if platform == "win32":
        local = environment.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "lrga" / "Cache"
    # The XDG rule: a relative XDG_CACHE_HOME is to be ignored.
    xdg = environment.get("XDG_CACHE_HOME", "")
    return (Path(xdg) if xdg.startswith("/") else Path.home() / ".cache") / "lrga"
