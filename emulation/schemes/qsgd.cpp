// qsgd: uniform levels between -norm and norm of a bucket, stochastic rounding, norms local to a worker,
// codes gathered, decoded and added in fp32.
//
// code=fixed sends ceil(log2(2 levels + 1)) bits an element. code=elias sends, for every bucket, the number
// of levels that are not zero, and for each the gap to the one before, its sign and its size, numbers as
// Elias omega codes: short where most levels are zero.
#include <array>

#include "emulation/codecs/elias.h"
#include "emulation/uniform_grid.h"

namespace apscope {

namespace {

std::vector<std::uint8_t> elias_payload(const Row& levels, std::size_t bucket, std::uint64_t& length) {
    BitWriter bits;
    for (std::size_t begin = 0; begin < levels.size(); begin += bucket) {
        const std::size_t end = std::min(begin + bucket, levels.size());
        std::uint64_t count = 0;
        for (std::size_t i = begin; i < end; ++i) count += levels[i] != 0.0;
        put_elias(bits, count + 1);
        std::size_t last = begin;
        for (std::size_t i = begin; i < end; ++i) {
            if (levels[i] == 0.0) continue;
            put_elias(bits, i - last + 1);
            bits.put(levels[i] < 0.0, 1);
            put_elias(bits, static_cast<std::uint64_t>(std::abs(levels[i])));
            last = i;
        }
    }
    length = bits.bits();
    return bits.take();
}

TensorScheme elias_scheme(const UniformGrid& grid) {
    TensorScheme t;
    t.grid = grid_name(grid);
    t.draws = true;
    t.encode = [grid](const TensorStep& step, const State&, std::span<const double> x, int worker) {
        Message m = encode_uniform_row(x, grid, step.stream(worker, grid.random_bits), false);
        std::vector<std::uint8_t> payload = elias_payload(m.codes, grid.bucket, m.payload_bits);
        if (step.packs) m.payload = std::move(payload);
        return m;
    };
    return t;
}

}  // namespace

SchemeDefinition qsgd_definition() {
    return {"qsgd",
            "QSGD",
            "uniform levels over a bucket's norm, stochastic rounding; gathered and added in fp32",
            "Alistarh et al., QSGD, NIPS 2017 (arXiv:1610.02132)",
            "gradients",
            false,
            {{"levels", "7", "levels on each side of zero"},
             {"bucket", "512", "consecutive elements that share a norm"},
             {"norm", "l2", "of a bucket: l2, or max, its largest magnitude"},
             {"code", "fixed", "fixed: as many bits for every level; elias: Elias codes of gaps and levels"},
             {"random_bits", "32", "random bits of stochastic rounding, 1 to 53"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                constexpr std::array<std::string_view, 2> norms{"l2", "max"}, codes{"fixed", "elias"};
                UniformGrid grid;
                grid.levels = static_cast<int>(arguments.integer("levels", 1, 1 << 20));
                grid.bucket = static_cast<std::size_t>(arguments.integer("bucket", 1, 1L << 40));
                grid.random_bits = static_cast<int>(arguments.integer("random_bits", 1, 53));
                grid.by_amax = arguments.choice("norm", norms) == "max";
                scheme.grid = grid;
                scheme.reduction = {Algebra::gather, false, make_format(8, 23), {}};
                // The bucket's norm is the scale; it is taken where the elements are.
                scheme.select = [](const SelectionInput& input, State&) {
                    return std::vector<Decision>(input.statistics.size(), Decision{1.0, std::nullopt, false});
                };
                scheme.side_bits = [bucket = grid.bucket](std::size_t n) -> std::uint64_t {
                    return 32 * ((n + bucket - 1) / bucket);
                };
                if (arguments.choice("code", codes) == "elias") scheme.tensor = std::make_shared<const TensorScheme>(elias_scheme(grid));
            }};
}

}  // namespace apscope
