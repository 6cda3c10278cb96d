// integer_allreduce: fixed-point numbers with one scale per chunk, on which the workers agree, so
// that switches or integer additions can sum the codes exactly and in any order.
//
//      B = max over workers and elements of |x|      agreed by MAX for each chunk
//      F = (2^(b-1) - H) / (H B)
//      f = the largest power of two at most F, or F itself
//      q = round(f x)              |q| <= 2^(b-1) - 1
//      y = (sum of q) / f          H = W: no sum overflows; smaller H: sums wrap or saturate
//
// With rounding to nearest, the error of a sum without overflow is at most W / (2 f). Sums that
// wrap are sums of two's complement integers, which do not depend on the order of additions; sums
// that saturate are computed in rank order. IntSGD is this scheme with stochastic rounding.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/parse.h"
#include "emulation/draws/random_words.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/shared/headroom.h"

namespace apscope::detail {

namespace {

// Computes q = scale x, rounded to the nearest integer, ties to even.
struct RoundToIntegers {
    static APSCOPE_INLINE void run(const double* x, const double* scale, std::size_t count,
                                   double* codes, double* values) {
#pragma GCC ivdep  // the results do not overlap the inputs
        for (std::size_t i = 0; i < count; ++i) {
            const double v = x[i] * scale[i], low = std::floor(v), rest = v - low, half = low * 0.5;
            const bool odd = std::floor(half) != half;
            const double q = (rest > 0.5) | ((rest == 0.5) & odd) ? low + 1.0 : low;
            codes[i] = q;
            values[i] = q / scale[i];
        }
    }
};
struct DrawIntegers {
    static APSCOPE_INLINE void run(const double* x, const double* scale, const double* random,
                                   double words_count, std::size_t count, double* codes,
                                   double* values, double* bias, double* variance) {
#pragma GCC ivdep  // the results do not overlap the inputs
        for (std::size_t i = 0; i < count; ++i) {
            const double f = scale[i], v = x[i] * f, low = std::floor(v);
            const double up = std::floor((v - low) * words_count), p = up / words_count;
            const double q = low + (up + random[i] >= words_count ? 1.0 : 0.0);
            bias[i] = (low + p) / f - x[i];
            variance[i] = p * (1.0 - p) / f / f;
            codes[i] = q;
            values[i] = q / f;
        }
    }
};

// A sum of b-bit integers that overflows: wrapped() adds a multiple of 2^b to it, saturated()
// replaces it by the nearer end of the range. half: 2^(b-1).
double wrapped(double sum, double half) {
    return sum - 2.0 * half * std::floor((sum + half) / (2.0 * half));
}
double saturated(double sum, double half) { return std::clamp(sum, -half, half - 1.0); }

struct FixedPoint {
    std::size_t chunk;
    int bits, random_bits;
    bool stochastic, power_of_two;
    Headroom headroom;
    bool wraps;

    // The number 2^(b-1).
    double half() const { return std::ldexp(1.0, bits - 1); }
    // The headroom H for this number of workers: a sum of H codes does not overflow.
    double room(std::size_t workers) const {
        const auto all = static_cast<double>(workers);
        return headroom == Headroom::workers ? all
               : headroom == Headroom::one   ? 1.0
                                             : std::sqrt(all);
    }

    // The factor f of every chunk; 1 for a chunk of zeros.
    Row factors(std::span<const RowReader> rows) const {
        const double h = room(rows.size());
        Row factor((rows[0].size + chunk - 1) / chunk, 0.0);
        for (const RowReader& row : rows) raise_to_amax(row, chunk, factor);
        for (double& f : factor) {
            const double amax = f;
            // There are two divisions, because h * amax may overflow fp64.
            f = amax == 0.0 ? 1.0 : (half() - h) / h / amax;
            // f is rounded, so f * amax might exceed the largest integer.
            while (headroom == Headroom::one && f * amax > half() - 1.0) f = std::nextafter(f, 0.0);
            int exponent = 0;
            if (power_of_two && amax != 0.0) {
                std::frexp(f, &exponent);
                f = std::ldexp(1.0, exponent - 1);
            }
        }
        return factor;
    }

    // Writes the factors of `count` elements from `first` on.
    void scales(const Row& factor, std::size_t first, std::size_t count, double* scale) const {
        for (std::size_t i = 0; i < count;) {
            const std::size_t end = std::min(count, i + chunk - (first + i) % chunk);
            std::fill(scale + i, scale + end, factor[(first + i) / chunk]);
            i = end;
        }
    }

    void encode(const RowPiece& p, const Row& factor, Message& m) const {
        const std::size_t n = p.x.size();
        m.prepare(n, true, stochastic);
        double scale[random_group], random[random_group];
        for (std::size_t begin = 0; begin < n; begin += random_group) {
            const std::size_t count = std::min(random_group, n - begin);
            scales(factor, p.place.first + begin, count, scale);
            const double* part = p.x.data() + begin;
            double *codes = m.codes.data() + begin, *values = m.values.data() + begin;
            if (!stochastic) {
                simd::run<RoundToIntegers>(part, static_cast<const double*>(scale), count, codes,
                                           values);
                continue;
            }
            random_words(p.stream(random_bits), p.place.first + begin, count, random);
            simd::run<DrawIntegers>(part, static_cast<const double*>(scale),
                                    static_cast<const double*>(random),
                                    std::ldexp(1.0, random_bits), count, codes, values,
                                    m.bias.data() + begin, m.variance.data() + begin);
        }
        m.payload_bits = n * static_cast<std::uint64_t>(bits);
        m.side_bits = factor.size() * (power_of_two ? 8 : 32);
        if (!p.packs()) return;
        BitWriter packed;
        for (const double q : m.codes)
            packed.put(static_cast<std::uint64_t>(static_cast<std::int64_t>(q)), bits);
        m.payload = packed.take();
    }

    void sum_integers(const std::vector<Message>& sent, Row& sum) const {
        if (headroom == Headroom::workers || wraps) sum_of_codes(sent, sum);
        if (headroom == Headroom::workers) return;
        if (wraps) {
            for (double& s : sum) s = wrapped(s, half());
            return;
        }
        sum.assign(sent.at(0).codes.size(), 0.0);
        for (const Message& m : sent)
            for (std::size_t i = 0; i < sum.size(); ++i)
                sum[i] = saturated(sum[i] + m.codes[i], half());
    }

    void add(const SentPieces& s, const Row& factor, Row& sum) const {
        sum_integers(s.messages, sum);
        double scale[random_group];
        for (std::size_t begin = 0; begin < sum.size(); begin += random_group) {
            const std::size_t count = std::min(random_group, sum.size() - begin);
            scales(factor, s.place.first + begin, count, scale);
            for (std::size_t i = 0; i < count; ++i) sum[begin + i] /= scale[i];
        }
    }
};

struct Factors {
    Row of_chunk;

    void fields(Fields& f) { f.row("factor", of_chunk); }
};

SchemeParts parts_of(const SchemeArguments& arguments) {
    constexpr std::array<std::string_view, 2> roundings{"ties_to_even", "stochastic"},
        scales{"power_of_two", "real"}, overflows{"wrap", "saturate"};
    FixedPoint f;
    f.bits = static_cast<int>(arguments.integer("bits", 2, 32));
    f.chunk = static_cast<std::size_t>(arguments.integer("chunk", 1, largest_count));
    f.random_bits = static_cast<int>(arguments.integer("random_bits", 1, 53));
    f.stochastic = arguments.choice("rounding", roundings) == "stochastic";
    f.power_of_two = arguments.choice("scale", scales) == "power_of_two";
    f.headroom = headroom_of(arguments);
    f.wraps = arguments.choice("sum_overflow", overflows) == "wrap";
    const auto select = [f](const Selection& s) {
        if (f.room(static_cast<std::size_t>(s.step.workers)) >= f.half()) {
            throw std::invalid_argument("integer_allreduce with bits=" + std::to_string(f.bits) +
                                        " has no room for " + std::to_string(s.step.workers) +
                                        " workers; give more bits or less headroom");
        }
        Parameters theta;
        Row& factors = theta.extra.of<Factors>().of_chunk;
        factors = f.factors(s.rows);
        theta.scale_exponent = common_exponent(factors);
        return theta;
    };
    return {
        .grid = "int" + std::to_string(f.bits),
        .topology = std::string(reductions::code_sum),
        // Sums are as wide as codes, because the scale leaves room for the sum, or sums wrap or
        // saturate.
        .transport = {.agreed_bits = all_side_bits},
        .choice = {.select = select},
        .encoding = {.encode = [f](const RowPiece& p,
                                   Message& m) { f.encode(p, p.theta.of<Factors>().of_chunk, m); },
                     .reduce = [f](const SentPieces& s,
                                   Row& sum) { f.add(s, s.theta.of<Factors>().of_chunk, sum); },
                     .draws = f.stochastic,
                     .is_exact_sum = f.headroom == Headroom::workers}};
}

}  // namespace

SchemeDefinition integer_allreduce_definition() {
    return {.class_name = "IntegerAllReduce",
            .summary = "fixed point with an agreed scale per chunk; integers are added exactly",
            .source = "Sapio et al., SwitchML, NSDI 2021 (arXiv:1903.06701); Mishchenko et al., "
                      "IntSGD, ICLR 2022 (arXiv:2102.08374)",
            .needs = "gradients",
            .keys = {{"bits", "32", "bits of an integer, 2 to 32"},
                     {"chunk", "256", "consecutive elements that share a scale"},
                     {"rounding", "ties_to_even", "ties_to_even or stochastic"},
                     {"scale", "power_of_two", "power_of_two or real"},
                     headroom_key("workers", "room left for the sum: workers (it never overflows), "
                                             "sqrt_workers or one"),
                     {"sum_overflow", "wrap",
                      "a sum beyond its bits: wrap (two's complement) or saturate (after every "
                      "addition, in rank order)"},
                     {"random_bits", "32", "random bits of stochastic rounding, 1 to 53"},
                     correlated_key},
            .build = parts_of};
}

}  // namespace apscope::detail
