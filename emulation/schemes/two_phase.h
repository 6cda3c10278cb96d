// A reduction in two phases, as a composition of what a scheme has already: its encoding.
//
//      c_w = C(x_w)                      leaf: every worker encodes its row alone
//      S_s = c_0 + c_1 + ... + c_(W-1)   order: the owner of shard s adds decoded values in fp32
//      y_s = C'(S_s)                     finish: it encodes the sum alone, and all decode the same
//
// Alone means: as the scheme with one worker. So a scale taken from a tensor is each worker's own
// in phase 1, each shard's own in phase 2, without headroom for a sum; a constant scale stays what
// it is. Shard s is elements [s m, (s + 1) m) of a tensor of n, m = ceil(n / W), and belongs to
// worker s. Blocks and rows of elements that share a scale are counted from the start of a shard in
// phase 2. Its random words are those of a worker W + s.
#pragma once

#include <cstddef>
#include <memory>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// Shard s of a tensor that is reduced by `workers`.
struct Shard {
    std::size_t first, count;
};
Shard shard_of(std::size_t s, std::size_t elements, std::size_t workers);

// Whether a scheme's encoding serves in two phases: its messages are values of their own, and no
// scale is common to several tensors.
bool has_two_phases(const SchemeParts& scheme);
// Whether the topology's program adds the scheme's codes: any order does if it adds codes; two
// phases without keys if their scale is common, so that the sum in fp32 is rounded with it.
bool adds_codes(const Topology& topology, const SchemeParts& scheme);

// The scheme with the reduction of such a topology (Kind::two_phase). finish: what encodes the
// sums; null: the scheme itself. Its state has one of each worker and shard. Throws
// std::invalid_argument if one of the two does not encode rows alone.
SchemeParts in_two_phases(const Scheme& scheme, const Topology& topology,
                          const std::shared_ptr<const Scheme>& finish = nullptr);

// The scheme as a topology reduces it: itself, if that adds codes or the scheme has a reduction
// of its own only; else in two phases, or in levels (levels.h). Throws std::invalid_argument for
// keys of a topology that do not apply to the scheme.
std::shared_ptr<const Scheme> reduced_by(const Topology& topology,
                                         std::shared_ptr<const Scheme> scheme);

}  // namespace apscope::detail
