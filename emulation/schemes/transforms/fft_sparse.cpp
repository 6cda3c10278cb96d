// fft_sparse treats the flattened tensor as a signal. Each worker sends its largest Fourier
// coefficients as range-based floats, with a bitmap of their indices. The messages are gathered,
// transformed back and added.
//
//      F = real FFT of x        F[k] for k = 0 .. floor(n / 2)
//
// Of equal |F|, the one with the lowest k is sent first. The real and imaginary parts are N-bit
// codes of a window that ends at the largest real or imaginary part
// (emulation/schemes/codecs/code_window.h).
//
// The transform runs in fp64 on the CPU, in a fixed order of operations (codecs/fourier.h), also if
// a GPU does the rest of the work.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "core/parse.h"
#include "emulation/machine/divide.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/code_window.h"
#include "emulation/schemes/codecs/fourier.h"
#include "emulation/schemes/codecs/sparse.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

// The transforms that a thread stores, by length. Computing the tables of a length takes longer
// than a transform, and the rows of all workers have the same length. So each thread stores the
// tables of the last lengths, up to 2 MiB, or those of one length that needs more. Tables of more
// than 128 MiB are freed at the end of a message.
class Transforms {
public:
    static Transforms& of_thread() {
        thread_local Transforms transforms;
        return transforms;
    }
    RealFourier& of(std::size_t n) {
        auto match = kept_.find(n);
        if (match != kept_.end()) return match->second;
        if (held_ + RealFourier::numbers(n) > few) clear();
        held_ += RealFourier::numbers(n);
        return kept_.emplace(n, RealFourier(n)).first->second;
    }
    void end_message() {
        if (held_ <= many) return;
        clear();
        re = im = sizes = Row();
    }
    Row re, im, sizes;  // coefficients of the current row, and their squared magnitudes

private:
    // Limits of held_, in fp64 numbers: `few` when tables are added, `many` at the end of a
    // message.
    static constexpr std::size_t few = std::size_t{1} << 18, many = std::size_t{1} << 24;

    void clear() {
        kept_.clear();
        held_ = 0;
    }
    std::map<std::size_t, RealFourier> kept_;
    std::size_t held_ = 0;
};

struct SquaredSizes {
    static APSCOPE_INLINE void run(const double* re, const double* im, std::size_t count,
                                   double* sizes) {
#pragma GCC ivdep  // sizes does not overlap the inputs
        for (std::size_t k = 0; k < count; ++k) sizes[k] = re[k] * re[k] + im[k] * im[k];
    }
};

struct FftSparse {
    double keep;
    int bits, mantissa_bits;
    std::size_t bucket;

    // Encodes a bucket and writes its decoded values to `values`, which is as long as x.
    void encode_part(std::span<const double> x, std::span<double> values, Message& m,
                     BitWriter& payload, bool packs) const {
        const std::size_t n = x.size();
        Transforms& transforms = Transforms::of_thread();
        RealFourier& fourier = transforms.of(n);
        const std::size_t bins = fourier.bins();
        const double amax = amax_of(x);
        int exponent = 0;
        if (amax > 0.0)
            // After division by 2^exponent, the magnitudes of coefficients are at most 1.
            std::frexp(amax * static_cast<double>(n), &exponent);
        std::copy(x.begin(), x.end(), values.begin());
        multiply_by_power(values, -exponent);
        Row &re = transforms.re, &im = transforms.im, &sizes = transforms.sizes;
        for (Row* row : {&re, &im, &sizes}) row->resize(bins);
        fourier.forward(values, re, im);
        simd::run<SquaredSizes>(static_cast<const double*>(re.data()),
                                static_cast<const double*>(im.data()), bins, sizes.data());
        const Buffer<std::size_t> selected =
            largest(bins, kept_of(bins, keep), [&](std::size_t k) { return sizes[k]; });

        float top = 0.0f;
        for (const std::size_t k : selected)
            top = std::max(
                {top, static_cast<float>(std::abs(re[k])), static_cast<float>(std::abs(im[k]))});
        const CodeWindow window(top, bits, mantissa_bits);
        const auto part = [&](double v) {
            const auto single = static_cast<float>(v);
            const std::uint32_t code = window.encode(single);
            if (packs)
                payload.put(code | static_cast<std::uint64_t>(single < 0.0f) << (bits - 1), bits);
            const double value = window.decode(code);
            return single < 0.0f ? -value : value;
        };
        std::size_t at = 0;
        for (std::size_t k = 0; k < bins && packs; ++k) {
            const bool is_kept = at < selected.size() && selected[at] == k;
            at += is_kept;
            payload.put(is_kept, 1);
        }
        m.payload_bits += bins;
        std::size_t next = 0;  // all coefficients below `next` are decoded or set to 0
        for (const std::size_t k : selected) {
            for (; next < k; ++next) re[next] = im[next] = 0.0;
            const bool real_only = k == 0 || 2 * k == n;
            re[k] = part(re[k]);
            im[k] = real_only ? 0.0 : part(im[k]);
            m.payload_bits += static_cast<std::uint64_t>(bits) * (real_only ? 1 : 2);
            next = k + 1;
        }
        for (; next < bins; ++next) re[next] = im[next] = 0.0;
        fourier.inverse(re, im, values);
        simd::run<DivideRow>(values.data(), static_cast<double>(n), n);
        multiply_by_power(values, exponent);
        m.side_bits += 64;  // the window's base and the exponent
    }
    void encode(const RowPiece& p, Message& m) const {
        const std::span<const double> x = p.x;
        const std::size_t unit = bucket == 0 ? std::max<std::size_t>(x.size(), 1) : bucket;
        m.prepare(x.size(), false, false);
        BitWriter payload;
        for (std::size_t begin = 0; begin < x.size(); begin += unit) {
            const std::size_t count = std::min(unit, x.size() - begin);
            encode_part(x.subspan(begin, count), std::span(m.values).subspan(begin, count), m,
                        payload, p.packs());
        }
        Transforms::of_thread().end_message();
        if (bucket == 0) m.tensor_bits = m.side_bits;
        if (p.packs()) m.payload = payload.take();
    }
};

}  // namespace

SchemeDefinition fft_sparse_definition() {
    return {
        .class_name = "FFTSparse",
        .summary = "the largest Fourier coefficients of the flat tensor, as range-based floats; "
                   "gathered and added in fp32",
        .source = "Wang et al., FFT-based Gradient Sparsification, HPDC 2020 (arXiv:1811.08596)",
        .needs = "gradients",
        .keys = {{"keep", "0.15", "share of the coefficients that is sent"},
                 {"bits", "8", "bits of a coefficient's real or imaginary part, 2 to 24"},
                 {"mantissa", "3", "fraction bits of the range-based float, 0 to 20"},
                 {"bucket", "0", "consecutive elements transformed together; 0: the whole tensor"}},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            FftSparse f;
            f.keep = arguments.number("keep", 1e-9, 1.0);
            f.bits = static_cast<int>(arguments.integer("bits", 2, 24));
            f.mantissa_bits = static_cast<int>(arguments.integer("mantissa", 0, 20));
            f.bucket = static_cast<std::size_t>(arguments.integer("bucket", 0, largest_count));
            SchemeParts scheme;
            scheme.grid = "window:" + std::to_string(f.bits);
            scheme.run = whole_row;
            scheme.encoding.mixes_elements = f.bucket == 0;
            scheme.encoding.encode = [f](const RowPiece& p, Message& m) { f.encode(p, m); };
            scheme.encoding.tables = [f](std::size_t n) {
                return n == 0 ? 0
                              : sizeof(double) *
                                    RealFourier::numbers(f.bucket == 0 ? n : std::min(n, f.bucket));
            };
            return scheme;
        }};
}

}  // namespace apscope::detail
