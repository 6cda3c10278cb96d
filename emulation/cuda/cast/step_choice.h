// Chooses the rounding and the group size for a cast's plan (emulation/cast/cast_plan.h): calls
// f.template operator()<Size>(rounding) with a rounding of group_rounding.h; and the steps that
// encode and decode. Host only.
#pragma once

#include <optional>
#include <type_traits>

#include "core/float_format.h"
#include "emulation/cast/cast_plan.h"
#include "emulation/cuda/cast/quantize_step.h"

namespace apscope::detail {

// The cast of SplitRounding by which a plan's numbers are rounded; nothing if it does not serve.
inline std::optional<SplitCast> split_cast(const FloatFormat& format, const CastPlan<float>& plan) {
    if (plan.path == CastPath::split || plan.path == CastPath::scaled) return plan.split;
    return bits_serve(format, plan.cast) ? std::optional(make_split_cast(plan.cast)) : std::nullopt;
}

// A group has eight elements if these share a Philox block (at most 16 random bits per element),
// else four elements (16 bytes of fp32).
template <class Rounding, class F>
void with_group_size(const Rounding& rounding, const Projection& projection, F&& f) {
    const bool eight = is_stochastic(projection.rounding) && projection.drawn_bits() <= 16;
    eight ? f.template operator()<8>(rounding) : f.template operator()<4>(rounding);
}

template <class Real, class F>
void with_rounding(const FloatFormat& format, const Projection& projection, std::uint64_t seed,
                   F&& f) {
    const CastPlan<Real> plan = make_plan<Real>(format, projection);
    const RandomStream stream = array_stream(seed, projection.drawn_bits());
    if constexpr (std::is_same_v<Real, float>) {
        if (plan.path == CastPath::addition)
            return f.template operator()<4>(AdditionRounding{plan.addition});
        if (const std::optional<SplitCast> split = split_cast(format, plan))
            return with_group_size(SplitRounding{*split, stream}, projection, f);
    } else if (rounds_by_quanta(plan.cast)) {
        return with_group_size(QuantaRounding{plan.cast, stream}, projection, f);
    }
    with_group_size(RuleRounding<Real>{plan.cast, stream}, projection, f);
}

// What encoding reads and writes: n numbers, codes of `bytes` bytes. `nan_code`: of a format
// without a NaN, if the caller gave one. `nan_at`, unless null, receives the index of the first
// NaN.
template <class Real>
struct EncodeArrays {
    const Real* in;
    void* out;
    int bytes;
    std::size_t n;
    std::optional<std::uint64_t> nan_code;
    unsigned long long* nan_at;
};

// Calls f(step) with the EncodeStep. With a fast rounding, a thread encodes eight numbers, so that
// its codes of one byte are one store of eight bytes.
template <class Real, class F>
void with_encode_step(const EncodeArrays<Real>& a, const FloatFormat& format,
                      const Projection& projection, std::uint64_t seed, F&& f) {
    BasicCodec<Real> codec = make_codec<Real>(format);
    const bool has_nan_code = a.nan_code && !format.has_nan();
    if (has_nan_code) codec.nan_code = static_cast<BitsOf<Real>>(*a.nan_code);
    const CodecEncoder<Real> by_codec{codec};
    const auto call = [&]<int Size>(const auto& rounding, const auto& encoder) {
        using Rounding = std::remove_cvref_t<decltype(rounding)>;
        using Encoder = std::remove_cvref_t<decltype(encoder)>;
        f(EncodeStep<Rounding, Encoder, Size>{
            a.in, a.out, a.bytes, {a.n, 0}, rounding, encoder, a.nan_at});
    };
    with_rounding<Real>(format, projection, seed,
                        [&]<int Size, class Rounding>(const Rounding& rounding) {
                            if constexpr (std::is_same_v<Rounding, RuleRounding<Real>> ||
                                          std::is_same_v<Real, double>) {
                                call.template operator()<Size>(rounding, by_codec);
                            } else if (std::optional<CodeMap> map =
                                           make_code_plan(format, projection.keep_payload)) {
                                if (has_nan_code) map->nan_code = codec.nan_code;
                                call.template operator()<8>(rounding, MapEncoder{*map});
                            } else {
                                call.template operator()<8>(rounding, by_codec);
                            }
                        });
}

// Calls f(step) with the DecodeStep of n codes. `wide_at`, unless null, receives the index of the
// first code that is wider than the format.
template <class Real, class Code, class F>
void with_decode_step(const Code* in, Real* out, std::size_t n, const FloatFormat& format,
                      bool keep_payload, unsigned long long* wide_at, F&& f) {
    const auto call = [&](const auto& decoder) {
        using Decoder = std::remove_cvref_t<decltype(decoder)>;
        f(DecodeStep<Code, Decoder, 4>{in, out, {n, 0}, decoder, format.storage_bits(), wide_at});
    };
    if constexpr (std::is_same_v<Real, float>) {
        if (const std::optional<CodeMap> map = make_code_plan(format, keep_payload))
            return call(MapDecoder{*map});
    }
    CodecDecoder<Real> by_codec{make_codec<Real>(format)};
    by_codec.codec.keep_payload = keep_payload;
    call(by_codec);
}

}  // namespace apscope::detail
