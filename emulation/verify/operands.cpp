#include "emulation/verify/operands.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/oracle/cases.h"
#include "emulation/verify/tally.h"

namespace apscope::detail::oracle {

// The random words that choose the operands of one case.
template <class Real>
class Operands<Real>::Draws {
public:
    explicit Draws(std::uint64_t key) : state_(key) {}
    std::uint64_t next() {  // SplitMix64
        std::uint64_t x = state_ += 0x9E3779B97F4A7C15;
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
        x = (x ^ x >> 27) * 0x94D049BB133111EB;
        return x ^ x >> 31;
    }
    std::uint64_t below(std::uint64_t n) { return next() % n; }

private:
    std::uint64_t state_;
};

template <class Real>
Operands<Real>::Operands(const FloatFormat& format, Operation operation,
                         const Projection& projection, bool exhaustive, std::uint64_t seed)
    : format_(format), operation_(operation), projection_(projection),
      count_(operand_count(operation)), seed_(seed) {
    const int most_bits = count_ == 1 ? full_storage_bits : count_ == 2 ? 8 : exhaustive ? 6 : 4;
    if (format.storage_bits() <= most_bits) {
        for (std::uint64_t code = 0; code < std::uint64_t{1} << format.storage_bits(); ++code)
            list_.push_back(value(code));
    } else {
        list_boundaries();
    }
    listed_ = 1;
    for (int i = 0; i < count_; ++i) listed_ *= list_.size();
}

template <class Real>
void Operands<Real>::list_boundaries() {
    const std::uint64_t top = format_.top_finite_code(),
                        hidden = std::uint64_t{1} << format_.mantissa_bits;
    const std::uint64_t one = code_below(1.0);
    std::vector<std::uint64_t> codes = {0,
                                        1,
                                        2,
                                        hidden / 2,
                                        hidden - 1,
                                        hidden,
                                        hidden + 1,
                                        one - std::min<std::uint64_t>(one, 1),
                                        one,
                                        one + 1,
                                        one + hidden / 2,
                                        one + hidden,
                                        top - 1,
                                        top,
                                        top + 1,
                                        top + 2};
    if (count_ < 3) {  // both ends of every binade, up to 60 binades
        const std::uint64_t binades = top / hidden + 1, stride = (binades + 59) / 60;
        for (std::uint64_t binade = 1; binade < binades; binade += stride) {
            codes.push_back(binade * hidden);
            codes.push_back(binade * hidden - 1);
        }
    }
    std::sort(codes.begin(), codes.end());
    codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
    for (const std::uint64_t code : codes) {
        if (code >= format_.magnitude_codes()) continue;
        list_.push_back(value(code));
        if (format_.is_signed) list_.push_back(value(code + format_.magnitude_codes()));
    }
}

template <class Real>
Real Operands<Real>::value(std::uint64_t code) const {
    const bool negative = code >= format_.magnitude_codes();
    const std::uint64_t magnitude = code % format_.magnitude_codes();
    if (magnitude > format_.top_finite_code()) {
        const bool infinite = format_.has_infinity && magnitude == format_.top_finite_code() + 1;
        if (!infinite) return std::numeric_limits<Real>::quiet_NaN();
        return negative ? -std::numeric_limits<Real>::infinity()
                        : std::numeric_limits<Real>::infinity();
    }
    if (negative && format_.nan_at_negative_zero && magnitude == 0)
        return std::numeric_limits<Real>::quiet_NaN();
    const auto result = static_cast<Real>(format_.magnitude(magnitude));
    if (magnitude == 0 && format_.zero != Zero::both_signs) return result;
    return negative ? -result : result;
}

// The largest code whose value is at most `magnitude`; 0 if no value is.
template <class Real>
std::uint64_t Operands<Real>::code_below(double magnitude) const {
    std::uint64_t below = 0, above = format_.top_finite_code() + 1;
    while (above - below > 1) {
        const std::uint64_t middle = below + (above - below) / 2;
        (format_.magnitude(middle) <= magnitude ? below : above) = middle;
    }
    return below;
}

template <class Real>
std::array<Real, 3> Operands<Real>::at(std::uint64_t number, std::uint64_t word) const {
    if (number >= listed_) return sample(number, word);
    std::array<Real, 3> result{};
    for (int i = 0; i < count_; ++i, number /= list_.size())
        result[i] = list_[number % list_.size()];
    return result;
}

// A random value of the format if `of_format`, else a random number with an exponent near the
// format's range.
template <class Real>
Real Operands<Real>::any(Draws& draws, bool of_format) const {
    const std::uint64_t word = draws.next();
    if (of_format) return value(word >> (64 - format_.storage_bits()));
    const int low = std::ilogb(format_.smallest_positive()) - 3,
              count = std::ilogb(format_.largest()) + 3 - low;
    const int exponent =
        low + static_cast<int>(draws.below(static_cast<std::uint64_t>(std::max(count, 1))));
    const auto x =
        static_cast<Real>(std::ldexp(1.0 + static_cast<double>(word >> 12) * 0x1p-52, exponent));
    return word % 2 != 0 ? -x : x;
}

// The number nearest to the target, or one of the two next numbers on either side: values of the
// format if `of_format`, else numbers of Real.
template <class Real>
Real Operands<Real>::near(double target, Draws& draws, bool of_format) const {
    // The jitter is 0 in half of the cases, else -2, -1, 1 or 2.
    const int step = static_cast<int>(draws.below(8));
    const int jitter = step < 4 ? 0 : step < 6 ? step - 6 : step - 5;
    if (!of_format) {
        const auto x = static_cast<Real>(target);
        return std::bit_cast<Real>(
            static_cast<BitsOfReal<Real>>(bits_of(x) + static_cast<BitsOfReal<Real>>(jitter)));
    }
    if (!(std::fabs(target) <= std::numeric_limits<double>::max())) return any(draws, true);
    const std::uint64_t top = format_.top_finite_code(), below = code_below(std::fabs(target));
    const bool next = below < top && format_.magnitude(below + 1) - std::fabs(target) <
                                         std::fabs(target) - format_.magnitude(below);
    const std::int64_t code = static_cast<std::int64_t>(below + next) + jitter;
    const auto clamped = static_cast<std::uint64_t>(
        std::clamp<std::int64_t>(code, 0, static_cast<std::int64_t>(top)));
    return value(clamped +
                 (std::signbit(target) && format_.is_signed ? format_.magnitude_codes() : 0));
}

// Operands whose result is near zero if the operation can cancel, else near the format's smallest
// or largest value.
template <class Real>
std::array<Real, 3> Operands<Real>::near_cancellation(Draws& draws, bool of_format) const {
    std::array<Real, 3> x = {any(draws, of_format), any(draws, of_format), any(draws, of_format)};
    const double a = x[0], b = x[1];
    const double ends[] = {format_.smallest_positive() / 2, format_.smallest_positive(),
                           std::max(format_.smallest_normal(), format_.smallest_positive()),
                           format_.largest()};
    const double end = ends[draws.below(4)];
    switch (operation_) {
        case Operation::add: x[1] = near(-a, draws, of_format); break;
        case Operation::subtract: x[1] = near(a, draws, of_format); break;
        case Operation::multiply: x[1] = near(end / a, draws, of_format); break;
        case Operation::divide: x[1] = near(a / end, draws, of_format); break;
        case Operation::sqrt: x[0] = near(end * end, draws, of_format); break;
        case Operation::fma: x[2] = near(-(a * b), draws, of_format); break;
    }
    return x;
}

// Operands whose result is at, just above or just below the middle or a quarter of the step between
// two neighbouring values.
template <class Real>
std::array<Real, 3> Operands<Real>::near_tie(Draws& draws, bool of_format) const {
    std::array<Real, 3> x = {any(draws, of_format), any(draws, of_format), any(draws, of_format)};
    const std::uint64_t word = draws.next(), top = format_.top_finite_code();
    const std::uint64_t code = word >> 3 > top ? (word >> 3) % (top + 1) : word >> 3;
    const double low = format_.magnitude(code);
    const double step =
        code < top ? format_.magnitude(code + 1) - low : low - format_.magnitude(code - (code > 0));
    const double sign = format_.is_signed && word % 2 != 0 ? -1 : 1;
    const double part = word / 2 % 4 == 0 ? step / 4 : step / 2;
    const double tie = sign * (low + part), a = x[0];
    switch (operation_) {
        case Operation::add:
        case Operation::subtract:
            x[0] = static_cast<Real>(sign * low);
            x[1] = near(format_.is_signed && word / 8 % 2 != 0 ? -part : part, draws, of_format);
            break;
        case Operation::multiply: x[1] = near(tie / a, draws, of_format); break;
        case Operation::divide: x[1] = near(a / tie, draws, of_format); break;
        case Operation::sqrt: x[0] = near(tie * tie, draws, of_format); break;
        case Operation::fma:
            if (word / 16 % 2 != 0) {  // a small product and a value
                x[2] = static_cast<Real>(sign * low);
                x[1] = near(sign * part / a, draws, of_format);
            } else {  // a product near the tie, and the difference from the tie
                x[1] = near(tie / a, draws, of_format);
                x[2] = near(tie - a * static_cast<double>(x[1]), draws, of_format);
            }
            break;
    }
    return x;
}

// Operands whose sum is at, just above or just below the point of a step from which on the random
// integer R rounds up: eta = (2^N - R) 2^-N, plus or minus up to two units of 2^-(N+1).
template <class Real>
std::array<Real, 3> Operands<Real>::at_the_turn(Draws& draws, std::uint64_t word) const {
    __extension__ using Wide = unsigned __int128;
    const int n = projection_.random_bits, unit = -n - 1;
    const std::uint64_t code = draws.below(format_.top_finite_code() + 1), halves = draws.below(5);
    const double low = format_.magnitude(code), step = format_.magnitude(code + 1) - low;
    const Wide most = Wide{2} << n;
    // `part` is eta in units of 2^-(N+1).
    const Wide part = std::clamp<Wide>(most - 2 * Wide{word >> (64 - n)} + halves, 2, most + 2) - 2;
    const double sign = format_.is_signed && draws.below(2) != 0 ? -1 : 1;
    // `a` is the value plus as many digits of `part` as fit Real; `b` has the other digits.
    const int together =
        std::clamp(std::numeric_limits<Real>::digits - format_.mantissa_bits - 2, 0, n + 2);
    const Wide rest = part & ((Wide{1} << (n + 2 - together)) - 1);
    const double a = sign * (low + std::ldexp(static_cast<double>(part - rest), unit) * step);
    const double b = sign * std::ldexp(static_cast<double>(rest), unit) * step;
    if (operation_ != Operation::fma)
        return {static_cast<Real>(a), static_cast<Real>(operation_ == Operation::subtract ? -b : b),
                Real{}};
    // For fma: if `part` has two factors that are numbers of Real, their product is added to the
    // value; else the product is b * 1, and it is added to `a`.
    const Wide one = Wide{1} << std::numeric_limits<Real>::digits, least = part / one + 2;
    for (Wide divisor = least; divisor < least + 512 && divisor < one && step >= 0x1p-60;
         ++divisor) {
        if (part % divisor != 0 || part < divisor) continue;
        // NOLINTNEXTLINE(bugprone-integer-division): the remainder is 0
        return {static_cast<Real>(std::ldexp(static_cast<double>(part / divisor), unit)),
                static_cast<Real>(sign * static_cast<double>(divisor) * step),
                static_cast<Real>(sign * low)};
    }
    return {static_cast<Real>(b), Real{1}, static_cast<Real>(a)};
}

template <class Real>
std::array<Real, 3> Operands<Real>::sample(std::uint64_t number, std::uint64_t word) const {
    Draws draws(Draws(seed_).next() ^ number * 0xD6E8FEB86659FD93);
    const bool of_format = number % 4 != 3;
    const bool sums = operation_ == Operation::add || operation_ == Operation::subtract ||
                      operation_ == Operation::fma;
    if (number % 4 == 2 && sums && is_stochastic(projection_.rounding))
        return at_the_turn(draws, word);
    switch (number / 4 % 4) {
        case 0: return near_cancellation(draws, of_format);
        case 1: return near_tie(draws, of_format);
        case 2:
            if (of_format) {
                std::array<Real, 3> x{};
                for (Real& operand : x)
                    operand =
                        draws.below(2) == 0 ? list_[draws.below(list_.size())] : any(draws, true);
                return x;
            }
            break;
        default: break;
    }
    return {any(draws, of_format), any(draws, of_format), any(draws, of_format)};
}

template class Operands<float>;
template class Operands<double>;

}  // namespace apscope::detail::oracle
