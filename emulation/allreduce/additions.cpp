#include "emulation/allreduce/additions.h"

#include <algorithm>

#include "core/named_formats.h"

namespace apscope::detail {

namespace {

SumRounding in(const char* format) { return {parse_format(format), Projection{}}; }

// The rounding of an addition in NCCL's kernels. In FP8 the kernels add fp16 numbers and cast the
// sum with saturation. The two steps equal one rounding of the exact sum, because FP8 numbers have
// so few bits.
SumRounding nccl(const FloatFormat& format) {
    Projection projection;
    if (format.storage_bits() <= 8) projection.overflow = Overflow::saturate;
    return {format, projection};
}

}  // namespace

double Additions::largest() const {
    return wide ? std::min(narrow.format.largest(), wide->format.largest())
                : narrow.format.largest();
}

namespace adding {

Additions in_fp32(const SumRounding& narrow) { return {narrow, in("fp32")}; }

Additions at_the_end_in_fp32(const SumRounding& narrow) { return {narrow, in("fp32"), true}; }

Additions to_nearest(const SumRounding& narrow) { return {{narrow.format, Projection{}}, {}}; }

Additions as_nccl(const SumRounding& narrow) { return {nccl(narrow.format), {}}; }

Additions as_nccl_symmetric(const SumRounding& narrow) { return {nccl(narrow.format), in("fp32")}; }

Additions as_nvls(const SumRounding& narrow) {
    Additions additions{nccl(narrow.format), in("fp32")};
    if (narrow.format.storage_bits() <= 8) additions.wide = in("fp16");
    if (narrow.format == parse_format("fp32")) {
        additions.wide.reset();
        additions.exact = true;
    }
    // In bf16, the NVLink switch rounds toward zero, in the sum and in the cast after the sum.
    if (narrow.format == parse_format("bf16"))
        additions.wide->projection.rounding = additions.narrow.projection.rounding =
            RoundingMode::toward_zero;
    return additions;
}

}  // namespace adding

}  // namespace apscope::detail
