// An unevaluated sum of two fp64 numbers, with about 106 bits. Small differences of sums over a
// complete tensor need this precision.
#pragma once

#include <cmath>

namespace apscope::detail {

struct Pair {
    double high = 0.0, low = 0.0;
};

inline Pair quick_sum(double a, double b) {  // |a| >= |b|
    const double s = a + b;
    return {s, b - (s - a)};
}

inline Pair operator+(Pair a, Pair b) {
    const double s = a.high + b.high, back = s - a.high;
    const double error = (a.high - (s - back)) + (b.high - back);
    return quick_sum(s, error + a.low + b.low);
}

inline Pair operator-(Pair a, Pair b) { return a + Pair{-b.high, -b.low}; }

inline Pair operator*(Pair a, double b) {
    const double p = a.high * b;
    return quick_sum(p, std::fma(a.high, b, -p) + a.low * b);
}

}  // namespace apscope::detail
