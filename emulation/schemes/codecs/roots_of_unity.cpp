#include "emulation/schemes/codecs/roots_of_unity.h"

#include <cmath>
#include <utility>

namespace apscope::detail {

namespace {

// Dekker's exact product, because the instruction set may have no FMA, which would give the low
// half.
Pair product(double a, double b) {
    constexpr double splitter = 0x1p27 + 1.0;
    const double p = a * b, as = splitter * a, bs = splitter * b;
    const double ah = as - (as - a), al = a - ah, bh = bs - (bs - b), bl = b - bh;
    return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}
Pair product(Pair a, Pair b) {
    const Pair p = product(a.high, b.high);
    return quick_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}
Pair quotient(Pair a, double b) {
    const double q = a.high / b;
    const Pair back = product(q, b);
    return quick_sum(q, (((a.high - back.high) - back.low) + a.low) / b);
}

constexpr Pair quarter_of_pi{0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55};
constexpr int terms = 30;  // (pi / 4)^terms / terms! is below 2^-118

}  // namespace

RootsOfUnity::RootsOfUnity(std::size_t n)
    : n_(n), stride_(static_cast<std::size_t>(std::sqrt(static_cast<double>(n))) + 1) {
    const auto turn = [n](std::size_t steps) {
        const Pair x = product(quarter_of_pi,
                               quotient({static_cast<double>(steps), 0.0}, static_cast<double>(n)));
        // Sums the Taylor series of cosine and sine; the powers of x alternate between the two
        // series.
        Pair power{1.0, 0.0};
        Turn sum{{1.0, 0.0}, {0.0, 0.0}};
        for (int t = 1; t <= terms; ++t) {
            power = quotient(product(power, x), t);
            Pair& part = t % 2 == 0 ? sum.cosine : sum.sine;
            part = t % 4 < 2 ? part + power : part - power;
        }
        return sum;
    };
    for (std::size_t i = 0; i < stride_; ++i) fine_.push_back(turn(i));
    for (std::size_t i = 0; i <= n / stride_; ++i) coarse_.push_back(turn(i * stride_));
}

RootsOfUnity::Root RootsOfUnity::operator()(std::size_t k) const {
    const std::size_t octant = 8 * k / n_, rest = 8 * k - octant * n_,
                      steps = octant % 2 == 0 ? rest : n_ - rest;
    const Turn &a = coarse_[steps / stride_], &b = fine_[steps % stride_];
    double c = (product(a.cosine, b.cosine) - product(a.sine, b.sine)).high;
    double s = (product(a.sine, b.cosine) + product(a.cosine, b.sine)).high;
    if (octant % 4 == 1 || octant % 4 == 2) std::swap(c, s);
    const bool left = octant >= 2 && octant < 6, below = octant >= 4;
    return {left ? -c : c, below ? s : -s};
}

}  // namespace apscope::detail
