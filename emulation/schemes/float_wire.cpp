#include "emulation/schemes/float_wire.h"

#include <cmath>

#include "emulation/machine/row_kernels.h"

namespace apscope::detail {

FloatWire::FloatWire(const FloatGrid& grid, const Decision& decision, int workers)
    : decision_(decision), divisors_(grid.division.of(workers)),
      cast_(grid.format, grid.projection) {
    if (!decision.exponent) return;
    inverse_ = std::ldexp(1.0, -*decision.exponent);
    if (divisors_.any()) return;
    grid_ = narrow_format(grid.format, grid.projection, *decision.exponent);
    if (grid_) job_ = make_row_job(*grid_, grid.projection);
}

void FloatWire::decode(std::span<double> codes) const {
    simd::run<DivideRow>(codes.data(), decision_.scale, codes.size());
}

void FloatWire::encode(const FloatSource& source, std::span<const float> in, std::size_t first,
                       PhiloxKey key, bool wide, FloatBuffers& buffers) {
    const std::size_t count = in.size();
    const auto [worker, row] = source;
    Buffer<double>&codes = buffers.codes[row], &decoded = buffers.decoded[row];
    if (wide || !job_) {
        codes.resize(count);
        decoded.resize(count);
    }
    if (!job_) {
        encode_row(in, codes.data(), decision_.scale, cast_, key, worker, first);
        if (divisors_.before != 1.0) {
            buffers.undivided[row].assign(codes.begin(), codes.end());
            const RandomStream words{key, worker, stage_and_hop(Stage::wire, 1),
                                     cast().random_bits};
            divide_codes(codes, divisors_.before, cast_, words, first);
        }
        for (std::size_t i = 0; i < count; ++i) decoded[i] = codes[i] * divisors_.before;
        decode(decoded);
        return;
    }
    Buffer<float>& narrow = buffers.narrow[row];
    narrow.resize(count);
    const RandomStream stream{key, worker, stage_and_hop(Stage::wire, 0), cast().random_bits};
    round_row(*job_, in.data(), narrow.data(), count, stream, first);
    if (wide)
        simd::run<WidenAndScale>(narrow.data(), decoded.data(), codes.data(), decision_.scale,
                                 count);
}

}  // namespace apscope::detail
