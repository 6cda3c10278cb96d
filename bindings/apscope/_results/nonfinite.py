"""What rows say of gradients that are NaN or infinite."""

from .codes import CodedColumns
from .row_table import Rows

#: What `nonfinite` needs.
COLUMNS = (
    "trace", "step", "tensor", "stage", "skipped", "count", "counted", "nan", "infinite",
)  # fmt: skip


def nonfinite(columns: CodedColumns) -> str:
    """A sentence about gradients that are NaN or infinite; empty if there are none."""
    if not {"nan", "infinite", "counted"} <= set(columns):
        return ""
    places, every = Rows(columns).core.nonfinite_places()
    if not places:
        return ""
    return (
        f"{places} of {every} layer-steps have gradients that are NaN or infinite. They are omitted "
        "from every error, and a scheme that skips such a step is charged with all of it."
    )
