// The memory of error feedback: the part that each worker did not send.
#pragma once

#include "emulation/schemes/state.h"

namespace apscope::detail {

struct Errors {
    Rows rows;  // one per worker

    void fields(Fields& f) { f.rows("error", rows); }
};

}  // namespace apscope::detail
