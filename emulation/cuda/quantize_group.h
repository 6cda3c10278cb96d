// What one GPU thread does in quantize: one step of the kernel's loop, as a host-device function,
// so that the tests can run it on a CPU.
//
// A thread takes a group of neighbours: one element, or with stochastic rounding the elements that
// share a Philox block, which then is computed once. Groups count from the stream's element 0, so
// the first and the last of a call may be cut.
#pragma once

#include <cstdint>

#include "core/philox.h"
#include "core/rounding.h"

namespace apscope {

// Elements first .. first + count - 1 of a stream, at in[0 .. count-1] and out[0 .. count-1].
struct QuantizeArguments {
    const float* in;
    float* out;
    std::uint64_t count, first;
    Cast<float> cast;
    RandomStream stream;
};

template <RoundingMode M>
APSCOPE_HD int group_size(const QuantizeArguments& a) {
    // With stochastic_exact every element asks its stream by itself, for as many words as it takes.
    return is_stochastic(M) && M != RoundingMode::stochastic_exact ? RandomStream::slots(a.stream.random_bits) : 1;
}

// Groups that the elements lie in; they are numbered from 0.
template <RoundingMode M>
APSCOPE_HD std::uint64_t group_count(const QuantizeArguments& a) {
    const std::uint64_t size = group_size<M>(a);
    return a.count == 0 ? 0 : (a.first + a.count - 1) / size - a.first / size + 1;
}

template <RoundingMode M>
APSCOPE_HD void quantize_group(const QuantizeArguments& a, std::uint64_t group) {
    if constexpr (M == RoundingMode::stochastic_exact) {
        a.out[group] = round_to_format<M, float>(a.in[group], a.cast, StreamWord{&a.stream, a.first + group});
    } else if constexpr (is_stochastic(M)) {
        const int size = group_size<M>(a);
        const std::uint64_t index = a.first / size + group;
        const PhiloxBlock block = a.stream.block(index);
        for (int slot = 0; slot < size; ++slot) {
            const std::uint64_t i = index * size + slot - a.first;  // before the first: wraps to a huge number
            if (i < a.count) a.out[i] = round_to_format<M, float>(a.in[i], a.cast, a.stream.slot(block, slot));
        }
    } else {
        a.out[group] = round_to_format<M, float>(a.in[group], a.cast, std::uint64_t{0});
    }
}

}  // namespace apscope
