#include "tests/oracle/verify.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "core/codec.h"
#include "core/philox.h"
#include "core/rounding.h"
#include "emulation/quantize.h"
#include "tests/oracle/cases.h"
#include "tests/oracle/chunks.h"
#include "tests/oracle/mpfr_oracle.h"
#include "tests/oracle/rational_oracle.h"

namespace apscope::oracle {
namespace {

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

// Places in the order of the work, so that the first mismatch does not depend on the threads:
// cases, array elements, codes, all inputs.
constexpr std::uint64_t first_code_place = std::uint64_t{1} << 40;
constexpr std::uint64_t first_exhaustive_place = std::uint64_t{1} << 41;

// Mismatches of some of the inputs; the first is the one at the lowest place.
struct Tally {
    std::uint64_t cases = 0, mismatches = 0, first_place = std::numeric_limits<std::uint64_t>::max();
    Mismatch first;

    void compare(std::uint64_t place, const char* what, std::uint32_t input, std::uint32_t expected,
                 std::uint32_t got, std::uint64_t random = 0) {
        ++cases;
        if (expected == got) return;
        ++mismatches;
        if (place >= first_place) return;
        first_place = place;
        first = {};
        first.what = what;
        first.input = input;
        first.expected = expected;
        first.got = got;
        first.random = random;
        first.input_is_code = place >= first_code_place && place < first_exhaustive_place;
    }
    void merge(const Tally& other) {
        cases += other.cases;
        mismatches += other.mismatches;
        if (other.first_place < first_place) {
            first_place = other.first_place;
            first = other.first;
        }
    }
};

std::uint64_t mix(std::uint64_t x) {  // SplitMix64: random words from case numbers
    x += 0x9E3779B97F4A7C15;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

// The random words worth trying at x: one drawn, none, all ones, and, for probability
// discarded / 2^N of rounding away, the last that rounds towards zero and the first that does not.
std::vector<std::uint64_t> random_words(MpfrOracle& oracle, float x, int bits, std::uint64_t drawn) {
    const int spare = 64 - bits;
    const std::uint64_t ones = ~std::uint64_t{0} >> spare;
    std::vector<std::uint64_t> words = {drawn >> spare << spare, 0, ones << spare};
    const std::uint64_t discarded = oracle.discarded(x);
    words.push_back((ones - discarded) << spare);
    if (discarded > 0) words.push_back((ones - discarded + 1) << spare);
    return words;
}

RandomStream stream_of(std::uint64_t seed, int random_bits) {
    return {seed_key(seed), 0, stage_and_hop(Stage::quantize, 0), random_bits};
}

class Verifier {
public:
    Verifier(const FloatFormat& format, const Projection& projection, const VerifyOptions& options,
             const Progress& progress)
        : format_(format), projection_(projection), options_(options), progress_(progress),
          cast_(make_cast<float>(format, projection)), wide_(format.storage_bits() > full_storage_bits) {}

    VerifyResult run() {
        const std::vector<float> inputs = selected_cases();
        Tally tally = rule_against_oracles(inputs);
        if (!stopped_) tally.merge(array_against_rule(inputs));
        if (!stopped_) tally.merge(codes());
        if (!stopped_ && options_.exhaustive) tally.merge(all_inputs());

        VerifyResult result{tally.cases, tally.mismatches, {}, stopped_};
        if (tally.mismatches > 0) {
            result.first = tally.first;
            result.first->rounding = projection_.rounding;
            result.first->overflow = projection_.overflow;
            add_neighbours(*result.first);
        }
        return result;
    }

private:
    bool stochastic() const { return projection_.rounding == RoundingMode::stochastic; }

    std::vector<float> selected_cases() const {
        const std::size_t random = wide_ ? options_.random_cases : options_.random_cases / 100;
        std::vector<float> inputs = cases(format_, random, options_.seed);
        if (options_.thinning <= 1) return inputs;
        const double near_largest = format_.largest() / 2, near_zero = 4 * format_.smallest_positive();
        std::size_t kept = 0, seen = 0;
        for (const float x : inputs) {
            const double magnitude = std::fabs(x);
            const bool inside = magnitude > near_zero && magnitude < near_largest;
            if (!inside || seen++ % options_.thinning == 0) inputs[kept++] = x;
        }
        inputs.resize(kept);
        return inputs;
    }

    Tally rule_against_oracles(const std::vector<float>& inputs) {
        return dispatch(projection_.rounding, [&]<RoundingMode M>() {
            return in_chunks<Tally>(inputs.size(), 4096, options_.threads, progress_, stopped_, [&] {
                return [&, mpfr = std::make_unique<MpfrOracle>(format_, projection_),
                        rational = RationalOracle(format_, projection_)](std::uint64_t first, std::uint64_t last) {
                    Tally tally;
                    for (std::uint64_t i = first; i < last; ++i) {
                        const float x = inputs[i];
                        const bool twice = i % options_.rational_stride == 0;
                        auto check = [&](std::uint64_t random) {
                            const std::uint32_t truth = bits_of(mpfr->project(x, random));
                            const std::uint32_t rule = bits_of(round_to_format<M, float>(x, cast_, random));
                            tally.compare(i, "the rule against MPFR", bits_of(x), truth, rule, random);
                            if (!twice) return;
                            const std::uint32_t second = bits_of(rational.project(x, random));
                            tally.compare(i, "the rule against exact rationals", bits_of(x), second, rule, random);
                        };
                        if constexpr (M == RoundingMode::stochastic) {
                            for (const std::uint64_t random :
                                 random_words(*mpfr, x, projection_.random_bits, mix(options_.seed ^ i))) {
                                check(random);
                            }
                        } else {
                            check(0);
                        }
                    }
                    return tally;
                };
            });
        });
    }

    // The whole array at once, on one thread and on all, from an odd start and in place.
    Tally array_against_rule(const std::vector<float>& inputs) {
        Tally tally;
        const RandomStream stream = stream_of(options_.seed, projection_.random_bits);
        for (const bool shifted : {false, true}) {
            const std::span<const float> in = std::span(inputs).subspan(shifted && !inputs.empty() ? 1 : 0);
            std::vector<float> out(in.begin(), in.end());
            if (shifted) quantize(out, out, format_, projection_, options_.seed, options_.threads);
            else quantize(in, out, format_, projection_, options_.seed, 1);
            for (std::uint64_t i = 0; i < in.size(); ++i) {
                const std::uint64_t random = stochastic() ? stream.at(i) : 0;
                tally.compare(inputs.size() + i, "the array path against the rule", bits_of(in[i]),
                              bits_of(round_one(in[i], cast_, projection_.rounding, random)), bits_of(out[i]), random);
            }
        }
        return tally;
    }

    // Every code; of wide formats as many random ones as there are random inputs.
    Tally codes() {
        Tally tally;
        const Codec codec = make_codec(format_);
        const RationalOracle oracle(format_, projection_);
        const std::uint64_t count = std::uint64_t{1} << format_.storage_bits();
        const std::uint64_t samples = wide_ ? options_.random_cases : count;
        for (std::uint64_t i = 0; i < samples; ++i) {
            const auto code = static_cast<std::uint32_t>(wide_ ? mix(options_.seed ^ i) % count : i);
            const float value = oracle.decode(code);
            const float decoded = decode_one(code, codec);
            const std::uint64_t place = first_code_place + i;
            if (std::isnan(value)) {
                tally.compare(place, "is a NaN, decode against the oracle", code, 1, std::isnan(decoded));
                const auto nan = static_cast<std::uint32_t>(format_.nan_code());
                tally.compare(place, "the code of NaN, encode against decode", code, nan, encode_one(decoded, codec));
            } else {
                tally.compare(place, "decode against the oracle", code, bits_of(value), bits_of(decoded));
                const bool second_zero = value == 0 && format_.zero == Zero::single;  // two codes, one zero
                tally.compare(place, "encode after decode", code, second_zero ? 0 : code, encode_one(value, codec));
            }
        }
        return tally;
    }

    // The 2^32 bit patterns in chunks, each an array of its own: random words are counted from 0.
    Tally all_inputs() {
        constexpr std::uint64_t chunk = 1 << 14;  // three such arrays stay in the L2 cache
        return in_chunks<Tally>(std::uint64_t{1} << 32, chunk, options_.threads, progress_, stopped_, [&] {
            std::unique_ptr<MpfrOracle> mpfr;
            if (options_.exhaustive_oracle) mpfr = std::make_unique<MpfrOracle>(format_, projection_);
            return [&, mpfr = std::move(mpfr), in = std::vector<float>(chunk), out = std::vector<float>(chunk),
                    rule = std::vector<float>(chunk)](std::uint64_t first, std::uint64_t) mutable {
                for (std::uint64_t i = 0; i < chunk; ++i) in[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first + i));
                quantize(in, out, format_, projection_, options_.seed, 1);
                quantize_by_rule(in, rule, format_, projection_, options_.seed);
                return compare_chunk(first, in, out, rule, first / chunk % 16 == 0, mpfr.get());
            };
        });
    }

    // `rule` is the rule as the compiler's loop; `single_calls` checks that loop itself.
    Tally compare_chunk(std::uint64_t first, std::span<const float> in, std::span<const float> out,
                        std::span<const float> rule, bool single_calls, MpfrOracle* mpfr) const {
        Tally tally;
        if (!single_calls && !mpfr && std::memcmp(out.data(), rule.data(), out.size_bytes()) == 0) {
            tally.cases = in.size();
            return tally;
        }
        const RandomStream stream = stream_of(options_.seed, projection_.random_bits);
        for (std::uint64_t i = 0; i < in.size(); ++i) {
            const std::uint64_t place = first_exhaustive_place + first + i;
            const std::uint64_t random = stochastic() && (single_calls || mpfr) ? stream.at(i) : 0;
            float expected = rule[i];
            if (single_calls) {
                expected = round_one(in[i], cast_, projection_.rounding, random);
                tally.compare(place, "the rule as a loop against single calls", bits_of(in[i]), bits_of(expected),
                              bits_of(rule[i]), random);
            }
            tally.compare(place, "the array path against the rule", bits_of(in[i]), bits_of(expected), bits_of(out[i]), random);
            if (mpfr) {
                const std::uint32_t truth = bits_of(mpfr->project(in[i], random));
                tally.compare(place, "the rule against MPFR", bits_of(in[i]), truth, bits_of(expected), random);
            }
        }
        return tally;
    }

    void add_neighbours(Mismatch& mismatch) const {
        if (mismatch.input_is_code) return;
        const float x = std::bit_cast<float>(mismatch.input);
        if (!std::isfinite(x)) {
            mismatch.lower = mismatch.upper = std::fabs(x);
            return;
        }
        const auto [lower, upper, code, below] = RationalOracle(format_, projection_).neighbours(x);
        mismatch.lower = to_float(lower);
        const bool fits = code < format_.top_finite_code() || below;
        mismatch.upper = fits ? to_float(upper) : std::numeric_limits<float>::infinity();
    }

    const FloatFormat format_;
    const Projection projection_;
    const VerifyOptions options_;
    const Progress& progress_;
    const Cast<float> cast_;
    const bool wide_;
    bool stopped_ = false;
};

}  // namespace

VerifyResult verify(const FloatFormat& format, const Projection& projection, const VerifyOptions& options,
                    const Progress& progress) {
    validate(format);
    validate(projection, format);
    return Verifier(format, projection, options, progress).run();
}

std::string describe(const Mismatch& m) {
    auto show = [](std::uint32_t bits) {
        char text[64];
        std::snprintf(text, sizeof text, "0x%08X (%.9g)", static_cast<unsigned>(bits),
                      static_cast<double>(std::bit_cast<float>(bits)));
        return std::string(text);
    };
    char between[128];
    if (m.input_is_code) {
        std::snprintf(between, sizeof between, "%s: code 0x%X, expected 0x%08X, got 0x%08X", m.what.c_str(),
                      static_cast<unsigned>(m.input), static_cast<unsigned>(m.expected), static_cast<unsigned>(m.got));
        return between;
    }
    std::snprintf(between, sizeof between, "; its magnitude lies between %.9g and %.9g", static_cast<double>(m.lower),
                  static_cast<double>(m.upper));
    std::string text = m.what + ", " + std::string(to_string(m.rounding)) + ", overflow " +
                       std::string(to_string(m.overflow)) + ": input " + show(m.input) + ", expected " +
                       show(m.expected) + ", got " + show(m.got) + between;
    if (m.rounding == RoundingMode::stochastic) {
        std::snprintf(between, sizeof between, "; random word 0x%016llX", static_cast<unsigned long long>(m.random));
        text += between;
    }
    return text;
}

}  // namespace apscope::oracle
