// The steps of phases_cuda.h. Host only.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <type_traits>

#include "emulation/allreduce/shard.h"
#include "emulation/cast/scaled_format.h"
#include "emulation/cuda/allreduce/phase_step.h"
#include "emulation/cuda/allreduce/phases_cuda.h"
#include "emulation/cuda/allreduce/wire_choice.h"

namespace apscope::detail {

// Calls f.template operator()<Size>(rounding, wire, random_bits).
template <class F>
void with_encoding(const PhaseEncoding& e, F&& f) {
    int exponent = 0;
    const bool power_of_two = std::frexp(e.scale, &exponent) == 0.5;
    std::optional<FloatFormat> narrow;
    if (power_of_two) narrow = narrow_format(e.format, e.projection, exponent - 1);
    const WireScale wire{e.scale, power_of_two ? 1.0 / e.scale : 0.0, narrow.has_value()};
    const Cast<double> cast = make_cast<double>(e.format, e.projection);
    with_wire_rounding(narrow, e.projection, cast, [&]<int Size>(const auto& rounding) {
        f.template operator()<Size>(rounding, wire, cast.random_bits);
    });
}

// Calls f(step) for every step that adds messages. Neighbouring workers with one encoding share a
// step.
template <class F>
void with_message_steps(const float* rows, std::size_t n, std::span<const PhaseEncoding> encodings,
                        PhiloxKey key, float* sums, F&& f) {
    for (std::size_t w = 0; w < encodings.size();) {
        std::size_t last = w + 1;
        while (last < encodings.size() && encodings[last] == encodings[w]) ++last;
        const WorkerRange workers{static_cast<int>(w), static_cast<int>(last)};
        with_encoding(encodings[w],
                      [&]<int Size>(const auto& rounding, const WireScale& wire, int random_bits) {
                          f(MessageSumStep<std::decay_t<decltype(rounding)>, Size>{
                              rows, {n, 0}, workers, rounding, random_bits, wire, key, sums});
                      });
        w = last;
    }
}

// Calls f(step) for every step that encodes sums.
template <class F>
void with_sum_steps(const float* sums, std::size_t n, int workers,
                    std::span<const PhaseEncoding> encodings, PhiloxKey key, double divisor,
                    float* out, F&& f) {
    if (encodings.empty())
        return f(SumEncodingStep<NoRounding, float>{sums, n, 0, {}, {}, divisor, out});
    const auto w = static_cast<std::size_t>(workers);
    for (std::size_t s = 0; s < w; ++s) {
        const Shard shard = shard_of(s, n, w);
        with_encoding(encodings[s], [&]<int Size>(auto rounding, const WireScale& wire,
                                                  int random_bits) {
            set_worker(rounding, key, w + s, random_bits);
            f(SumEncodingStep<decltype(rounding), float>{
                sums + shard.first, shard.count, 0, rounding, {wire}, divisor, out + shard.first});
        });
    }
}

}  // namespace apscope::detail
