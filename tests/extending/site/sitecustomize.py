"""For the Python that runs an example: loads apscope from the tree APSCOPE_TREE, not the installed
one."""

import os
import sys
from pathlib import Path

package = Path(os.environ["APSCOPE_TREE"]) / "bindings"
assert (package / "apscope/__init__.py").is_file(), f"there is no package in {package}"
# The editable install has a finder, before the path.
sys.meta_path[:] = [f for f in sys.meta_path if not hasattr(f, "known_wheel_files")]
sys.path.insert(0, str(package))
