// Draws the arguments of a call from a seed: most can be used, some lie at the limits of their
// types or beside what is right.
#pragma once

#include <apscope/apscope.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace generated {

class Draw {
public:
    explicit Draw(std::uint64_t seed) : state_(seed) {}

    std::uint64_t word() {  // SplitMix64
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
        z = (z ^ z >> 27) * 0x94D049BB133111EB;
        return z ^ z >> 31;
    }
    std::size_t below(std::size_t limit) { return word() % limit; }
    bool one_in(std::size_t cases) { return below(cases) == 0; }
    int between(int low, int high) {
        return low + static_cast<int>(below(static_cast<std::size_t>(high - low) + 1));
    }
    template <class T>
    T of(std::initializer_list<T> choices) {
        return choices.begin()[below(choices.size())];
    }
    template <class Range>
    const auto& of(const Range& choices) {
        return choices[below(std::size(choices))];
    }

    // The length of an array that is made.
    std::size_t length() {
        return one_in(60) ? 60'000 + below(100'000) : one_in(6) ? below(3000) : below(70);
    }
    // An integer that is usually from `low` to `high`, otherwise anything its type has.
    template <class Integer = int>
    Integer integer(int low, int high) {
        if (!one_in(12)) return static_cast<Integer>(between(low, high));
        using Limits = std::numeric_limits<Integer>;
        const auto low_bits = static_cast<Integer>(below(4));
        if (one_in(2)) return static_cast<Integer>(Limits::max() - low_bits);
        if (one_in(3)) return static_cast<Integer>(Limits::min() + low_bits);
        if (one_in(2)) return static_cast<Integer>(word());
        return static_cast<Integer>(static_cast<Integer>(1) << below(Limits::digits));
    }
    int threads() { return integer(0, one_in(3) ? 64 : 2); }

    template <class Real>
    Real number() {
        using Limits = std::numeric_limits<Real>;
        switch (below(16)) {
            case 0: {
                if constexpr (sizeof(Real) == 4)
                    return std::bit_cast<float>(static_cast<std::uint32_t>(word()));
                else return std::bit_cast<double>(word());
            }
            case 1:
                return of({Real{0}, -Real{0}, Limits::infinity(), -Limits::infinity(),
                           Limits::quiet_NaN(), Limits::max(), Limits::denorm_min(),
                           -Limits::min()});
            default: return std::ldexp(static_cast<Real>(between(-999, 999)), between(-24, 3));
        }
    }
    template <class Real>
    std::vector<Real> numbers(std::size_t count) {
        std::vector<Real> all(count);
        const bool finite = one_in(2);
        for (Real& x : all) {
            x = number<Real>();
            if (finite && !(std::abs(x) < 1e30)) x = 1;
        }
        return all;
    }

    // The lengths of up to four axes.
    std::vector<std::size_t> shape() {
        std::vector<std::size_t> lengths(below(5));
        for (std::size_t& length : lengths) length = one_in(9) ? below(200) : below(7);
        return lengths;
    }
    // Lengths without an array, whose product is 0 or larger than any array.
    template <class Integer = std::size_t>
    std::vector<Integer> impossible_shape() {
        const auto power = [this](int low) {
            return static_cast<Integer>(Integer{1} << between(low, 62)) -
                   static_cast<Integer>(below(2));
        };
        std::vector<Integer> lengths = {power(61), power(61)};
        if (one_in(3)) lengths = {power(31), static_cast<Integer>(power(31) + 2), 4};
        if (one_in(3)) lengths.insert(lengths.begin() + between(0, 2), 0);
        return lengths;
    }

    // A text, sometimes with a few changes; without line breaks, which messages would show.
    std::string near(std::string text) {
        while (one_in(6)) {
            const std::size_t at = below(text.size() + 1), count = below(3);
            const std::string_view added = of<std::string_view>(
                {"",     "",  "0",      "9",       "-",   "99999999999999999999",
                 ",",    ":", "=",      "(",       ")",   ";",
                 "e",    "m", "fn",     " ",       "nan", "1e400",
                 "\xff", "@", "+kahan", ",block=0"});
            text.replace(at, count, added);
        }
        return text;
    }
    std::string format_name() {
        static const auto& named = *new auto(apscope::named_formats());
        std::string general = "e" + std::to_string(integer(0, 8)) + "m" +
                              std::to_string(integer(0, one_in(4) ? 52 : 10)) +
                              of({"", "", "fn", "fnuz", "finite", "finiteu", "b3", "b-5", "nosub"});
        return near(one_in(2) ? general : std::string(of(named).name));
    }
    std::string block_name() {
        static const auto& named = *new auto(apscope::named_block_formats());
        std::string name(of(named).name);
        if (one_in(3))
            name = "bfp:" + std::to_string(integer(2, 8)) + ":" + std::to_string(integer(1, 40));
        if (one_in(3)) name = "blocks:" + format_name();
        if (one_in(3)) name += ",block=" + std::to_string(integer(1, 70));
        if (one_in(3))
            name +=
                ",rule=" + of<std::string>({"floor", "ceil", "rceil", "even", "nearest", "ratio"});
        if (one_in(6)) name += ",scale=" + format_name();
        if (one_in(6)) name += ",tensor";
        return near(name);
    }
    // Fields that a caller may set one by one.
    apscope::FloatFormat fields() {
        apscope::FloatFormat f;
        f.exponent_bits = integer(0, 8);
        f.mantissa_bits = integer(0, 10);
        f.bias = integer(-3, 130);
        f.is_signed = !one_in(4);
        f.subnormals = !one_in(4);
        f.subnormal_exponent =
            one_in(4) ? integer(-150, 3) : static_cast<int>(1u - static_cast<unsigned>(f.bias));
        f.zero = static_cast<apscope::Zero>(between(0, 2));
        f.nan_codes = integer<std::uint64_t>(0, 3);
        f.has_infinity = one_in(2);
        f.nan_at_negative_zero = one_in(4);
        f.even_code_ties = one_in(4);
        return f;
    }
    apscope::FloatFormat format() { return one_in(8) ? fields() : apscope::format(format_name()); }
    apscope::BlockFormat block_format() {
        apscope::BlockFormat f = apscope::block_format(block_name());
        if (!one_in(8)) return f;
        if (one_in(2)) f.element = fields();
        if (one_in(3)) f.scale = fields();
        f.block_size = integer(1, 70);
        f.twos_complement = one_in(3);
        f.tensor_scale = one_in(3);
        f.rule = static_cast<apscope::ScaleRule>(between(0, apscope::scale_rule_count - 1));
        f.nonfinite =
            static_cast<apscope::BlockNonfinite>(between(0, apscope::block_nonfinite_count - 1));
        return f;
    }
    apscope::RoundingMode rounding() { return static_cast<apscope::RoundingMode>(between(0, 12)); }
    apscope::Projection projection() {
        apscope::Projection p;
        if (one_in(2)) p.rounding = rounding();
        if (one_in(3))
            p.overflow = static_cast<apscope::Overflow>(between(0, apscope::overflow_count - 1));
        if (one_in(3)) p.random_bits = integer(1, 64);
        if (one_in(4))
            p.underflow = static_cast<apscope::Underflow>(between(0, apscope::underflow_count - 1));
        p.keep_payload = one_in(5);
        return p;
    }

    std::string topology() {
        namespace names = apscope::topology;
        std::string name = of<std::string>(
            {names::exact, names::sequential, names::sequential_kahan, names::ring, names::tree,
             names::butterfly, names::fp32_accumulate, names::pat, names::nccl_ring,
             names::nccl_tree, names::nccl_symmetric, names::nccl_nvls, names::torch_one_shot,
             names::torch_two_shot, names::two_phase, names::reduce_scatter,
             names::hierarchical(integer(1, 4)), names::hierarchical_kahan(integer(1, 4))});
        if (one_in(5))
            name += of<std::string>({",sum=exact", ",own=exact", ",phase2=none:e4m3", ",sum=e5m2",
                                     ",channels=2", ",inside=tree", ",between=two_phase"});
        return near(name);
    }
    std::string order() {
        return near(of<std::string>({"sequential", "pairwise", "kahan", "exact",
                                     apscope::order::chunked(integer<std::size_t>(1, 40))}));
    }
    std::string spec() {
        static const auto& definitions = *new auto(apscope::scheme_definitions());
        static const auto& listed = *new auto(apscope::all_schemes());
        if (one_in(2)) return near(of(listed));
        const apscope::SchemeDefinition& scheme = of(definitions);
        std::string text(scheme.name);
        if (scheme.body == "scheme") text += "(" + spec() + ")";
        if (scheme.body == "policy") text += "(last=" + spec() + ";else=" + spec() + ")";
        if (scheme.takes_format) text += ":" + format_name();
        for (std::string separator = scheme.takes_format || !scheme.body.empty() ? "," : ":";
             !scheme.keys.empty() && one_in(2); separator = ",") {
            const apscope::SchemeKey& key = of(scheme.keys);
            text += separator + std::string(key.name) + "=" +
                    (one_in(3) ? std::string(key.default_value)
                     : one_in(2)
                         ? std::to_string(integer(0, 40))
                         : of<std::string>({"0.5", "1e-9", "nan", "inf", "-1", "largest", "best",
                                            "auto", "true", "false", "stochastic", "4096", "1e308",
                                            "2147483648", "18446744073709551616"}));
        }
        return near(text);
    }
    std::string text() {
        return of<std::string>({"", "x", "fc.weight", "fc", "a/b", "..", "\xff", "two words",
                                std::string(5000, 'n'), std::string(1, '\0'), "ünï", "all"});
    }

private:
    std::uint64_t state_;
};

}  // namespace generated
