// The discrete Fourier transform of a row of real numbers, and back, in fp64: any length, the same bits on every machine.
//
//      X[k] = sum over j of x[j] exp(-2 pi i j k / n)      k = 0 .. floor(n / 2)
//
// An even length is the complex transform of half of it, of x[0] + i x[1], x[2] + i x[3], ...; that of A B numbers is B of
// length A, a product with roots of unity, and A of length B, each for 16 of them side by side: vector code for any
// factors, in the caches for any length.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace apscope::detail {

class RealFourier {
public:
    explicit RealFourier(std::size_t n);  // n >= 1
    std::size_t size() const { return n_; }
    std::size_t bins() const { return n_ / 2 + 1; }

    // x: n numbers. re, im: bins() each.
    void forward(std::span<const double> x, std::span<double> re, std::span<double> im);
    // n times the row that has these coefficients. im[0], and im of the last bin of an even length, count as 0.
    void inverse(std::span<const double> re, std::span<const double> im, std::span<double> x);

private:
    // Of a row, by Stockham's passes: the first radices first.
    struct Passes {
        std::size_t length;
        std::vector<std::size_t> radices;
        std::vector<double> re, im;  // the roots of unity of that length
        explicit Passes(std::size_t n);
    };
    void complex_transform(double* re, double* im);

    std::size_t n_, complex_;  // the lengths of the row and of the complex transform
    Passes first_, second_;
    std::vector<double> turn_re_, turn_im_;  // between the two
    std::vector<double> half_re_, half_im_;  // of an even length, exp(-2 pi i k / n)
    std::vector<double> re_, im_, other_re_, other_im_, tile_;
};

}  // namespace apscope::detail
