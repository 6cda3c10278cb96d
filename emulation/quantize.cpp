#include "emulation/quantize.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/codec.h"
#include "core/float_environment.h"
#include "emulation/parallel.h"
#include "emulation/quantize_kernels.h"
#include "emulation/simd.h"

namespace apscope {

namespace {

// Work is handed out in pieces of this many elements: a multiple of every Philox block.
constexpr std::size_t piece = std::size_t{1} << 16;

template <class Work>
void for_pieces(std::size_t count, int threads, Work&& work) {
    const FloatEnvironment environment;
    threads = thread_count(threads);
    const std::size_t pieces = (count + piece - 1) / piece;
    const auto run = [&](std::size_t p) { work(p * piece, std::min(piece, count - p * piece)); };
    if (pieces <= 1 || threads == 1) {
        for (std::size_t p = 0; p < pieces; ++p) run(p);
    } else {
        parallel_for(pieces, threads, run);
    }
}

void check_lengths(std::size_t in, std::size_t out) {
    if (in != out) {
        throw std::invalid_argument("the output holds " + std::to_string(out) + " elements, the input " + std::to_string(in) +
                                    "; they must agree");
    }
}

template <class Code>
void encode_array(std::span<const float> in, std::span<Code> out, const FloatFormat& format, const Projection& projection,
                  std::optional<std::uint32_t> nan_code, std::uint64_t seed, int threads) {
    check_lengths(in.size(), out.size());
    if (format.storage_bits() > static_cast<int>(sizeof(Code) * 8)) {
        throw std::invalid_argument(format.name() + " codes have " + std::to_string(format.storage_bits()) +
                                    " bits, more than the output's " + std::to_string(sizeof(Code) * 8));
    }
    Codec codec = make_codec(format);
    if (nan_code) {
        if (format.storage_bits() < 32 && *nan_code >> format.storage_bits() != 0) {
            throw std::invalid_argument("nan=" + std::to_string(*nan_code) + " is no code of " + format.name() + ", which has " +
                                        std::to_string(format.storage_bits()) + " bits");
        }
        if (!format.has_nan()) codec.nan_code = *nan_code;
    } else if (!format.has_nan()) {
        for (std::size_t i = 0; i < in.size(); ++i) {
            if (in[i] != in[i]) {
                throw std::invalid_argument("element " + std::to_string(i) + " is NaN, which " + format.name() +
                                            " cannot hold; give nan= a code to put there");
            }
        }
    }
    for_pieces(in.size(), threads, [&](std::size_t begin, std::size_t count) {
        constexpr std::size_t step = 1024;
        float rounded[step];
        for (std::size_t i = begin; i < begin + count; i += step) {
            const std::size_t n = std::min(step, begin + count - i);
            quantize(in.subspan(i, n), std::span(rounded, n), format, projection, seed, 1, i);
            for (std::size_t j = 0; j < n; ++j) out[i + j] = static_cast<Code>(encode_one(rounded[j], codec));
        }
    });
}

template <class Code>
void decode_array(std::span<const Code> in, std::span<float> out, const FloatFormat& format, int threads) {
    check_lengths(in.size(), out.size());
    const int bits = format.storage_bits();
    if (bits < static_cast<int>(sizeof(Code) * 8)) {
        for (std::size_t i = 0; i < in.size(); ++i) {
            if (in[i] >> bits != 0) {
                throw std::invalid_argument("code " + std::to_string(in[i]) + " at element " + std::to_string(i) + " is wider than " +
                                            format.name() + ", which has " + std::to_string(bits) + " bits");
            }
        }
    }
    const Codec codec = make_codec(format);
    for_pieces(in.size(), threads, [&](std::size_t begin, std::size_t count) {
        for (std::size_t i = begin; i < begin + count; ++i) out[i] = decode_one(in[i], codec);
    });
}

}  // namespace

void quantize(std::span<const float> in, std::span<float> out, const FloatFormat& format, const Projection& projection,
              std::uint64_t seed, int threads, std::uint64_t first_element) {
    check_lengths(in.size(), out.size());
    const Cast<float> cast = make_cast<float>(format, projection);
    const RandomStream stream = array_stream(seed, projection.random_bits);
    for_pieces(in.size(), threads, [&](std::size_t begin, std::size_t count) {
        dispatch(projection.rounding, [&]<RoundingMode M>() {
            if constexpr (M == RoundingMode::stochastic) {
                simd::run<QuantizeStochastic>(in.data() + begin, out.data() + begin, count, &cast, &stream, first_element + begin);
            } else if (M == RoundingMode::ties_to_even && magic_addition_serves(format, cast)) {
                simd::run<QuantizeByAddition>(in.data() + begin, out.data() + begin, count, &cast);
            } else if (cast.gap_high != 0) {
                simd::run<QuantizeByRule<M, true>>(in.data() + begin, out.data() + begin, count, &cast);
            } else {
                simd::run<QuantizeByRule<M, false>>(in.data() + begin, out.data() + begin, count, &cast);
            }
        });
    });
}

void quantize(std::span<const double> in, std::span<double> out, const FloatFormat& format, const Projection& projection,
              std::uint64_t seed, int threads, std::uint64_t first_element) {
    check_lengths(in.size(), out.size());
    const Cast<double> cast = make_cast<double>(format, projection);
    const RandomStream stream = array_stream(seed, projection.random_bits);
    for_pieces(in.size(), threads, [&](std::size_t begin, std::size_t count) {
        dispatch(projection.rounding, [&]<RoundingMode M>() {
            for (std::size_t i = begin; i < begin + count; ++i) {
                const std::uint64_t random = M == RoundingMode::stochastic ? stream.at(first_element + i) : 0;
                out[i] = round_to_format<M, double>(in[i], cast, random);
            }
        });
    });
}

void narrow(std::span<const double> in, std::span<float> out) {
    check_lengths(in.size(), out.size());
    const FloatEnvironment environment;
    for (std::size_t i = 0; i < in.size(); ++i) out[i] = static_cast<float>(in[i]);
}

void quantize_by_rule(std::span<const float> in, std::span<float> out, const FloatFormat& format,
                      const Projection& projection, std::uint64_t seed, std::uint64_t first_element) {
    check_lengths(in.size(), out.size());
    const FloatEnvironment environment;
    const Cast<float> cast = make_cast<float>(format, projection);
    const RandomStream stream = array_stream(seed, projection.random_bits);
    dispatch(projection.rounding, [&]<RoundingMode M>() {
        if constexpr (M == RoundingMode::stochastic) {
            for (std::size_t i = 0; i < in.size(); ++i) {
                out[i] = round_to_format<M, float>(in[i], cast, stream.at(first_element + i));
            }
        } else if (cast.gap_high != 0) {
            simd::run<QuantizeByRule<M, true>>(in.data(), out.data(), in.size(), &cast);
        } else {
            simd::run<QuantizeByRule<M, false>>(in.data(), out.data(), in.size(), &cast);
        }
    });
}

#define APSCOPE_CODE_TYPE(Code)                                                                                              \
    void encode(std::span<const float> in, std::span<Code> out, const FloatFormat& format, const Projection& projection,     \
                std::optional<std::uint32_t> nan_code, std::uint64_t seed, int threads) {                                     \
        encode_array(in, out, format, projection, nan_code, seed, threads);                                                  \
    }                                                                                                                        \
    void decode(std::span<const Code> in, std::span<float> out, const FloatFormat& format, int threads) {                    \
        decode_array(in, out, format, threads);                                                                              \
    }
APSCOPE_CODE_TYPE(std::uint8_t)
APSCOPE_CODE_TYPE(std::uint16_t)
APSCOPE_CODE_TYPE(std::uint32_t)
#undef APSCOPE_CODE_TYPE

}  // namespace apscope
