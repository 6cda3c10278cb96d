// A reduction in two phases, composed of encodings of a scheme.
//
//      c_w = C(x_w)                      phase 1: every worker encodes its row alone
//      S_s = c_0 + c_1 + ... + c_(W-1)   the owner of shard s adds decoded values in fp32
//      y_s = C'(S_s)                     phase 2: it encodes the sum alone, all decode the same
//
// Keys of the topology (TwoPhase in emulation/allreduce/topology.h) change these rows: own=exact
// the owner's c_w, sum= the format of S_s, phase2= the scheme C'. If C and C' are float grids and
// sums are fp32 numbers, float_phases.h computes the same bits block by block.
//
// To encode a row alone, the scheme runs with one worker. So a scale that is computed from a tensor
// is local to each worker in phase 1 and to each shard in phase 2, without headroom for a sum; a
// constant scale does not change. Shard s has the elements [s m, (s + 1) m) of a tensor of n
// elements, where m = ceil(n / W); its owner is worker s. In phase 2, blocks and rows that share a
// scale begin at the start of a shard, and the random words of shard s are those of a worker W + s.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// Shard s of a tensor that is reduced by `workers`.
struct Shard {
    std::size_t first, count;
};
Shard shard_of(std::size_t s, std::size_t elements, std::size_t workers);

// True if two phases support a scheme's encoding: a message can be decoded without the others, and
// no scale is common to several tensors.
bool has_two_phases(const SchemeParts& scheme);
// True if the topology adds the scheme's codes, which needs one scale for all workers. Every order
// of additions does. Two phases without keys do if has_two_phases() is false; the fp32 sum is then
// rounded under the same scale.
bool adds_codes(const Topology& topology, const SchemeParts& scheme);

// The scheme with the reduction of a topology of Kind::two_phase. phase2: the scheme that encodes
// the sums; null: the same scheme. The state has one state per worker and per shard. Throws
// std::invalid_argument if one of the two schemes does not encode rows alone.
SchemeParts in_two_phases(const Scheme& scheme, const Topology& topology,
                          std::shared_ptr<const Scheme> phase2 = nullptr);

// Phase 2 of a shard: encodes its sum in place with the parts of its scheme. step: of one
// worker; worker: of the random words; elements: of the whole tensor.
void encode_shard(const SchemeParts& parts, const TrainingStep& step, State& state,
                  std::size_t worker, std::size_t elements, std::span<double> sum);

// The scheme as a topology reduces it: the scheme itself if the topology adds codes, or if the
// scheme has only its own reduction; otherwise in two phases, or in levels (levels.h). Throws
// std::invalid_argument for keys of a topology that do not apply to the scheme.
std::shared_ptr<const Scheme> reduced_by(const Topology& topology,
                                         std::shared_ptr<const Scheme> scheme);

}  // namespace apscope::detail
