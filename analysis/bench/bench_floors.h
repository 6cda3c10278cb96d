// The reference jobs of `apscope bench`: copies of memory, and multiply-adds at the machine's peak.
#pragma once

#include <span>

namespace apscope::detail {

// Copies in pieces, divided among the threads: by memcpy, or by stores that bypass the caches.
void copy_in_pieces(std::span<const float> in, std::span<float> out, int threads, bool streaming);

// Does `count` fp32 fused multiply-adds in registers, in as many independent chains as hide their
// latency, with the instruction set in use (AVX2 and up with FMA). `sink` keeps the compiler from
// removing them.
void multiply_add_peak(std::span<float> sink, int count);

}  // namespace apscope::detail
