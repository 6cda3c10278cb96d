// Pools rows of a table: sums are added, then divided. Every element counts once, so large
// gradients weigh more than small ones: docs/definitions.md, section 14.
#pragma once

#include "analysis/summary/chosen_rows.h"
#include "analysis/summary/figures.h"

namespace apscope::detail {

// One row per group, with the columns that docs/definitions.md lists, in the order of Python's
// table.
Figures pooled(const RowTable& table, const ChosenRows& rows, const Groups& groups);

}  // namespace apscope::detail
