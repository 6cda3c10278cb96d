#include "emulation/schemes/codecs/complex_fourier.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/roots_of_unity.h"

namespace apscope::detail {

namespace {

constexpr std::size_t lanes = 16;  // number of rows that are transformed at the same time
constexpr std::size_t gap = 8;     // unused numbers between rows in memory; without them, rows at
                                   // distances of a power of two would compete for few cache lines

// The radices of n: 4 as often as 4 divides n, then the prime factors of the rest in ascending
// order.
std::vector<std::size_t> radices_of(std::size_t n) {
    std::vector<std::size_t> radices;
    for (; n % 4 == 0; n /= 4) radices.push_back(4);
    for (std::size_t p = 2; n > 1; ++p) {
        if (p * p > n) p = n;
        for (; n % p == 0; n /= p) radices.push_back(p);
    }
    return radices;
}

bool has_large_factor(std::size_t n) {
    const std::vector<std::size_t> radices = radices_of(n);
    return std::any_of(radices.begin(), radices.end(),
                       [](std::size_t p) { return p > ComplexFourier::largest_factor; });
}

// The smallest length 2^a, 3 2^a or 5 2^a that is not below n.
std::size_t smooth_length(std::size_t n) {
    std::size_t best = std::bit_ceil(n);
    for (const std::size_t factor : {3, 5})
        best = std::min(best, factor * std::bit_ceil((n + factor - 1) / factor));
    return best;
}

// The largest divisor of n that is not above sqrt(n).
std::size_t divisor_near_root(std::size_t n) {
    std::size_t best = 1;
    for (std::size_t d = 1; d * d <= n; ++d) best = n % d == 0 ? d : best;
    return best;
}

// The arguments of one of Stockham's passes, which computes y = (to_re, to_im) from x = (re, im),
// in `groups` groups of radix times `run` consecutive numbers.
struct Pass {
    // step: the distance in the table of roots from one group to the next.
    std::size_t radix, groups, run, step;
    const double *root_re, *root_im;
    std::size_t roots;
    const double *re, *im;
    double *to_re, *to_im;
};

struct RunPass {
    static APSCOPE_INLINE void run(const Pass* given) {
        const Pass p = *given;
        if (p.radix == 4) four(p);
        else if (p.radix == 2) two(p);
        else any(p);
    }

    static APSCOPE_INLINE void two(const Pass& p) {
        for (std::size_t j = 0; j < p.groups; ++j) {
            const double wr = p.root_re[j * p.step], wi = p.root_im[j * p.step];
            const double *ar = p.re + j * p.run, *ai = p.im + j * p.run,
                         *br = ar + p.groups * p.run, *bi = ai + p.groups * p.run;
            double *cr = p.to_re + 2 * j * p.run, *ci = p.to_im + 2 * j * p.run, *dr = cr + p.run,
                   *di = ci + p.run;
#pragma GCC ivdep  // y does not overlap x
            for (std::size_t q = 0; q < p.run; ++q) {
                const double xr = ar[q] - br[q], xi = ai[q] - bi[q];
                cr[q] = ar[q] + br[q];
                ci[q] = ai[q] + bi[q];
                dr[q] = xr * wr - xi * wi;
                di[q] = xr * wi + xi * wr;
            }
        }
    }

    static APSCOPE_INLINE void four(const Pass& p) {
        const std::size_t quarter = p.groups * p.run;
        for (std::size_t j = 0; j < p.groups; ++j) {
            const std::size_t w = j * p.step;
            const double w1r = p.root_re[w], w1i = p.root_im[w], w2r = p.root_re[2 * w],
                         w2i = p.root_im[2 * w], w3r = p.root_re[3 * w], w3i = p.root_im[3 * w];
            const double *re = p.re + j * p.run, *im = p.im + j * p.run;
            double *to_re = p.to_re + 4 * j * p.run, *to_im = p.to_im + 4 * j * p.run;
            const std::size_t run = p.run;
#pragma GCC ivdep  // y does not overlap x
            for (std::size_t q = 0; q < run; ++q) {
                const double ar = re[q], ai = im[q], br = re[q + quarter], bi = im[q + quarter];
                const double cr = re[q + 2 * quarter], ci = im[q + 2 * quarter],
                             dr = re[q + 3 * quarter], di = im[q + 3 * quarter];
                const double apr = ar + cr, api = ai + ci, amr = ar - cr, ami = ai - ci;
                const double bpr = br + dr, bpi = bi + di, bmr = br - dr, bmi = bi - di;
                const double x1r = amr + bmi, x1i = ami - bmr, x2r = apr - bpr, x2i = api - bpi,
                             x3r = amr - bmi, x3i = ami + bmr;
                to_re[q] = apr + bpr;
                to_im[q] = api + bpi;
                to_re[q + run] = x1r * w1r - x1i * w1i;
                to_im[q + run] = x1r * w1i + x1i * w1r;
                to_re[q + 2 * run] = x2r * w2r - x2i * w2i;
                to_im[q + 2 * run] = x2r * w2i + x2i * w2r;
                to_re[q + 3 * run] = x3r * w3r - x3i * w3i;
                to_im[q + 3 * run] = x3r * w3i + x3i * w3r;
            }
        }
    }

    // y[r] = sum over t of x[t] w^(r (j + groups t)).
    static APSCOPE_INLINE void any(const Pass& p) {
        for (std::size_t j = 0; j < p.groups; ++j) {
            for (std::size_t r = 0; r < p.radix; ++r) {
                double *to_re = p.to_re + (p.radix * j + r) * p.run,
                       *to_im = p.to_im + (p.radix * j + r) * p.run;
                std::fill(to_re, to_re + p.run, 0.0);
                std::fill(to_im, to_im + p.run, 0.0);
                for (std::size_t t = 0; t < p.radix; ++t) {
                    const std::size_t w = r * (j + p.groups * t) % (p.radix * p.groups) * p.step;
                    const double wr = p.root_re[w], wi = p.root_im[w];
                    const double *re = p.re + (j + p.groups * t) * p.run,
                                 *im = p.im + (j + p.groups * t) * p.run;
#pragma GCC ivdep  // y does not overlap x
                    for (std::size_t q = 0; q < p.run; ++q) {
                        to_re[q] += re[q] * wr - im[q] * wi;
                        to_im[q] += re[q] * wi + im[q] * wr;
                    }
                }
            }
        }
    }
};

// x[i][l] *= turn[i][l] for `rows` rows of lanes; rows of `turn` are `stride` apart in memory.
struct Turn {
    static APSCOPE_INLINE void run(double* re, double* im, const double* turn_re,
                                   const double* turn_im, std::size_t rows, std::size_t stride,
                                   std::size_t count) {
        for (std::size_t i = 0; i < rows; ++i) {
            double *r = re + i * lanes, *m = im + i * lanes;
            const double *wr = turn_re + i * stride, *wi = turn_im + i * stride;
#pragma GCC ivdep  // the tables do not overlap x
            for (std::size_t l = 0; l < count; ++l) {
                const double x = r[l] * wr[l] - m[l] * wi[l];
                m[l] = r[l] * wi[l] + m[l] * wr[l];
                r[l] = x;
            }
        }
    }
};

struct Tile {
    double *re, *im, *other_re, *other_im;
};

template <class Passes>
void transform_tile(const Passes& passes, Tile& t) {
    std::size_t left = passes.length, run = lanes;
    for (const std::size_t radix : passes.radices) {
        left /= radix;
        const Pass pass{radix,         left, run,  run / lanes, passes.re.data(), passes.im.data(),
                        passes.length, t.re, t.im, t.other_re,  t.other_im};
        simd::run<RunPass>(&pass);
        std::swap(t.re, t.other_re);
        std::swap(t.im, t.other_im);
        run *= radix;
    }
}

// LoadRows and StoreRows copy the first `count` numbers of each row between rows of `lanes` numbers
// and rows that are `stride` apart in memory.
struct LoadRows {
    static APSCOPE_INLINE void run(const double* from, std::size_t stride, std::size_t rows,
                                   std::size_t count, double* to) {
        if (count == lanes) {
            for (std::size_t i = 0; i < rows; ++i)
                __builtin_memcpy(to + i * lanes, from + i * stride, lanes * sizeof(double));
            return;
        }
        for (std::size_t i = 0; i < rows; ++i) {
            for (std::size_t l = 0; l < lanes; ++l)
                to[i * lanes + l] = l < count ? from[i * stride + l] : 0.0;
        }
    }
};
struct StoreRows {
    static APSCOPE_INLINE void run(const double* from, std::size_t rows, std::size_t count,
                                   double* to, std::size_t stride) {
        if (count == lanes) {
            for (std::size_t i = 0; i < rows; ++i)
                __builtin_memcpy(to + i * stride, from + i * lanes, lanes * sizeof(double));
            return;
        }
        for (std::size_t i = 0; i < rows; ++i) {
            for (std::size_t l = 0; l < count; ++l) to[i * stride + l] = from[i * lanes + l];
        }
    }
};
// Transposes `count` rows of `length` numbers, `stride` apart in memory, into `length` rows of
// lanes, one cache line of each row at a time.
void load_columns(const double* from, std::size_t stride, std::size_t length, std::size_t count,
                  double* to) {
    constexpr std::size_t line = 8;
    for (std::size_t i = 0; i < length; i += line) {
        const std::size_t end = std::min(i + line, length);
        for (std::size_t l = 0; l < lanes; ++l) {
            for (std::size_t k = i; k < end; ++k)
                to[k * lanes + l] = l < count ? from[l * stride + k] : 0.0;
        }
    }
}

}  // namespace

ComplexFourier::Passes::Passes(std::size_t n) : length(n), radices(radices_of(n)), re(n), im(n) {
    const RootsOfUnity roots(n);
    for (std::size_t k = 0; k < n; ++k) {
        const auto [c, s] = roots(k);
        re[k] = c;
        im[k] = s;
    }
}

ComplexFourier::Split::Split(std::size_t n)
    : first(divisor_near_root(n)), second(n / first.length), turn_re(n), turn_im(n),
      other_re(first.length * (second.length + gap)), other_im(other_re.size()),
      tile(4 * lanes * second.length) {
    const RootsOfUnity roots(n);
    for (std::size_t k = 0; k < first.length; ++k) {
        for (std::size_t b = 0; b < second.length; ++b) {
            const auto [c, s] = roots(k * b);
            turn_re[k * second.length + b] = c;
            turn_im[k * second.length + b] = s;
        }
    }
}

ComplexFourier::Chirp::Chirp(std::size_t n)
    : length(smooth_length(2 * n - 1)), re(n), im(n), kernel_re(length, 0.0),
      kernel_im(length, 0.0), work_re(length), work_im(length), inner(length) {
    const RootsOfUnity roots(2 * n);
    std::size_t square = 0;  // k^2 modulo 2 n
    for (std::size_t k = 0; k < n; ++k) {
        const auto [c, s] = roots(square);
        re[k] = c;
        im[k] = s;
        kernel_re[k] = kernel_re[k == 0 ? 0 : length - k] = c / static_cast<double>(length);
        kernel_im[k] = kernel_im[k == 0 ? 0 : length - k] = -s / static_cast<double>(length);
        square = (square + 2 * k + 1) % (2 * n);
    }
    inner.run(kernel_re.data(), kernel_im.data());
}

ComplexFourier::ComplexFourier(std::size_t n)
    : how_(has_large_factor(n) ? How(std::in_place_type<Chirp>, n)
                               : How(std::in_place_type<Split>, n)) {}

void ComplexFourier::transform(double* re, double* im) {
    std::visit([&](auto& how) { how.run(re, im); }, how_);
}

std::size_t ComplexFourier::numbers(std::size_t n) {
    if (has_large_factor(n)) {
        const std::size_t length = smooth_length(2 * n - 1);
        return 2 * (n + 2 * length) + numbers(length);
    }
    const std::size_t a = divisor_near_root(n), b = n / a;
    return 2 * (a + b + n + a * (b + gap)) + 4 * lanes * b;
}

void ComplexFourier::Split::run(double* re, double* im) {
    const std::size_t a = first.length, b = second.length, part = lanes * b, stride = b + gap;
    Tile t{tile.data(), tile.data() + part, tile.data() + 2 * part, tile.data() + 3 * part};
    for (std::size_t column = 0; column < b; column += lanes) {
        const std::size_t count = std::min(lanes, b - column);
        simd::run<LoadRows>(static_cast<const double*>(re + column), b, a, count, t.re);
        simd::run<LoadRows>(static_cast<const double*>(im + column), b, a, count, t.im);
        transform_tile(first, t);
        simd::run<Turn>(t.re, t.im, turn_re.data() + column, turn_im.data() + column, a, b, count);
        simd::run<StoreRows>(t.re, a, count, other_re.data() + column, stride);
        simd::run<StoreRows>(t.im, a, count, other_im.data() + column, stride);
    }
    for (std::size_t row = 0; row < a; row += lanes) {
        const std::size_t count = std::min(lanes, a - row);
        load_columns(other_re.data() + row * stride, stride, b, count, t.re);
        load_columns(other_im.data() + row * stride, stride, b, count, t.im);
        transform_tile(second, t);
        simd::run<StoreRows>(t.re, b, count, re + row, a);
        simd::run<StoreRows>(t.im, b, count, im + row, a);
    }
}

void ComplexFourier::Chirp::run(double* given_re, double* given_im) {
    const std::size_t n = re.size();
    const auto turn = [](double* x_re, double* x_im, const Row& by_re, const Row& by_im) {
        simd::run<Turn>(x_re, x_im, by_re.data(), by_im.data(), std::size_t{1}, std::size_t{0},
                        by_re.size());
    };
    std::copy_n(given_re, n, work_re.begin());
    std::copy_n(given_im, n, work_im.begin());
    turn(work_re.data(), work_im.data(), re, im);
    for (Row* work : {&work_re, &work_im})
        std::fill(work->begin() + static_cast<std::ptrdiff_t>(n), work->end(), 0.0);
    inner.run(work_re.data(), work_im.data());
    turn(work_re.data(), work_im.data(), kernel_re, kernel_im);
    // The inverse transform is the transform with real and imaginary parts exchanged in its input
    // and in its output.
    inner.run(work_im.data(), work_re.data());
    turn(work_re.data(), work_im.data(), re, im);
    std::copy_n(work_re.begin(), n, given_re);
    std::copy_n(work_im.begin(), n, given_im);
}

}  // namespace apscope::detail
