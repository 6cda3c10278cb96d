"""For the Python that `.ci/sanitize.sh` starts: loads apscope's modules from APSCOPE_MODULES."""

import os
import sys
from pathlib import Path

modules = {
    f"apscope.{path.name.partition('.')[0]}": str(path.resolve())
    for path in Path(os.environ["APSCOPE_MODULES"]).glob("_*.so")
}
assert modules, f"there are no modules in {os.environ['APSCOPE_MODULES']}"
for finder in sys.meta_path:
    if hasattr(finder, "known_wheel_files"):  # of the editable install
        finder.known_wheel_files.update(modules)
