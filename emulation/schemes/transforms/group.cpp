// Transforms, sparsity, codebooks and integer sums.
#include "emulation/schemes/shared/groups.h"

namespace apscope::detail {

SchemeDefinition fft_sparse_definition();
SchemeDefinition top_k_definition();
SchemeDefinition zero_blocks_definition();
SchemeDefinition powersgd_definition();
SchemeDefinition thc_definition();
SchemeDefinition integer_allreduce_definition();

std::vector<SchemeDefinition> transforms_group() {
    return in_family("transform", {fft_sparse_definition(), top_k_definition(), zero_blocks_definition(), powersgd_definition(),
                                   thc_definition(), integer_allreduce_definition()});
}

}  // namespace apscope::detail
