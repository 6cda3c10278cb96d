"""The patches on docs/extending.md, between markers."""

from docs.tools.page import replaced

from .examples import EXAMPLES, ROOT, Example

PAGE = ROOT / "docs/extending.md"


def shown(example: Example) -> list[str]:
    """The touched files, and the patch."""
    files = [
        f"`{name}`" + (" (written)" if name in example.writes else "") for name in example.files()
    ]
    patch = example.patch.read_text().rstrip("\n")
    return [f"{len(files)} files: {', '.join(files)}.", "", "```diff", patch, "```"]


def written(text: str) -> str:
    """The page with every patch as it is."""
    for example in EXAMPLES:
        text = replaced(text, example.name, shown(example))
    return text
