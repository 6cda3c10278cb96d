#include "emulation/blocks/block_loops.h"

namespace apscope::detail {

template void round_block_elements<float>(const BlockJob<float>&, const float*, float*, std::size_t,
                                          std::size_t, const BlockScales<float>&,
                                          const std::uint32_t*);
template void encode_block_elements<float>(const BlockJob<float>&, const float*, std::uint8_t*,
                                           std::size_t, std::size_t, const BlockScales<float>&,
                                           const std::uint32_t*);

}  // namespace apscope::detail
