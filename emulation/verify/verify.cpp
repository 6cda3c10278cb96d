#include "emulation/verify/verify.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/codec.h"
#include "core/oracle/cases.h"
#include "core/oracle/mpfr_oracle.h"
#include "core/oracle/rational_oracle.h"
#include "core/philox.h"
#include "core/rounding.h"
#include "emulation/cast/quantize.h"
#include "emulation/verify/chunks.h"
#include "emulation/verify/steps.h"
#include "emulation/verify/tally.h"

namespace apscope::detail::oracle {
namespace {

std::uint64_t mix(std::uint64_t x) {  // SplitMix64: random words from case numbers
    x += 0x9E3779B97F4A7C15;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

constexpr std::size_t most_words = 5;

// Sets `words` to the random words to test with x: the word `drawn`, all zeros, all ones, and the
// two neighbouring words between which the rounding changes.
void random_words(MpfrOracle& oracle, double x, const Projection& projection, std::uint64_t drawn,
                  std::vector<std::uint64_t>& words) {
    using Count = MpfrOracle::Count;
    const bool exact = projection.rounding == RoundingMode::stochastic_exact;
    const int bits = projection.drawn_bits(), spare = 64 - bits;
    const Count all = Count{1} << bits, up = oracle.up_count(x), turn = exact ? up : all - up;
    words = {drawn >> spare << spare, 0, ~std::uint64_t{0} << spare};
    if (turn > 0) words.push_back(static_cast<std::uint64_t>(turn - 1) << spare);
    if (turn < all) words.push_back(static_cast<std::uint64_t>(turn) << spare);
}

template <class Real>
class Verifier {
public:
    using Bits = BitsOfReal<Real>;
    static constexpr bool fp64 = std::is_same_v<Real, double>;

    Verifier(const FloatFormat& format, const Projection& projection, const VerifyOptions& options,
             const Progress& progress)
        : format_(format), projection_(projection), options_(options), progress_(progress),
          cast_(make_cast<Real>(format, projection)),
          wide_(format.storage_bits() > full_storage_bits) {}

    VerifyResult run() {
        const std::vector<Real> inputs = selected_cases();
        Tally tally = rule_against_oracles(inputs);
        if (!stopped_) tally.merge(array_against_rule(inputs));
        if (!stopped_) tally.merge(codes());
        if constexpr (!fp64) {
            if (!stopped_ && options_.exhaustive) tally.merge(all_inputs());
        }
        VerifyResult result{tally.cases, tally.mismatches, {}, stopped_};
        if (tally.mismatches > 0) {
            result.first = tally.first;
            result.first->projection = projection_;
            result.first->fp64 = fp64;
            add_neighbours(*result.first);
        }
        return result;
    }

private:
    bool stochastic() const { return is_stochastic(projection_.rounding); }
    RandomStream stream() const { return array_stream(options_.seed, projection_.drawn_bits()); }

    // Returns n if one case of n is compared in fp64. All values and midpoints of a format of fp32
    // numbers are compared in fp32, so in fp64 it is enough to compare as many cases as a format of
    // 12 bits has. n and 10, the number of cases around a value, have no common factor, so each of
    // the ten cases occurs.
    std::size_t fp64_thinning() const {
        const int more = std::min(format_.storage_bits(), full_storage_bits) - 12;
        if (!fp64 || !format_.fits_fp32() || more <= 0) return 1;
        return (std::size_t{1} << more) + (more % 2 != 0 ? 1 : 3);
    }

    std::vector<Real> selected_cases() const {
        const std::size_t random = wide_ ? options_.random_cases : options_.random_cases / 100;
        std::vector<Real> inputs = cases<Real>(format_, random, options_.seed);
        const std::size_t thinning = options_.thinning * fp64_thinning();
        if (thinning <= 1) return inputs;
        // Within 64 steps of zero, of the smallest normal number and of the largest number, no case
        // is omitted.
        const double least = 64 * format_.smallest_positive(), normal = format_.smallest_normal(),
                     largest = format_.largest();
        const double last_step = std::ldexp(64.0, format_.emax() - format_.mantissa_bits);
        std::size_t kept = 0, seen = 0;
        for (const Real x : inputs) {
            const double magnitude = std::fabs(static_cast<double>(x));
            const bool inside = magnitude > least && std::fabs(magnitude - normal) > least &&
                                magnitude < largest - last_step;
            if (!inside || seen++ % thinning == 0) inputs[kept++] = x;
        }
        inputs.resize(kept);
        return inputs;
    }

    Tally rule_against_oracles(const std::vector<Real>& inputs) {
        return dispatch(projection_.rounding, [&]<RoundingMode M>() {
            return in_chunks<Tally>(
                inputs.size(), 4096, options_.threads, progress_, stopped_, [&] {
                    return [&, mpfr = std::make_unique<MpfrOracle>(format_, projection_),
                            words = std::vector<std::uint64_t>{0},
                            rational = BasicRationalOracle<Real>(format_, projection_)](
                               std::uint64_t first, std::uint64_t last) mutable {
                        Tally tally;
                        for (std::uint64_t i = first; i < last; ++i) {
                            const Real x = inputs[i];
                            const bool twice = i % options_.rational_stride == 0;
                            if constexpr (is_stochastic(M))
                                random_words(*mpfr, x, projection_, mix(options_.seed ^ i), words);
                            std::array<Real, most_words> second;
                            if (twice) rational.project(x, words, second);
                            for (std::size_t k = 0; k < words.size(); ++k) {
                                const std::uint64_t random = words[k];
                                const Bits truth = bits_of(mpfr->project(x, random));
                                const Bits rule =
                                    bits_of(round_to_format<M, Real>(x, cast_, random));
                                tally.compare(i, "the rule against MPFR", bits_of(x), truth, rule,
                                              random);
                                if (twice)
                                    tally.compare(i, "the rule against exact rationals", bits_of(x),
                                                  bits_of(second[k]), rule, random);
                            }
                        }
                        return tally;
                    };
                });
        });
    }

    // One of the words from random_words() for every input; empty for deterministic modes, and for
    // stochastic_exact, for which callers cannot pass words.
    std::vector<std::uint64_t> turning_words(std::span<const Real> inputs) const {
        if (!stochastic() || projection_.rounding == RoundingMode::stochastic_exact) return {};
        MpfrOracle mpfr(format_, projection_);
        std::vector<std::uint64_t> result, words;
        result.reserve(inputs.size());
        for (std::uint64_t i = 0; i < inputs.size(); ++i) {
            const std::uint64_t drawn = mix(options_.seed ^ ~i);
            random_words(mpfr, inputs[i], projection_, drawn, words);
            result.push_back(words[drawn % words.size()]);
        }
        return result;
    }

    // Compares three runs over a complete array with single calls of the rule: the array path on
    // one thread with words from the seed; quantize_by_rule(), a plain loop over the rule; and the
    // array path on all threads, in place, from the second element, with words from the caller.
    Tally array_against_rule(const std::vector<Real>& inputs) {
        Tally tally;
        const RandomStream words_of_seed = stream();
        const auto compare = [&](const char* what, std::span<const Real> in,
                                 std::span<const Real> out, std::span<const std::uint64_t> words) {
            for (std::uint64_t i = 0; i < in.size(); ++i) {
                const std::uint64_t random = !stochastic()   ? 0
                                             : words.empty() ? words_of_seed.at(i)
                                                             : words[i];
                tally.compare(inputs.size() + i, what, bits_of(in[i]),
                              bits_of(round_one(in[i], cast_, random)), bits_of(out[i]), random);
            }
        };
        const RandomSource seeded{options_.seed};
        std::vector<Real> out(inputs.size());
        quantize(inputs, out, format_, projection_, seeded, 1);
        compare("the array path against the rule", inputs, out, {});
        quantize_by_rule(inputs, out, format_, projection_, seeded);
        compare("the rule as a loop against single calls", inputs, out, {});

        const std::span<const Real> shifted = std::span(inputs).subspan(inputs.empty() ? 0 : 1);
        const std::vector<std::uint64_t> words = turning_words(shifted);
        std::vector<std::uint64_t> integers(words.size());
        std::transform(words.begin(), words.end(), integers.begin(),
                       [&](std::uint64_t w) { return w >> (64 - projection_.random_bits); });
        out.assign(shifted.begin(), shifted.end());
        RandomSource given{options_.seed};
        if (!integers.empty()) given.words = integers;
        quantize(out, out, format_, projection_, given, options_.threads);
        compare("the array path in place against the rule", shifted, out, words);
        return tally;
    }

    // The code into which encode() converts the decoded NaN of `code`.
    std::uint64_t nan_code_again(std::uint64_t code) const {
        const std::uint64_t canonical = format_.nan_code(),
                            sign = std::uint64_t{1} << (format_.storage_bits() - 1);
        if (!projection_.keep_payload || !format_.is_signed || format_.nan_codes == 0)
            return canonical;
        const bool every_ieee_nan =
            format_.has_infinity &&
            format_.nan_codes == (std::uint64_t{1} << format_.mantissa_bits) - 1;
        if (every_ieee_nan) return code | std::uint64_t{1} << (format_.mantissa_bits - 1);
        return (code & sign) | canonical;
    }

    // Compares the conversions of every code, in single calls and in arrays; for wide formats, of
    // as many random codes as there are random inputs.
    Tally codes() {
        Tally tally;
        auto codec = make_codec<Real>(format_);
        codec.keep_payload = projection_.keep_payload;
        const BasicRationalOracle<Real> oracle(format_, projection_);
        const int bits = format_.storage_bits();
        std::vector<Bits> all(wide_ ? options_.random_cases : std::size_t{1} << bits),
            again(all.size());
        std::vector<Real> values(all.size());
        for (std::uint64_t i = 0; i < all.size(); ++i)
            all[i] = static_cast<Bits>(wide_ ? mix(options_.seed ^ i) >> (64 - bits) : i);
        decode<Bits, Real>(all, values, format_, projection_.keep_payload, options_.threads);
        Projection exact;
        exact.keep_payload = projection_.keep_payload;
        encode<Real, Bits>(values, again, format_, exact, std::nullopt, {}, options_.threads);
        for (std::uint64_t i = 0; i < all.size(); ++i) {
            const Bits code = all[i];
            const Real value = oracle.decode(code);
            const std::uint64_t place = first_code_place + i;
            // Two codes decode to zero; encode() gives code 0.
            const bool second_zero = value == 0 && format_.zero == Zero::single;
            const std::uint64_t back = std::isnan(value) ? nan_code_again(code)
                                       : second_zero     ? 0
                                                         : code;
            tally.compare(place, "decode against the oracle", code, bits_of(value),
                          bits_of(decode_one(code, codec)));
            tally.compare(place, "decode of an array against the oracle", code, bits_of(value),
                          bits_of(values[i]));
            tally.compare(place, "encode after decode", code, back, encode_one(value, codec));
            tally.compare(place, "encode of an array after decode", code, back, again[i]);
        }
        return tally;
    }

    Tally all_inputs()
        requires(!fp64)
    {
        Tally tally;
        const bool has_steps = !wide_ && !stochastic();
        if (has_steps) {
            const Staircase steps(format_, projection_, options_.threads);
            tally = arrays_against_steps(format_, projection_, steps, options_.threads, progress_,
                                         stopped_);
        }
        if (!stopped_ && (!has_steps || options_.exhaustive_oracle))
            tally.merge(all_inputs_against_rule());
        return tally;
    }

    // Compares the results for all 2^32 bit patterns in chunks. Each chunk is a separate array,
    // whose random words begin with word 0.
    Tally all_inputs_against_rule()
        requires(!fp64)
    {
        constexpr std::uint64_t chunk = 1 << 14;  // three such arrays stay in the L2 cache
        return in_chunks<Tally>(
            std::uint64_t{1} << 32, chunk, options_.threads, progress_, stopped_, [&] {
                std::unique_ptr<MpfrOracle> mpfr;
                if (options_.exhaustive_oracle)
                    mpfr = std::make_unique<MpfrOracle>(format_, projection_);
                return [&, mpfr = std::move(mpfr), in = std::vector<float>(chunk),
                        out = std::vector<float>(chunk), rule = std::vector<float>(chunk)](
                           std::uint64_t first, std::uint64_t) mutable {
                    for (std::uint64_t i = 0; i < chunk; ++i)
                        in[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first + i));
                    quantize(in, out, format_, projection_, {options_.seed}, 1);
                    quantize_by_rule(in, rule, format_, projection_, {options_.seed});
                    return compare_chunk(first, in, out, rule, first / chunk % 16 == 0, mpfr.get());
                };
            });
    }

    // Compares the results for one chunk. `rule` has the results of quantize_by_rule(); with
    // `single_calls`, these are also compared with single calls of the rule.
    Tally compare_chunk(std::uint64_t first, std::span<const float> in, std::span<const float> out,
                        std::span<const float> rule, bool single_calls, MpfrOracle* mpfr) const
        requires(!fp64)
    {
        Tally tally;
        if (!single_calls && !mpfr && std::memcmp(out.data(), rule.data(), out.size_bytes()) == 0) {
            tally.cases = in.size();
            return tally;
        }
        const RandomStream words = stream();
        for (std::uint64_t i = 0; i < in.size(); ++i) {
            const std::uint64_t place = first_exhaustive_place + first + i;
            const std::uint64_t random = stochastic() && (single_calls || mpfr) ? words.at(i) : 0;
            float expected = rule[i];
            if (single_calls) {
                expected = round_one(in[i], cast_, random);
                tally.compare(place, "the rule as a loop against single calls", bits_of(in[i]),
                              bits_of(expected), bits_of(rule[i]), random);
            }
            tally.compare(place, "the array path against the rule", bits_of(in[i]),
                          bits_of(expected), bits_of(out[i]), random);
            if (mpfr) {
                const std::uint32_t truth = bits_of(mpfr->project(in[i], random));
                tally.compare(place, "the rule against MPFR", bits_of(in[i]), truth,
                              bits_of(expected), random);
            }
        }
        return tally;
    }

    void add_neighbours(Mismatch& mismatch) const {
        if (mismatch.input_is_code) return;
        const Real x = std::bit_cast<Real>(static_cast<Bits>(mismatch.input));
        if (!std::isfinite(x)) {
            mismatch.lower = mismatch.upper = std::fabs(x);
            return;
        }
        const auto [lower, upper, code, below] =
            BasicRationalOracle<Real>(format_, projection_).neighbours(x);
        mismatch.lower = to_real<Real>(lower);
        const bool fits = code < format_.top_finite_code() || below;
        mismatch.upper = fits ? to_real<Real>(upper) : std::numeric_limits<Real>::infinity();
    }

    const FloatFormat format_;
    const Projection projection_;
    const VerifyOptions options_;
    const Progress& progress_;
    const Cast<Real> cast_;
    const bool wide_;
    bool stopped_ = false;
};

}  // namespace

VerifyResult verify(const FloatFormat& format, const Projection& projection,
                    const VerifyOptions& options, const Progress& progress) {
    validate(format);
    validate(projection, format);
    VerifyResult result;
    if (format.fits_fp32()) result = Verifier<float>(format, projection, options, progress).run();
    if (result.stopped) return result;
    const VerifyResult in_fp64 = Verifier<double>(format, projection, options, progress).run();
    result.cases += in_fp64.cases;
    result.mismatches += in_fp64.mismatches;
    result.stopped = in_fp64.stopped;
    if (!result.first) result.first = in_fp64.first;
    return result;
}

std::string show_number(std::uint64_t bits, bool fp64) {
    char text[80];
    if (fp64) {
        std::snprintf(text, sizeof text, "0x%016llX (%.17g)", static_cast<unsigned long long>(bits),
                      std::bit_cast<double>(bits));
    } else {
        const auto narrow = static_cast<std::uint32_t>(bits);
        std::snprintf(text, sizeof text, "0x%08X (%.9g)", static_cast<unsigned>(narrow),
                      static_cast<double>(std::bit_cast<float>(narrow)));
    }
    return text;
}

std::string describe(const Mismatch& m) {
    char text[160];
    if (m.input_is_code) {
        std::snprintf(text, sizeof text, ": code 0x%llX, expected 0x%08llX, got 0x%08llX",
                      static_cast<unsigned long long>(m.input),
                      static_cast<unsigned long long>(m.expected),
                      static_cast<unsigned long long>(m.got));
        return m.what + text;
    }
    std::string words = m.what + ", " + std::string(to_string(m.projection.rounding)) +
                        ", overflow " + std::string(to_string(m.projection.overflow));
    if (m.projection.underflow != Underflow::gradual)
        words += ", underflow " + std::string(to_string(m.projection.underflow));
    if (m.projection.keep_payload) words += ", payloads kept";
    words += ": input " + show_number(m.input, m.fp64) + ", expected " +
             show_number(m.expected, m.fp64) + ", got " + show_number(m.got, m.fp64);
    const int digits = m.fp64 ? 17 : 9;
    std::snprintf(text, sizeof text, "; its magnitude lies between %.*g and %.*g", digits, m.lower,
                  digits, m.upper);
    words += text;
    if (is_stochastic(m.projection.rounding)) {
        std::snprintf(text, sizeof text, "; random word 0x%016llX",
                      static_cast<unsigned long long>(m.random));
        words += text;
    }
    return words;
}

}  // namespace apscope::detail::oracle
