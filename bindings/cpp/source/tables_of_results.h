// The tables of a folder of results, which docs/results_format.md describes. Their cells refer to
// the results that they are of.
#pragma once

#include "bindings/cpp/source/results_data.h"
#include "bindings/cpp/source/written_table.h"

namespace apscope {

WrittenTable results_table(const Results::Data& d);
WrittenTable histogram_table(const Results::Data& d);
WrittenTable noise_table(const Results::Data& d);
WrittenTable window_table(const Results::Data& d);

}  // namespace apscope
