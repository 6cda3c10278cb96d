// The memory of error feedback: for each worker, the intended values minus the sent values.
#pragma once

#include "emulation/schemes/state.h"

namespace apscope::detail {

struct Errors {
    Rows rows;  // one per worker

    void fields(Fields& f) { f.rows("error", rows); }
};

}  // namespace apscope::detail
