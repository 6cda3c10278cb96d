// The discrete Fourier transform of n complex numbers, in place, in fp64. Any length is possible;
// the bits are the same on every machine.
//
//      X[k] = sum over j of x[j] exp(-2 pi i j k / n)
//
// Split: a transform of n = A B numbers consists of B transforms of length A, a multiplication by
// roots of unity, and A transforms of length B. Sixteen of these transforms run at the same time,
// so the code is vector code for any factors, and the numbers stay within the caches for any
// length. A prime factor p costs p products per number.
//
// Chirp: if n has a prime factor above `largest_factor`, the transform is computed as a convolution
// whose length has no such factor (Bluestein, 1970):
//
//      2 j k = j^2 + k^2 - (k - j)^2
//      w[k]  = exp(-pi i k^2 / n)
//      X[k]  = w[k] sum over j of (x[j] w[j]) conj(w[k - j])
#pragma once

#include <cstddef>
#include <variant>
#include <vector>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

class ComplexFourier {
public:
    static constexpr std::size_t largest_factor = 128;

    explicit ComplexFourier(std::size_t n);  // n >= 1
    void transform(double* re, double* im);
    static std::size_t numbers(std::size_t n);  // count of fp64 numbers in the tables and buffers

private:
    // The transform of a row by Stockham's algorithm: one pass per radix, in the order of
    // `radices`.
    struct Passes {
        std::size_t length;
        std::vector<std::size_t> radices;
        Row re, im;  // the roots of unity for this length
        explicit Passes(std::size_t n);
    };
    struct Split {
        Passes first, second;
        Row turn_re, turn_im;  // roots of unity between the transforms of length A and B
        Row other_re, other_im, tile;
        explicit Split(std::size_t n);
        void run(double* re, double* im);
    };
    struct Chirp {
        std::size_t length;        // length of the convolution
        Row re, im;                // w
        Row kernel_re, kernel_im;  // the transform of conj(w) / length
        Row work_re, work_im;
        Split inner;
        explicit Chirp(std::size_t n);
        void run(double* re, double* im);
    };
    using How = std::variant<Split, Chirp>;
    How how_;
};

}  // namespace apscope::detail
