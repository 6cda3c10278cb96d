"""The modules of page/ as one script, each in its own scope."""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = Path(__file__).parent / "page"
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(.*)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def script(first: str = "main.js") -> str:
    """The modules that `first` imports, then itself, as functions that return the exports.

    Scripts of a page without a server cannot import each other, so they become one. The modules
    therefore use only two forms: ``import { a, b } from "./file.js";`` and ``export`` before a
    declaration of one name.
    """
    texts: dict[str, str] = {}

    def add(name: str) -> None:
        if name in texts:
            return
        source = (_FOLDER / name).read_text(encoding="utf-8")
        for _, imported in _IMPORT.findall(source):
            add(imported)
        exports = ", ".join(export for _, export in _EXPORT.findall(source))
        body = _EXPORT.sub(r"\1", _IMPORT.sub(r'const \1 = modules["\2"];', source))
        texts[name] = f'modules["{name}"] = (() => {{\n{body}return {{ {exports} }};\n}})();\n'

    add(first)
    return "const modules = {};\n" + "".join(texts.values())
