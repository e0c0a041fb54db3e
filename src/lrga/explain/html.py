"""Self-contained HTML pages: templates, scripts and the chart library in one file; external text is escaped."""

import base64
import hashlib
import json
import math
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lrga.errors import CheckpointError, DataError, optional_module
from lrga.explain.style import COLOURS
from lrga.io.files import write_bytes
from lrga.version import __version__


def render(template: str, *, scripts: tuple[str, ...], data: Any, webgl: bool = False, **context: Any) -> str:
    """A page of ``templates/TEMPLATE``.

    Args:
        template: Name of a file in ``templates``.
        scripts: Further scripts of ``templates``, run in this order after the chart library.
        data: JSON values for the scripts, in the element ``#data``.
        webgl: Whether charts are drawn with WebGL, for which Plotly compiles code.
        **context: Variables of the template, which escapes them.
    """
    environment = _environment()
    from markupsafe import Markup

    # As the browser reads them from the page, so that their checksums match.
    code = [
        text.replace("\r\n", "\n").replace("\r", "\n").replace("</script", "<\\/script")
        for text in (plotly_bundle(), *map(_file, scripts))
    ]
    checksums = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in code]
    policy = "; ".join(
        [
            "default-src 'none'",
            "script-src " + " ".join(f"'sha256-{checksum}'" for checksum in checksums) + " 'unsafe-eval'" * webgl,
            "style-src 'unsafe-inline'",
            "img-src data: blob:",
            "connect-src 'none'",
        ]
    )
    return environment.get_template(template).render(
        **context,
        style=Markup(_file("style.css")),
        scripts=[Markup(text) for text in code],
        policy=policy,
        data=Markup(json_text({"colours": COLOURS, **data})),
        version=__version__,
    )


def write_page(path: str | Path, page: str) -> Path:
    """Writes the page atomically."""
    path = Path(path)
    if path.is_dir():
        raise DataError(f"a file to write at {path}", "a folder", f"name a file in it: -o {path / 'page.html'}")
    try:
        write_bytes(path, page.encode("utf-8", errors="replace"))
    except CheckpointError as error:
        remedy = "choose a file in a writable folder: -o page.html"
        raise CheckpointError(f"to write {path}", error.got, remedy) from error
    return path


def json_text(value: Any) -> str:
    """JSON that is safe inside a ``<script>``: ``<``, ``>`` and ``&`` are escaped, and NaN is replaced by null.

    Example:
        >>> json_text({"run": "</script><b>", "loss": float("nan")})
        '{"run":"\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e","loss":null}'
    """
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def chart_text(text: str) -> str:
    """Escapes a name for Plotly, which interprets some HTML tags in labels.

    Example:
        >>> chart_text("<b>A & B</b>")
        '&lt;b&gt;A &amp; B&lt;/b&gt;'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@cache
def plotly_bundle() -> str:
    """Plotly's script from the installed package."""
    return str(optional_module("plotly.offline", "for pages", "report").get_plotlyjs())


@cache
def _environment() -> Any:
    jinja2 = optional_module("jinja2", "for pages", "report")
    options = {"autoescape": True, "undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    return jinja2.Environment(loader=jinja2.PackageLoader("lrga.explain"), **options)


def _file(name: str) -> str:
    return (files("lrga.explain") / "templates" / name).read_text(encoding="utf-8")


def _finite(value: Any) -> Any:
    """Replaces NaN and infinity (invalid in JSON) by null, and surrogates (invalid in UTF-8) by question marks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace").decode()
    if isinstance(value, dict):
        return {_finite(str(key)): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value
