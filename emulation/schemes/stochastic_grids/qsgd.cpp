// qsgd rounds stochastically to uniform levels between -norm and norm of a bucket.
//
//      u = L |g| / norm      L levels; the norm of the worker's bucket
//      l = floor(u) or floor(u) + 1, the second with probability u - floor(u)
//      y = sign(g) l norm / L
//
// Codes and norms are gathered, decoded and added in fp32.
//
// The key `code` chooses the code of the levels. `fixed` sends every level in ceil(log2(2 levels +
// 1)) bits. The other values choose the paper's sparse code, bucket by bucket: for every level that
// is not 0, the distance from the previous such level, the sign and the magnitude are sent, where
// integers have Elias' omega code (`elias`, the recursive code), gamma code or delta code.
#include <algorithm>
#include <array>
#include <utility>

#include "core/parse.h"
#include "emulation/schemes/codecs/elias.h"
#include "emulation/schemes/codecs/uniform_row.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

// The Elias code with this name; no value for `fixed`.
std::optional<EliasCode> elias_code(std::string_view name) {
    if (name == "elias") return EliasCode::omega;
    if (name == "gamma") return EliasCode::gamma;
    if (name == "delta") return EliasCode::delta;
    return std::nullopt;
}

void encode(const RowPiece& p, const UniformGrid& grid, std::optional<EliasCode> code, Message& m) {
    encode_uniform_row(m, p.x, grid, p.measured, p.stream(grid.random_bits), p.packs() && !code,
                       p.place.first);
    if (!code) return;
    BitWriter bits(p.packs());
    const std::span<const double> codes = m.codes;
    for (std::size_t b = 0; b < codes.size(); b += grid.bucket)
        put_sparse(bits, codes.subspan(b, std::min(grid.bucket, codes.size() - b)), *code);
    m.payload_bits = bits.bits();
    if (p.packs()) m.payload = bits.take();
}

}  // namespace

SchemeDefinition qsgd_definition() {
    return {
        .class_name = "QSGD",
        .summary =
            "uniform levels over a bucket's norm, stochastic rounding; gathered and added in fp32",
        .source = "Alistarh et al., QSGD, NIPS 2017 (arXiv:1610.02132)",
        .needs = "gradients",
        .keys =
            {{"levels", "7", "levels on each side of zero"},
             {"bucket", "512", "consecutive elements that share a norm"},
             {"random_bits", "32", "random bits of stochastic rounding, 1 to 53"},
             correlated_key,
             {"norm", "l2", "a bucket's norm: l2 or max"},
             {"code", "fixed",
              "bits of a level: fixed, or sparse in Elias' codes: elias (omega), gamma, delta"}},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            // The texts have the order of enum BucketNorm.
            constexpr std::array<std::string_view, 2> norms{"l2", "max"};
            constexpr std::array<std::string_view, 4> codes{"fixed", "elias", "gamma", "delta"};
            const UniformGrid grid{
                static_cast<int>(arguments.integer("levels", 1, 1 << 20)),
                static_cast<std::size_t>(arguments.integer("bucket", 1, largest_count)),
                static_cast<int>(arguments.integer("random_bits", 1, 53)),
                arguments.one_of<BucketNorm>("norm", norms)};
            const auto code = elias_code(arguments.choice("code", codes));
            return {.grid = "uniform:" + std::to_string(grid.levels),
                    .transport = {.code_bits = code ? 0 : grid.code_bits(),
                                  .scale_bits = 32,
                                  .unit = grid.bucket},
                    .run = code ? grid.bucket : 1,  // distances do not cross buckets
                    .choice = {.measure =
                                   [grid](const WorkerRow& r) { return bucket_norms(r.x, grid); }},
                    .encoding = {.encode = [grid, code](const RowPiece& p,
                                                        Message& m) { encode(p, grid, code, m); },
                                 .uniform = code ? std::nullopt : std::optional(grid),
                                 .draws = true}};
        }};
}

}  // namespace apscope::detail
