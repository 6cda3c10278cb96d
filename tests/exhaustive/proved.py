"""The basis of a proof: the folders that it uses, as of the proved commit in git.

A proof is a fact about a commit. It holds for another commit as far as these folders are the same
there, by the hashes of git's trees. The oracle belongs to them: a wrong oracle could let a wrong
cast pass.
"""

import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: What every proof runs through: numbers and their oracle, loops, how results are compared, what is
#: asked, and the compiler's options.
_EVERY = (
    "core",
    "emulation/machine",
    "emulation/verify",
    "bindings/module/oracle_module.cpp",
    "tests/exhaustive/jobs.py",
    "CMakeLists.txt",
)
CASTS = (*_EVERY, "emulation/draws", "emulation/cast")
ARITHMETIC = (*_EVERY, "emulation/arithmetic")
PATHS = {
    "all inputs": CASTS,
    "P3109, all inputs": CASTS,
    "P3109 beyond fp32": CASTS,
    "rule": CASTS,
    "fp64 formats": CASTS,
    "arithmetic": ARITHMETIC,
    "sampled fma": ARITHMETIC,
}


class Repository:
    """The project's history."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self._trees = functools.cache(self._find)

    def _git(self, *words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(self.root), *words], capture_output=True, text=True, check=True
        ).stdout.rstrip()

    def head(self) -> tuple[str, str]:
        """The commit in use, abbreviated, and its day."""
        return self._git("rev-parse", "--short=8", "HEAD"), self._git(
            "show", "--no-patch", "--format=%cs", "HEAD"
        )

    def changed(self, paths: tuple[str, ...]) -> list[str]:
        """Files there that are not as the commit in use has them: no commit would be proved with
        them."""
        return [line[3:] for line in self._git("status", "--porcelain", "--", *paths).splitlines()]

    def _find(self, commit: str, paths: tuple[str, ...]) -> tuple[str, ...] | None:
        try:
            return tuple(
                self._git("rev-parse", "--verify", "--quiet", f"{commit}:{path}") for path in paths
            )
        except subprocess.CalledProcessError:
            return None

    def holds(self, commit: str, paths: tuple[str, ...]) -> bool:
        """Whether a commit has these paths as the one in use; False of a commit that this clone
        lacks."""
        found = self._trees(commit, paths)
        return found is not None and found == self._trees("HEAD", paths)
