#include "emulation/blocks/block_loops.h"

namespace apscope::detail {

template void round_block_elements<double>(const BlockJob<double>&, const double*, double*,
                                           std::size_t, std::size_t, const BlockScales<double>&,
                                           const std::uint32_t*);
template void encode_block_elements<double>(const BlockJob<double>&, const double*, std::uint8_t*,
                                            std::size_t, std::size_t, const BlockScales<double>&,
                                            const std::uint32_t*);

}  // namespace apscope::detail
