// The messages of DynamiQ (transforms/dynamiq.cpp): super-groups of 16 groups of 16 elements s,
// each with b = 2, 4 or 8 bits. With R = 2^(b-1) - 1, e > 0 by width, and random r in [0, 1):
//
//      m(l) = l                                             aee
//             ((1 + 2 e^2)^l - 1) / (2 e^2) (1 + e^2)       mee, odd in l
//      a_j  = fl32(fl32(amax of group j / m(R)) + 1e-7)     a = the largest a_j
//      q_j  = ceil(fl32(fl32(a_j / a) 255)), 1 to 255       sent in 8 bits, with unit = bf16(a / 255)
//      t    = fl32(s / fl32(q_j unit))
//      l    = floor(m^-1(t)), or the next integer if r <= the fraction of m^-1(t); -R to R
//
// The message is fl32(m(l) fl32(q_j unit)). By the paper's rules q_j is rounded stochastically, and
// with mee the fraction is (t - m(l)) / (m(l + 1) - m(l)).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "core/named_formats.h"
#include "emulation/arithmetic/row_cast.h"
#include "emulation/schemes/codecs/bits.h"

namespace apscope::detail::super_group {

constexpr std::size_t group = 16, groups = 16, super = group * groups;
using Values = std::array<double, super>;  // fp32 numbers of a super-group

// Operations whose operands and results are fp32 numbers.
inline float divided(double a, double b) { return static_cast<float>(a) / static_cast<float>(b); }
inline float added(double a, double b) { return static_cast<float>(a) + static_cast<float>(b); }
inline float multiplied(double a, double b) {
    return static_cast<float>(a) * static_cast<float>(b);
}

class BF16 {
public:
    void round(const double* x, double scale, double* rounded, std::size_t count) const {
        cast_.round(x, scale, rounded, count, {}, 0);
    }
    double operator()(double x) const {
        round(&x, 1.0, &x, 1);
        return x;
    }

private:
    RowCast cast_{parse_format("bf16"), {RoundingMode::ties_to_even, Overflow::ieee}};
};

enum class Quantizer { aee, mee };
enum class Rules { code, paper };

// The levels m(-R), ..., m(R) of a width.
class Lattice {
public:
    // e = 0: m(l) = l.
    Lattice(int bits, double e) : bits_(bits), last_((1 << (bits - 1)) - 1), e_(e) {
        for (int l = 0; l <= last_ + 1.0; ++l)
            values_.push_back(e == 0.0 ? l
                                       : (std::pow(1.0 + 2.0 * e * e, l) - 1.0) / (2.0 * e * e) *
                                             (1.0 + e * e));
    }
    int bits() const { return bits_; }
    double last() const { return last_; }  // R
    // m(l) of an integer l from -R - 1 to R + 1.
    double at(double l) const {
        const double value = values_[static_cast<std::size_t>(std::abs(l))];
        return l < 0.0 ? -value : value;
    }
    // l of t, not a NaN; `between`: rounds between values instead of between integers l.
    double rounded(double t, double r, bool between) const {
        const double place = position(t), low = std::clamp(std::floor(place), -last_ - 1.0, last_);
        double fraction = place - low;
        if (between) fraction = (t - at(low)) / (at(low + 1.0) - at(low));
        return std::clamp(r <= fraction ? low + 1.0 : low, -last_, last_);
    }

private:
    // The real number l of m(l) = t.
    double position(double t) const {
        if (e_ == 0.0) return t;
        const double size = std::log(std::abs(t) * 2.0 * e_ * e_ / (1.0 + e_ * e_) + 1.0) /
                            std::log(1.0 + 2.0 * e_ * e_);
        return t < 0.0 ? -size : size;
    }

    int bits_;
    double last_, e_;
    std::vector<double> values_;
};

// Encodes super-groups.
class Codec {
public:
    Codec(Quantizer quantizer, Rules rules);

    // Replaces x by what its message decodes to. r and r_of_scales are words of all elements and of
    // all groups, as numbers of [0, 1).
    void send(Values& x, int bits, const Values& r, const double* r_of_scales,
              BitWriter& wire) const;

    BF16 bf16;

private:
    bool by_paper_, between_;
    std::vector<Lattice> lattices_;  // of 2, 4 and 8 bits
};

}  // namespace apscope::detail::super_group
