// The reduction of one tensor in two phases (emulation/schemes/two_phase.h) on a GPU, with the bits
// of emulation/schemes/float_phases.h, except for the sign and payload of a NaN in sums that are
// not encoded. The caller chooses the encodings: those of the messages, then those of the shards'
// sums, which depend on the sums.
#pragma once

#include <cstddef>
#include <span>

#include "core/float_format.h"
#include "core/philox.h"
#include "core/projection.h"

struct CUstream_st;

namespace apscope::detail {

// x is sent as round(scale x) / scale. scale: an fp32 number or a power of two.
struct PhaseEncoding {
    FloatFormat format;
    Projection projection;
    double scale = 1.0;

    friend bool operator==(const PhaseEncoding&, const PhaseEncoding&) = default;
};

// sums = the sum in fp32, in rank order, of the messages of `rows`, one row of n values per worker.
// Both are device pointers of the current device. encodings: one per worker. key: of the tensor and
// step (replay_key). Returns without waiting for `stream`. Throws as quantize_on_device() does.
void add_messages_on_device(const float* rows, std::size_t n,
                            std::span<const PhaseEncoding> encodings, PhiloxKey key, float* sums,
                            CUstream_st* stream);
// out = the encoded sums, divided. encodings: one per shard, or none if the sums are not encoded.
void encode_sums_on_device(const float* sums, std::size_t n, int workers,
                           std::span<const PhaseEncoding> encodings, PhiloxKey key, double divisor,
                           float* out, CUstream_st* stream);

}  // namespace apscope::detail
