#include "emulation/cast/quantize.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "core/codec.h"
#include "core/float_environment.h"
#include "emulation/cast/code_types.h"
#include "emulation/cast/quantize_codes.h"
#include "emulation/cast/quantize_job.h"
#include "emulation/machine/parallel.h"
#include "emulation/machine/streaming.h"

namespace apscope::detail {

namespace {

// The number of elements in a piece of work: a multiple of the elements per Philox block for any
// random_bits.
constexpr std::size_t piece = std::size_t{1} << 16;

template <class Work>
void for_pieces(std::size_t count, int threads, Work&& work) {
    parallel_pieces(count / piece + (count % piece != 0), threads,
                    [&](std::size_t p) { work(p * piece, std::min(piece, count - p * piece)); });
}

void check_lengths(std::size_t in, std::size_t out) {
    if (in != out) {
        throw std::invalid_argument("the output has " + std::to_string(out) +
                                    " elements, the input " + std::to_string(in) +
                                    "; they must agree");
    }
}

// Throws std::invalid_argument unless the caller's random integers are one per element, of N bits
// each.
void check_words(const RandomSource& random, std::size_t count, const Projection& projection) {
    if (!random.words) return;
    if (!is_stochastic(projection.rounding)) {
        throw std::invalid_argument("random is given, but rounding='" +
                                    std::string(to_string(projection.rounding)) +
                                    "' draws nothing; leave it out or use a stochastic rounding");
    }
    if (projection.rounding == RoundingMode::stochastic_exact) {
        throw std::invalid_argument("random is given, but rounding='stochastic_exact' takes as "
                                    "many random bits as a number needs; "
                                    "use 'stochastic' with random_bits, or a seed");
    }
    if (random.words->size() != count) {
        throw std::invalid_argument("random holds " + std::to_string(random.words->size()) +
                                    " integers, the input " + std::to_string(count) +
                                    " elements; they must agree");
    }
    if (projection.random_bits == 64) return;
    for (std::size_t i = 0; i < count; ++i) {
        if ((*random.words)[i] >> projection.random_bits != 0) {
            throw std::invalid_argument("random holds " + std::to_string((*random.words)[i]) +
                                        " at element " + std::to_string(i) +
                                        ", which has more than random_bits=" +
                                        std::to_string(projection.random_bits) + " bits");
        }
    }
}

template <class Real>
CastPlan<Real> checked_plan(const FloatFormat& format, const Projection& projection,
                            bool by_rule = false) {
    if constexpr (std::is_same_v<Real, float>) require_fp32(format, "an array of fp32 numbers");
    validate(projection, format);
    return by_rule ? make_rule_plan<Real>(format, projection) : make_plan<Real>(format, projection);
}

template <class Real>
QuantizeJob<Real> make_job(std::size_t count, const CastPlan<Real>& plan,
                           const Projection& projection, const RandomSource& random) {
    check_words(random, count, projection);
    return {plan, array_stream(random.seed, projection.drawn_bits()), random};
}

// The number of elements of `out` before the first cache line that begins in it. These elements are
// rounded separately, because a vector store across two lines costs two stores (NumPy's large
// arrays begin 16 bytes after the start of a line). The number is 0 for short arrays, and for
// stochastic modes, whose pieces are complete Philox blocks.
template <class Real>
std::size_t before_first_line(std::span<const Real> out, RoundingMode rounding) {
    constexpr std::size_t line = 64, shortest = 1024;
    if (out.size() < shortest || is_stochastic(rounding)) return 0;
    return (line - reinterpret_cast<std::uintptr_t>(out.data()) % line) % line / sizeof(Real);
}

template <class Real>
void quantize_array(std::span<const Real> in, std::span<Real> out, const CastPlan<Real>& plan,
                    const Projection& projection, const RandomSource& random, int threads) {
    check_lengths(in.size(), out.size());
    const QuantizeJob<Real> job = make_job<Real>(in.size(), plan, projection, random);
    const bool streams = in.size() * sizeof(Real) >= streaming_bytes;
    const std::size_t head = streams ? 0 : before_first_line<Real>(out, projection.rounding);
    if (head > 0) {
        const FloatEnvironment environment;
        quantize_piece<Real>(job, in.data(), out.data(), 0, head);
    }
    for_pieces(in.size() - head, threads, [&](std::size_t begin, std::size_t count) {
        begin += head;
        (streams ? streamed_piece<Real> : quantize_piece<Real>)(job, in.data() + begin,
                                                                out.data() + begin, begin, count);
    });
}

}  // namespace

template <class Real>
ArrayQuantizer<Real>::ArrayQuantizer(const FloatFormat& format, const Projection& projection)
    : projection_(projection), plan_(checked_plan<Real>(format, projection)) {}
template <class Real>
void ArrayQuantizer<Real>::operator()(std::span<const Real> in, std::span<Real> out,
                                      const RandomSource& random, int threads) const {
    quantize_array(in, out, plan_, projection_, random, threads);
}
template class ArrayQuantizer<float>;
template class ArrayQuantizer<double>;

void quantize(std::span<const float> in, std::span<float> out, const FloatFormat& format,
              const Projection& projection, const RandomSource& random, int threads) {
    ArrayQuantizer<float>(format, projection)(in, out, random, threads);
}
void quantize(std::span<const double> in, std::span<double> out, const FloatFormat& format,
              const Projection& projection, const RandomSource& random, int threads) {
    ArrayQuantizer<double>(format, projection)(in, out, random, threads);
}

// Applies the rule and draws random words one by one, not in blocks.
template <class Real>
void quantize_array_by_rule(std::span<const Real> in, std::span<Real> out,
                            const FloatFormat& format, const Projection& projection,
                            const RandomSource& random) {
    if (!is_stochastic(projection.rounding) || random.words)
        return quantize_array(in, out, checked_plan<Real>(format, projection, true), projection,
                              random, 1);
    check_lengths(in.size(), out.size());
    const FloatEnvironment environment;
    const QuantizeJob<Real> job =
        make_job<Real>(in.size(), checked_plan<Real>(format, projection), projection, random);
    for (std::size_t i = 0; i < in.size(); ++i) {
        const std::uint64_t element = random.first_element + i;
        out[i] = job.plan.path == CastPath::digits
                     ? round_to_format<RoundingMode::stochastic_exact, Real>(
                           in[i], job.plan.cast, StreamWord{&job.stream, element})
                     : round_one<Real>(in[i], job.plan.cast, job.stream.at(element));
    }
}
void quantize_by_rule(std::span<const float> in, std::span<float> out, const FloatFormat& format,
                      const Projection& projection, const RandomSource& random) {
    quantize_array_by_rule(in, out, format, projection, random);
}
void quantize_by_rule(std::span<const double> in, std::span<double> out, const FloatFormat& format,
                      const Projection& projection, const RandomSource& random) {
    quantize_array_by_rule(in, out, format, projection, random);
}

void narrow(std::span<const double> in, std::span<float> out) {
    check_lengths(in.size(), out.size());
    const FloatEnvironment environment;
    for (std::size_t i = 0; i < in.size(); ++i) out[i] = static_cast<float>(in[i]);
}

void widen(std::span<const float> in, std::span<double> out) {
    check_lengths(in.size(), out.size());
    const FloatEnvironment environment;
    for (std::size_t i = 0; i < in.size(); ++i) out[i] = in[i];
}

template <class Real, class Code>
void encode(std::span<const Real> in, std::span<Code> out, const FloatFormat& format,
            const Projection& projection, std::optional<std::uint64_t> nan_code,
            const RandomSource& random, int threads) {
    check_lengths(in.size(), out.size());
    const int bits = format.storage_bits();
    if (bits > static_cast<int>(sizeof(Code) * 8)) {
        throw std::invalid_argument(format.name() + " codes have " + std::to_string(bits) +
                                    " bits, more than the output's " +
                                    std::to_string(sizeof(Code) * 8));
    }
    const QuantizeJob<Real> job =
        make_job<Real>(in.size(), checked_plan<Real>(format, projection), projection, random);
    BasicCodec<Real> codec = make_codec<Real>(format);
    if (nan_code) {
        if (bits < 64 && *nan_code >> bits != 0) {
            throw std::invalid_argument("the code for NaN, " + std::to_string(*nan_code) +
                                        ", is not a code of " + format.name() + ", which has " +
                                        std::to_string(bits) + " bits");
        }
        if (!format.has_nan()) codec.nan_code = static_cast<BitsOf<Real>>(*nan_code);
    } else if (!format.has_nan()) {
        bool any = false;
        for (const Real x : in) any |= x != x;
        for (std::size_t i = 0; any; ++i) {
            if (in[i] != in[i]) {
                throw std::invalid_argument("element " + std::to_string(i) + " is NaN, which " +
                                            format.name() + " does not have; give a code for NaN");
            }
        }
    }
    std::optional<CodeMap> map;
    if constexpr (std::is_same_v<Real, float>) {
        map = make_code_plan(format, projection.keep_payload);
        if (map) map->nan_code = codec.nan_code;
        if (map && job.plan.path == CastPath::addition &&
            projection.rounding == RoundingMode::ties_to_even) {
            const AdditionCodes codes{job.plan.addition, *map};
            for_pieces(in.size(), threads, [&](std::size_t begin, std::size_t count) {
                simd::run<EncodeByAddition<Code>>(in.data() + begin, out.data() + begin, count,
                                                  &codes);
            });
            return;
        }
    }
    for_pieces(in.size(), threads, [&](std::size_t begin, std::size_t count) {
        constexpr std::size_t step = 1024;
        Real rounded[step];
        for (std::size_t i = begin; i < begin + count; i += step) {
            const std::size_t n = std::min(step, begin + count - i);
            quantize_piece<Real>(job, in.data() + i, rounded, i, n);
            if constexpr (std::is_same_v<Real, float>) {
                if (map) {
                    simd::run<EncodeValues<Code>>(static_cast<const float*>(rounded),
                                                  out.data() + i, n,
                                                  static_cast<const CodeMap*>(&*map));
                    continue;
                }
            }
            for (std::size_t j = 0; j < n; ++j)
                out[i + j] = static_cast<Code>(encode_one<Real>(rounded[j], codec));
        }
    });
}

template <class Code, class Real>
void decode(std::span<const Code> in, std::span<Real> out, const FloatFormat& format,
            bool keep_payload, int threads) {
    check_lengths(in.size(), out.size());
    if constexpr (std::is_same_v<Real, float>) require_fp32(format, "an array of fp32 numbers");
    const int bits = format.storage_bits();
    if (bits < static_cast<int>(sizeof(Code) * 8)) {
        std::uint64_t all = 0;
        for (const Code code : in) all |= code;
        for (std::size_t i = 0; all >> bits != 0; ++i) {
            if (in[i] >> bits != 0) {
                throw std::invalid_argument("code " + std::to_string(in[i]) + " at element " +
                                            std::to_string(i) + " is wider than " + format.name() +
                                            ", which has " + std::to_string(bits) + " bits");
            }
        }
    }
    BasicCodec<Real> codec = make_codec<Real>(format);
    codec.keep_payload = keep_payload;
    if constexpr (std::is_same_v<Real, float>) {
        if (const std::optional<CodeMap> map = make_code_plan(format, keep_payload)) {
            for_pieces(in.size(), threads, [&](std::size_t begin, std::size_t count) {
                simd::run<DecodeCodes<Code>>(in.data() + begin, out.data() + begin, count, &*map);
            });
            return;
        }
    }
    for_pieces(in.size(), threads, [&](std::size_t begin, std::size_t count) {
        for (std::size_t i = begin; i < begin + count; ++i)
            out[i] = decode_one<Real>(static_cast<BitsOf<Real>>(in[i]), codec);
    });
}

#define APSCOPE_CODES(Real, Code)                                                              \
    template void encode(std::span<const Real>, std::span<Code>, const FloatFormat&,           \
                         const Projection&, std::optional<std::uint64_t>, const RandomSource&, \
                         int);                                                                 \
    template void decode(std::span<const Code>, std::span<Real>, const FloatFormat&, bool, int);
APSCOPE_FOR_CODE_TYPES(APSCOPE_CODES)
#undef APSCOPE_CODES

}  // namespace apscope::detail
