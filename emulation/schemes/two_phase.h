// A reduction in two phases, composed of encodings of a scheme.
//
//      c_w = C(x_w)                      phase 1: every worker encodes its row alone
//      S_s = c_0 + c_1 + ... + c_(W-1)   the owner of shard s adds decoded values in fp32
//      y_s = C'(S_s)                     phase 2: the owner encodes the sum alone, for all workers
//
// Keys of the topology (TwoPhase in emulation/allreduce/topology.h) change these rows: own=exact
// the owner's c_w, sum= the format of S_s, phase2= the scheme C'. If C and C' are float grids and
// sums are fp32 numbers, float_phases.h computes the same bits block by block.
//
// To encode a row alone, the scheme runs with one worker. So a scale that is computed from a tensor
// is local to each worker in phase 1 and to each shard in phase 2, and has no headroom for a sum; a
// constant scale does not change. Shard s has the elements [s m, (s + 1) m) of a tensor of n
// elements, where m = ceil(n / W); its owner is worker s. In phase 2, blocks and rows that share a
// scale begin at the start of a shard, and the random words of shard s are those of a worker W + s.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "emulation/allreduce/shard.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// The schemes of both phases, if the messages are added in fp32 and every one of them is encoded.
struct PlainPhases {
    std::shared_ptr<const Scheme> phase1, phase2;  // phase2: null if the sums are not encoded
};

// True if two phases can use the scheme's encoding: each message can be decoded without the other
// messages, and no scale is common to several tensors.
bool has_two_phases(const SchemeParts& scheme);
// True if the topology adds the scheme's codes, which needs one scale for all workers. Every
// topology that is an order of additions adds codes. The topology two_phase without keys adds codes
// if has_two_phases() is false; the fp32 sum is then rounded with the same scale.
bool adds_codes(const Topology& topology, const SchemeParts& scheme);

// The scheme with the reduction of a topology of Kind::two_phase. phase2: the scheme that encodes
// the sums; if null, it is the same scheme. The state consists of one state per worker and one per
// shard. Throws std::invalid_argument if one of the two schemes cannot encode a row without other
// rows.
SchemeParts in_two_phases(const Scheme& scheme, const Topology& topology,
                          std::shared_ptr<const Scheme> phase2 = nullptr);

// Replaces the decoded values of the worker's own shard by the unencoded values, rounded to fp32.
void keep_own_shard(const RowPiece& piece, std::size_t workers, Message& m);

// Phase 1 of a worker, of whose bucket the elements x are sent: chooses the parameters from `seen`.
// step: that of the worker alone, or of all workers.
void encode_neighbours(const SchemeParts& parts, bool own_exact, const TrainingStep& step,
                       std::size_t workers, const RowReader& seen, std::span<const double> x,
                       std::size_t worker, Message& m);

// Phase 2 of a shard: encodes the sum in place with the parts of the scheme of phase 2. step: the
// tensor and step; worker: the worker whose random words are used; elements: the length of the
// complete tensor.
void encode_shard(const SchemeParts& parts, const TrainingStep& step, State& state,
                  std::size_t worker, std::size_t elements, std::span<double> sum);

// The scheme for a run with this topology: the scheme itself if the topology adds codes, or if the
// scheme supports only its own reduction; otherwise the composition with two phases or levels
// (levels.h). Throws std::invalid_argument for keys of a topology that do not apply to the scheme.
std::shared_ptr<const Scheme> reduced_by(const Topology& topology,
                                         std::shared_ptr<const Scheme> scheme);

}  // namespace apscope::detail
