"""Writes the generated parts of the reference when the site is built (a hook of mkdocs).

``<!-- generated: NAME -->`` in a page is replaced by what the function of that name below returns.
"""

import ast
import inspect
import re
from dataclasses import fields
from typing import Any

from typer.main import get_command

from lrga import errors as error_classes
from lrga.cli.main import app
from lrga.training import config as configs

MARK = re.compile(r"<!-- generated: (\w+) -->")
SECTIONS = ("ModelConfig", "OptimizerConfig", "RunConfig", "LinkConfig")  # what --set reaches


def on_page_markdown(markdown: str, **context: Any) -> str:  # noqa: ARG001 - mkdocs passes page, config and files
    return MARK.sub(lambda mark: globals()[mark[1]](), markdown)


def commands() -> str:
    """Every command with its description, examples, arguments and options."""
    return "\n\n".join(_describe("lrga", get_command(app), 2))


def errors() -> str:
    """Every error class with the built-in exception that also catches it."""
    rows = ["| error | also caught as | raised when |", "|---|---|---|"]
    for name, value in vars(error_classes).items():
        if inspect.isclass(value) and issubclass(value, error_classes.LRGAError):
            other = value.__bases__[-1].__name__
            rows.append(f"| [`{name}`][lrga.errors.{name}] | `{other}` | {_cell(inspect.getdoc(value))} |")
    return "\n".join(rows)


def options() -> str:
    """Every field of the configuration that ``--set`` can change."""
    lines = []
    for name in SECTIONS:
        section = getattr(configs, name)
        known = _attributes(inspect.getdoc(section) or "")
        lines += [f"### {name}", "", "| name | default | meaning |", "|---|---|---|"]
        for field in fields(section):
            default = "" if field.default is None or not _is_plain(field.default) else f"`{field.default}`"
            lines.append(f"| `{field.name}` | {default} | {_cell(known.get(field.name, ''), whole=True)} |")
        lines.append("")
    return "\n".join(lines)


def _describe(name: str, command: Any, level: int) -> list[str]:
    text, _, examples = (command.help or "").partition("Examples:")
    parts = [f"{'#' * level} {name}", re.sub(r"\[/?\w*\]|\x08", "", text).strip().replace("<", "&lt;")]
    if examples.strip():
        shown = [re.sub(r"\[/?\w*\]", "", line).strip() for line in examples.splitlines()]
        parts.append("```sh\n" + "\n".join(line for line in shown if line) + "\n```")
    given = [one for one in command.params if not one.hidden and one.name != "help"]
    if given:
        rows = [f"| {_option(one)} | {_cell(one.help, whole=True)} |" for one in given]
        parts.append("\n".join(["| argument or option | meaning |", "|---|---|", *rows]))
    rare = [f"`{one.opts[0]}`" for one in command.params if one.hidden and one.opts[0].startswith("--")]
    if rare:
        parts.append(f"Also: {', '.join(rare)}; see [options of `--set`](#options-of-set).")
    for sub, inner in getattr(command, "commands", {}).items():
        parts += _describe(f"{name} {sub}", inner, min(level + 1, 3))
    return parts


def _option(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if not option.opts[0].startswith("-"):
        return f"`{(option.metavar or option.name).upper()}`"
    kind = option.metavar or ("" if option.is_flag else getattr(option.type_descriptor.annotation, "__name__", ""))
    return f"{names} {'' if kind == 'bool' else kind}".strip()


def _attributes(doc: str) -> dict[str, str]:
    """The entries below ``Attributes:``, joined to one line each."""
    found: dict[str, str] = {}
    name = ""
    for line in doc.partition("Attributes:\n")[2].splitlines():
        if entry := re.match(r"    (\w+): (.*)", line):
            name = entry[1]
            found[name] = entry[2]
        elif name:
            found[name] += " " + line.strip()
    return found


def _is_plain(value: Any) -> bool:
    try:
        ast.literal_eval(repr(value))
    except (ValueError, SyntaxError):
        return False
    return True


def _cell(text: str | None, *, whole: bool = False) -> str:
    """Text for a cell of a table; its first paragraph unless ``whole``."""
    text = (text or "") if whole else (text or "").split("\n\n")[0]
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    return " ".join(text.split()).replace("|", "\\|")
