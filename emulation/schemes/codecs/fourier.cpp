#include "emulation/schemes/codecs/fourier.h"

#include <algorithm>

#include "emulation/schemes/codecs/roots_of_unity.h"

namespace apscope::detail {

namespace {

std::size_t complex_length(std::size_t n) { return n % 2 == 0 ? n / 2 : n; }
std::size_t halves(std::size_t n) { return n % 2 == 0 ? n / 4 + 1 : 0; }

}  // namespace

RealFourier::RealFourier(std::size_t n)
    : n_(n), complex_(complex_length(n)), transform_(complex_), half_re_(halves(n)),
      half_im_(halves(n)), re_(complex_), im_(complex_) {
    const RootsOfUnity roots(n);
    for (std::size_t k = 0; k < half_re_.size(); ++k) {
        const auto [c, s] = roots(k);
        half_re_[k] = c;
        half_im_[k] = s;
    }
}

std::size_t RealFourier::numbers(std::size_t n) {
    return ComplexFourier::numbers(complex_length(n)) + 2 * (halves(n) + complex_length(n));
}

void RealFourier::forward(std::span<const double> x, std::span<double> re, std::span<double> im) {
    const std::size_t h = complex_;
    if (n_ % 2 != 0) {
        std::copy(x.begin(), x.end(), re_.begin());
        std::fill(im_.begin(), im_.end(), 0.0);
        transform_.transform(re_.data(), im_.data());
        std::copy_n(re_.begin(), bins(), re.begin());
        std::copy_n(im_.begin(), bins(), im.begin());
        im[0] = 0.0;  // a transform by convolution (Chirp) leaves a rounding error in im[0]
        return;
    }
    for (std::size_t j = 0; j < h; ++j) {
        re_[j] = x[2 * j];
        im_[j] = x[2 * j + 1];
    }
    transform_.transform(re_.data(), im_.data());
    // The transforms of the even and of the odd elements are E = (Z[k] + Z*[h-k]) / 2 and O = (Z[k]
    // - Z*[h-k]) / 2i; X[k] = E + w O, X*[h-k] = E - w O.
    for (std::size_t k = 0; 2 * k <= h; ++k) {
        const std::size_t mirror = k == 0 ? 0 : h - k;
        const double er = (re_[k] + re_[mirror]) * 0.5, ei = (im_[k] - im_[mirror]) * 0.5;
        const double odd_r = (im_[k] + im_[mirror]) * 0.5, odd_i = (re_[mirror] - re_[k]) * 0.5;
        const double wr = half_re_[k], wi = half_im_[k];
        const double tr = odd_r * wr - odd_i * wi, ti = odd_r * wi + odd_i * wr;
        re[k] = er + tr;
        im[k] = ei + ti;
        re[h - k] = er - tr;
        im[h - k] = ti - ei;
    }
    im[0] = im[h] = 0.0;
}

void RealFourier::inverse(std::span<const double> re, std::span<const double> im,
                          std::span<double> x) {
    const std::size_t h = complex_;
    // The inverse transform is the transform with real and imaginary parts exchanged in its input
    // and in its output.
    if (n_ % 2 != 0) {
        for (std::size_t k = 0; k < bins(); ++k) {
            const double part = k == 0 ? 0.0 : im[k];
            re_[k] = re[k];
            im_[k] = part;
            if (k == 0) continue;
            re_[n_ - k] = re[k];
            im_[n_ - k] = -part;
        }
        transform_.transform(im_.data(), re_.data());
        std::copy(re_.begin(), re_.end(), x.begin());
        return;
    }
    for (std::size_t k = 0; 2 * k <= h; ++k) {
        const double ai = k == 0 ? 0.0 : im[k], bi = k == 0 ? 0.0 : im[h - k];
        const double er = re[k] + re[h - k], ei = ai - bi, dr = re[k] - re[h - k], di = ai + bi;
        const double wr = half_re_[k], wi = -half_im_[k];
        const double odd_r = dr * wr - di * wi, odd_i = dr * wi + di * wr;
        re_[k] = er - odd_i;  // Z[k] = E + i O, Z*[h-k] = E - i O
        im_[k] = ei + odd_r;
        if (k == 0) continue;
        re_[h - k] = er + odd_i;
        im_[h - k] = odd_r - ei;
    }
    transform_.transform(im_.data(), re_.data());
    for (std::size_t j = 0; j < h; ++j) {
        x[2 * j] = re_[j];
        x[2 * j + 1] = im_[j];
    }
}

}  // namespace apscope::detail
