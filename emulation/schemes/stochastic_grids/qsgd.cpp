// qsgd: uniform levels between -norm and norm of a bucket, stochastic rounding, norms local to a
// worker, codes gathered, decoded and added in fp32.
//
// code: `fixed` has every level in ceil(log2(2 levels + 1)) bits. The others are the paper's sparse code:
// for every level that is not 0 its distance from the last one, a sign and its magnitude, the integers in
// Elias' omega (`elias`, the recursive one), gamma or delta code; buckets follow each other.
#include <algorithm>
#include <array>

#include "emulation/schemes/codecs/elias.h"
#include "emulation/schemes/scheme.h"
#include "emulation/schemes/uniform_grid.h"

namespace apscope::detail {

namespace {

// `fixed` is none of Elias' codes.
std::optional<EliasCode> elias_code(std::string_view name) {
    if (name == "elias") return EliasCode::omega;
    if (name == "gamma") return EliasCode::gamma;
    if (name == "delta") return EliasCode::delta;
    return std::nullopt;
}

TensorScheme on_whole_tensors(const UniformGrid& grid, std::optional<EliasCode> code) {
    TensorScheme t;
    t.grid = grid_name(grid);
    t.draws = true;
    t.encode = [grid, code](const TensorStep& step, const State&, std::span<const double> x, int worker) {
        Message m = encode_uniform_row(x, grid, step.stream(worker, grid.random_bits), step.packs && !code);
        if (!code) return m;
        BitWriter bits;
        for (std::size_t b = 0; b < x.size(); b += grid.bucket) {
            put_sparse(bits, std::span(m.codes).subspan(b, std::min(grid.bucket, x.size() - b)), *code);
        }
        m.payload_bits = bits.bits();
        if (step.packs) m.payload = bits.take();
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
             {"random_bits", "32", "random bits of stochastic rounding, 1 to 53"},
             {"norm", "l2", "a bucket's norm: l2 or max"},
             {"code", "fixed", "bits of a level: fixed, or sparse in Elias' codes: elias (omega), gamma, delta"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                constexpr std::array<std::string_view, 2> norms{"l2", "max"};
                constexpr std::array<std::string_view, 4> codes{"fixed", "elias", "gamma", "delta"};
                UniformGrid grid;
                grid.levels = static_cast<int>(arguments.integer("levels", 1, 1 << 20));
                grid.bucket = static_cast<std::size_t>(arguments.integer("bucket", 1, 1L << 40));
                grid.random_bits = static_cast<int>(arguments.integer("random_bits", 1, 53));
                grid.norm = arguments.choice("norm", norms) == "l2" ? BucketNorm::l2 : BucketNorm::max;
                const std::optional<EliasCode> code = elias_code(arguments.choice("code", codes));
                if (code || grid.norm == BucketNorm::max) {
                    scheme.tensor = std::make_shared<const TensorScheme>(on_whole_tensors(grid, code));
                    return;
                }
                scheme.grid = grid;
                scheme.reduction = {Algebra::gather, false, make_format(8, 23), {}};
                // The bucket's norm is the scale; it is taken where the elements are.
                scheme.select = [](const SelectionInput& input, State&) {
                    return std::vector<Decision>(input.statistics.size(), Decision{1.0, std::nullopt, false});
                };
                scheme.side_bits = [bucket = grid.bucket](std::size_t n) -> std::uint64_t {
                    return 32 * ((n + bucket - 1) / bucket);
                };
            }};
}

}  // namespace apscope::detail
