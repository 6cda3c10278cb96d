"""Print what pyproject.toml requires: to build, to run, and for the extras named as arguments."""

from __future__ import annotations

import sys
import tomllib

with open("pyproject.toml", "rb") as file:
    settings = tomllib.load(file)
project = settings["project"]
requirements = settings["build-system"]["requires"] + project["dependencies"]
for extra in sys.argv[1:]:
    requirements += project["optional-dependencies"][extra]
print(*requirements, sep="\n")
