#include "bindings/cpp/apscope/quantizer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/overlap.h"
#include "core/error.h"
#include "core/float_environment.h"
#include "core/float_format.h"
#include "core/philox.h"
#include "core/projection.h"
#include "core/rounding.h"
#include "core/wide_number.h"
#include "emulation/cast/code_types.h"
#include "emulation/cast/quantize.h"
#include "emulation/cast/quantize_scaled.h"

namespace apscope {

struct Quantizer::Prepared {
    FloatFormat format;
    Projection projection;
    std::uint64_t seed = 0;
    int threads = 1;
    detail::RandomStream stream{};
    // Set if all values of the format are fp32 numbers.
    std::optional<detail::ArrayQuantizer<float>> narrow;
    std::optional<detail::ArrayQuantizer<double>> wide;

    template <class Real>
    const detail::Cast<Real>& cast() const {
        if constexpr (std::is_same_v<Real, float>) return narrow->cast();
        else return wide->cast();
    }
    // If the format's values are not fp32 numbers, detail::quantize() throws and states the reason.
    void round(std::span<const float> in, std::span<float> out,
               const detail::RandomSource& random) const {
        if (narrow) (*narrow)(in, out, random, threads);
        else detail::quantize(in, out, format, projection);
    }
    void round(std::span<const double> in, std::span<double> out,
               const detail::RandomSource& random) const {
        (*wide)(in, out, random, threads);
    }
};

namespace {

// Rounds one number. The functions compute with integers, and their floating-point operations have
// exact normal results, so the calling thread's rounding mode and flushing of subnormals change
// nothing.
struct RoundOneNumber {
    template <RoundingMode M, bool Plain, class Prepared, class Real>
    static Real run(const Prepared& p, Real x, std::uint64_t element) {
        const detail::Cast<Real> cast = detail::assume_plain<Plain>(p.template cast<Real>());
        if constexpr (M == RoundingMode::stochastic_exact) {
            return detail::round_to_format<M, Real>(x, cast,
                                                    detail::StreamWord{&p.stream, element});
        } else if constexpr (is_stochastic(M)) {
            return detail::round_to_format<M, Real>(x, cast, p.stream.at(element));
        } else {
            return detail::round_to_format<M, Real>(x, cast, std::uint64_t{0});
        }
    }
    template <class Prepared, class Real>
    static auto of(const Prepared& p) -> Real (*)(const Prepared&, Real, std::uint64_t) {
        return detail::dispatch(p.projection.rounding, [&]<RoundingMode M> {
            return detail::is_plain(p.template cast<Real>()) ? &run<M, true, Prepared, Real>
                                                             : &run<M, false, Prepared, Real>;
        });
    }
    template <class Prepared>
    static float refuse(const Prepared& p, float x, std::uint64_t) {
        p.round(std::span<const float>(&x, 1), std::span<float>(&x, 1), {});
        return x;
    }
};

// The 126 leading bits of x; the lowest one is set if any bit below it is.
detail::WideNumber wide_number(const ExactNumber& x) {
    using Wide = unsigned __int128;
    const Wide significand = static_cast<Wide>(x.high) << 64 | x.low;
    const int leading = significand == 0 ? -1 : detail::leading_bit(significand);
    if (leading > 125 || (x.inexact && leading < 121)) {
        throw error("an exact number has at most 126 bits, and an inexact one at least 122, not " +
                    std::to_string(leading + 1));
    }
    if (significand == 0) return {0, 0, x.negative};
    // Beyond these exponents every format overflows, or draws and ties depend only on the number
    // being nonzero.
    const long exponent = std::clamp(x.exponent, -2500L, 2500L);
    detail::WideNumber w = detail::aligned(significand, static_cast<int>(exponent), x.negative);
    if (x.inexact) w.significand |= 1;
    return w;
}

}  // namespace

Quantizer::Quantizer(const FloatFormat& format, const Projection& projection, std::uint64_t seed,
                     int threads) try {
    validate(format);
    validate(projection, format);
    if (threads < 0)
        throw error("threads=" + std::to_string(threads) +
                    " is negative; 0 uses all of the machine's");
    auto prepared = std::make_shared<Prepared>();
    prepared->format = format;
    prepared->projection = projection;
    prepared->seed = seed;
    prepared->threads = threads;
    prepared->stream = detail::array_stream(seed, projection.drawn_bits());
    prepared->wide.emplace(format, projection);
    round_double_ = RoundOneNumber::of<Prepared, double>(*prepared);
    if (format.fits_fp32()) {
        prepared->narrow.emplace(format, projection);
        round_float_ = RoundOneNumber::of<Prepared, float>(*prepared);
    } else {
        round_float_ = &RoundOneNumber::refuse<Prepared>;
    }
    prepared_ = std::move(prepared);
} catch (...) {
    detail::throw_error();
}

const FloatFormat& Quantizer::format() const { return prepared_->format; }
const Projection& Quantizer::projection() const { return prepared_->projection; }
std::uint64_t Quantizer::seed() const { return prepared_->seed; }
int Quantizer::threads() const { return prepared_->threads; }

double Quantizer::operator()(const ExactNumber& x, std::uint64_t element) const try {
    const Prepared& p = *prepared_;
    require_counted(p.projection.rounding, "a number beyond fp64");
    if (x.high == 0 && x.low == 0 && !x.inexact) return (*this)(x.negative ? -0.0 : 0.0, element);
    const detail::FloatEnvironment environment;
    const detail::WideNumber w = wide_number(x);
    if (p.wide->cast().input_floor != 0 &&
        detail::compare_magnitude(w, p.wide->cast().input_floor) < 0)
        return (*this)(x.negative ? -0.0 : 0.0, element);
    return detail::dispatch(p.projection.rounding, [&]<RoundingMode M>() -> double {
        if constexpr (M == RoundingMode::stochastic_exact) return 0.0;  // require_counted() threw
        else
            return detail::wide_to_format<M>(w, p.wide->cast(),
                                             is_stochastic(M) ? p.stream.at(element) : 0);
    });
} catch (...) {
    detail::throw_error();
}

void Quantizer::operator()(std::span<const float> in, std::span<float> out,
                           std::uint64_t first) const try {
    refuse_part(in, out);
    prepared_->round(in, out, {prepared_->seed, first, {}});
} catch (...) {
    detail::throw_error();
}
void Quantizer::operator()(std::span<const double> in, std::span<double> out,
                           std::uint64_t first) const try {
    refuse_part(in, out);
    prepared_->round(in, out, {prepared_->seed, first, {}});
} catch (...) {
    detail::throw_error();
}
void Quantizer::scaled(double scale, std::span<const float> in, std::span<float> out,
                       std::uint64_t first) const try {
    refuse_part(in, out);
    const Prepared& p = *prepared_;
    detail::quantize_scaled(in, out, scale, p.format, p.projection, {p.seed, first, {}}, p.threads);
} catch (...) {
    detail::throw_error();
}
void Quantizer::scaled(double scale, std::span<const double> in, std::span<double> out,
                       std::uint64_t first) const try {
    refuse_part(in, out);
    const Prepared& p = *prepared_;
    detail::quantize_scaled(in, out, scale, p.format, p.projection, {p.seed, first, {}}, p.threads);
} catch (...) {
    detail::throw_error();
}
std::uint64_t Quantizer::encode(double x, std::optional<std::uint64_t> nan_code,
                                std::uint64_t element) const {
    std::uint64_t code = 0;
    encode_span(std::span<const double>(&x, 1), std::span<std::uint64_t>(&code, 1), nan_code,
                element);
    return code;
}
double Quantizer::decode(std::uint64_t code) const {
    double value = 0.0;
    decode_span(std::span<const std::uint64_t>(&code, 1), std::span<double>(&value, 1));
    return value;
}

template <class Real, class Code>
void Quantizer::encode_span(std::span<const Real> values, std::span<Code> codes,
                            std::optional<std::uint64_t> nan_code, std::uint64_t first) const try {
    const detail::FloatEnvironment environment;
    detail::encode<Real, Code>(values, codes, prepared_->format, prepared_->projection, nan_code,
                               {prepared_->seed, first, {}}, prepared_->threads);
} catch (...) {
    detail::throw_error();
}
template <class Code, class Real>
void Quantizer::decode_span(std::span<const Code> codes, std::span<Real> values) const try {
    const detail::FloatEnvironment environment;
    detail::decode<Code, Real>(codes, values, prepared_->format, prepared_->projection.keep_payload,
                               prepared_->threads);
} catch (...) {
    detail::throw_error();
}

#define APSCOPE_CODES(Real, Code)                                                            \
    template void Quantizer::encode_span(std::span<const Real>, std::span<Code>,             \
                                         std::optional<std::uint64_t>, std::uint64_t) const; \
    template void Quantizer::decode_span(std::span<const Code>, std::span<Real>) const;
APSCOPE_FOR_CODE_TYPES(APSCOPE_CODES)
#undef APSCOPE_CODES

}  // namespace apscope
