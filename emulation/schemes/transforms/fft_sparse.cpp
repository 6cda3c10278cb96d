// fft_sparse: the tensor, flat, as a signal: of its Fourier coefficients the largest are kept and sent as
// range-based floats with a bitmap of their places; gathered, transformed back and added.
//
//      F = real FFT of x     keep the largest |F|, of equals the first      real and imaginary parts as
//      N-bit codes of a window that ends at the largest part (emulation/schemes/codecs/code_window.h)
//
// The transform runs on the host in fp64, in one fixed implementation (KissFFT), whatever the device.
#include <algorithm>
#include <complex>
#include <kissfft/kissfft.hh>
#include <map>
#include <utility>
#include <vector>

#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/code_window.h"
#include "emulation/schemes/codecs/sparse.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

using Complex = std::complex<double>;

// A length's roots of unity take longer than its transform, and all workers have that length: a thread keeps those it
// used last, up to 1 MiB of them.
std::vector<Complex> transform(const std::vector<Complex>& x, bool inverse) {
    constexpr std::size_t max = std::size_t{1} << 16;
    if (x.size() < 2) return x;
    std::vector<Complex> y(x.size());
    if (x.size() > max) {
        kissfft<double>(x.size(), inverse).transform(x.data(), y.data());
        return y;
    }
    thread_local std::map<std::pair<std::size_t, bool>, kissfft<double>> plans;
    thread_local std::size_t held = 0;
    auto plan = plans.find({x.size(), inverse});
    if (plan == plans.end()) {
        if (held + x.size() > max) {
            plans.clear();
            held = 0;
        }
        plan = plans.emplace(std::pair{x.size(), inverse}, kissfft<double>(x.size(), inverse)).first;
        held += x.size();
    }
    plan->second.transform(x.data(), y.data());
    return y;
}

struct FftSparse {
    double keep;
    int bits, mantissa_bits;
    std::size_t bucket;

    void encode_part(std::span<const double> x, Message& m, BitWriter& payload, bool packs) const {
        const std::size_t n = x.size(), bins = n / 2 + 1;
        const double amax = amax_of(x);
        int exponent = 0;
        if (amax > 0.0) std::frexp(amax * static_cast<double>(n), &exponent);  // coefficients are at most 1 then
        Row scaled(x.begin(), x.end());
        multiply_by_power(scaled, -exponent);
        const std::vector<Complex> signal(scaled.begin(), scaled.end());
        const std::vector<Complex> f = transform(signal, false);
        const std::vector<std::size_t> kept = largest(bins, kept_of(bins, keep), [&](std::size_t k) { return std::norm(f[k]); });

        float top = 0.0f;
        for (const std::size_t k : kept) top = std::max({top, static_cast<float>(std::abs(f[k].real())), static_cast<float>(std::abs(f[k].imag()))});
        const CodeWindow window(top, bits, mantissa_bits);
        const auto part = [&](double v) {
            const auto single = static_cast<float>(v);
            const std::uint32_t code = window.encode(single);
            if (packs) payload.put(code | static_cast<std::uint64_t>(single < 0.0f) << (bits - 1), bits);
            const double value = window.decode(code);
            return single < 0.0f ? -value : value;
        };
        std::vector<Complex> decoded(n);
        std::size_t at = 0;
        for (std::size_t k = 0; k < bins && packs; ++k) {
            const bool is_kept = at < kept.size() && kept[at] == k;
            at += is_kept;
            payload.put(is_kept, 1);
        }
        m.payload_bits += bins;
        for (const std::size_t k : kept) {
            const bool real_only = k == 0 || 2 * k == n;
            const double re = part(f[k].real()), im = real_only ? 0.0 : part(f[k].imag());
            m.payload_bits += static_cast<std::uint64_t>(bits) * (real_only ? 1 : 2);
            decoded[k] = {re, im};
            if (!real_only) decoded[n - k] = {re, -im};
        }
        const std::vector<Complex> back = transform(decoded, true);
        for (std::size_t i = 0; i < n; ++i) scaled[i] = back[i].real() / static_cast<double>(n);
        multiply_by_power(scaled, exponent);
        m.values.insert(m.values.end(), scaled.begin(), scaled.end());
        m.side_bits += 64;  // the window's base and the exponent
    }
    Message encode(const TrainingStep& step, std::span<const double> x) const {
        const std::size_t unit = bucket == 0 ? std::max<std::size_t>(x.size(), 1) : bucket;
        Message m;
        BitWriter payload;
        for (std::size_t begin = 0; begin < x.size(); begin += unit) {
            encode_part(x.subspan(begin, std::min(unit, x.size() - begin)), m, payload, step.packs);
        }
        if (step.packs) m.payload = payload.take();
        return m;
    }
};

}  // namespace

SchemeDefinition fft_sparse_definition() {
    return {.class_name = "FFTSparse",
            .summary = "the largest Fourier coefficients of the flat tensor, as range-based floats; gathered and added in fp32",
            .source = "Wang et al., FFT-based Gradient Sparsification, HPDC 2020 (arXiv:1811.08596)",
            .needs = "gradients",
            .keys = {{"keep", "0.15", "share of the coefficients that is sent"},
                     {"bits", "8", "of a coefficient's real or imaginary part, 2 to 24"},
                     {"mantissa", "3", "fraction bits of the range-based float, 0 to 20"},
                     {"bucket", "0", "consecutive elements transformed together; 0: the whole tensor"}},
            .build = [](const SchemeArguments& arguments) -> SchemeKind {
        FftSparse f;
        f.keep = arguments.number("keep", 1e-9, 1.0);
        f.bits = static_cast<int>(arguments.integer("bits", 2, 24));
        f.mantissa_bits = static_cast<int>(arguments.integer("mantissa", 0, 20));
        f.bucket = static_cast<std::size_t>(arguments.integer("bucket", 0, 1L << 40));
        TensorScheme t;
        t.grid = "window:" + std::to_string(f.bits);
        t.encode = [f](const TrainingStep& step, const Parameters&, std::span<const double> x, int) { return f.encode(step, x); };
        return t;
    }};
}

}  // namespace apscope::detail
