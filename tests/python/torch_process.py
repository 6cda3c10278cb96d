"""One process with torch for all conversions of a test file, because importing torch takes
seconds."""

import pytest

from apscope._dumps import units


@pytest.fixture(autouse=True, scope="module")
def one_process_with_torch():
    """Shares it among conversions by this interpreter."""
    make, process = units.TorchProcess, units.TorchProcess()
    with pytest.MonkeyPatch.context() as patch:
        end = process.close
        patch.setattr(process, "close", lambda: None)
        patch.setattr(units, "TorchProcess", lambda python: make(python) if python else process)
        yield
        end()
