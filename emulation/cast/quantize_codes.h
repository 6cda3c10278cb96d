// Encodes with ties to even in one pass, for formats that both quantize_addition.h and
// code_kernels.h support: a rounded number is converted to its code in registers, without being
// stored.
#pragma once

#include "emulation/cast/code_kernels.h"
#include "emulation/cast/quantize_addition.h"

namespace apscope::detail {

struct AdditionCodes {
    AdditionCast<float> cast;
    CodeMap map;
};

// The code of the rounded x. Limited handles overflow, infinities and NaN (quantize_buffers.h).
template <bool Limited>
APSCOPE_HD std::uint32_t code_by_addition(float x, const AdditionCodes& c) {
    const std::uint32_t rounded =
        rounded_by_addition<RoundingMode::ties_to_even, Limited>(x, c.cast);
    return Limited ? value_code(rounded, c.map) : finite_code(rounded, c.map);
}

template <class Code>
struct EncodeByAddition {
    static APSCOPE_INLINE void run(const float* in, Code* out, std::size_t count,
                                   const AdditionCodes* given) {
        const AdditionCodes c = *given;
        write_codes(in, out, count,
                    [&](const float* from, std::uint32_t* codes, std::size_t n)
                        __attribute__((always_inline)) {
                            round_buffer(from, codes, n, c.cast.cast.largest,
                                         [&]<bool Limited>(float x) __attribute__((always_inline)) {
                                             return code_by_addition<Limited>(x, c);
                                         });
                        });
    }
};

}  // namespace apscope::detail
