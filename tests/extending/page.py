"""The patches on docs/extending.md, between markers."""

import re

from .examples import EXAMPLES, ROOT, Example

PAGE = ROOT / "docs/extending.md"


def markers(example: Example) -> tuple[str, str]:
    return (
        f"<!-- {example.name}: python -m tests.extending --page -->",
        f"<!-- end of {example.name} -->",
    )


def shown(example: Example) -> str:
    """The touched files, and the patch."""
    files = [
        f"`{name}`" + (" (written)" if name in example.writes else "") for name in example.files()
    ]
    patch = example.patch.read_text().rstrip("\n")
    return "\n".join([f"{len(files)} files: {', '.join(files)}.", "", "```diff", patch, "```"])


def written(text: str) -> str:
    """The page with every patch as it is."""
    for example in EXAMPLES:
        begin, end = markers(example)
        block = f"{begin}\n\n{shown(example)}\n\n{end}"
        text, count = re.subn(
            f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: block, text, flags=re.DOTALL
        )
        assert count == 1, f"docs/extending.md has {count} places marked {begin!r}; one is needed"
    return text
