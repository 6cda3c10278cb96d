// mx: blocks of elements that share a power-of-two scale, local to a worker (microscaling, shared
// exponents).
//
//      k = exponent of the block's amax by `rule`    OCP: floor(log2 amax) - emax of the elements
//      c = saturating round(g / 2^k)
//
// A block consists of consecutive elements of the flattened tensor, of a row of the tensor, or of
// the tensor's bucket; the last block may be shorter. Messages are gathered, decoded and added in
// fp32, because scales differ between the workers. block_format is the name of a block format
// (core/block_format.h), with / in place of commas. Infinities and NaNs do not bypass the scheme:
// the key `nonfinite` chooses their effect on a block.
#include <algorithm>
#include <array>
#include <utility>

#include "emulation/schemes/codecs/block_row.h"
#include "emulation/schemes/shared/buckets.h"
#include "emulation/schemes/shared/row_length.h"

namespace apscope::detail {

SchemeDefinition mx_definition() {
    return {
        .class_name = "MX",
        .summary = "blocks that share a power-of-two scale: MXFP8, MXFP6, MXFP4, MXINT8, block "
                   "floating point; gathered, fp32",
        .source = "OCP Microscaling Formats (MX) v1.0, 2023; Rouhani et al., arXiv:2310.10537",
        .needs = "gradients",
        .keys = {{"block_format", "mxfp8_e4m3",
                  "a block format's name, / for its commas: mxfp4, bfp:8:16, blocks:e3m2/block=8"},
                 {"block", "0", "elements that share a scale; 0: those of the format"},
                 {"rule", "format",
                  "rule of the scale: floor, ceil, rceil, even, nearest, or format, the format's "
                  "own"},
                 {"along", "tensor",
                  "blocks along the flattened tensor, or along each row (slice of the first axis)"},
                 bucket_key(),
                 {"nonfinite", "format",
                  "a block with an infinity or NaN: apart, torchao, torchao_0.18, "
                  "transformer_engine, or format"},
                 {"rounding", "ties_to_even", "how an element is rounded"},
                 {"random_bits", "32", "random bits of stochastic rounding, 1 to 64"},
                 correlated_key},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            std::string name = arguments.text("block_format");
            std::replace(name.begin(), name.end(), '/', ',');
            BlockFormat format = parse_block_format(name);
            if (const long block = arguments.integer("block", 0, 1 << 30); block != 0)
                format.block_size = static_cast<int>(block);
            if (const std::string& rule = arguments.text("rule"); rule != "format")
                format.rule = parse_scale_rule(rule);
            if (const std::string& rule = arguments.text("nonfinite"); rule != "format")
                format.nonfinite = parse_block_nonfinite(rule);
            constexpr std::array<std::string_view, 2> lines{"tensor", "row"};
            const bool by_rows = arguments.choice("along", lines) == "row";
            if (format.rule == ScaleRule::ratio) {
                throw std::invalid_argument(
                    "block_format=" + name +
                    " has scales that are ratios; mx needs powers of two (see nvfp4)");
            }
            const Projection projection{parse_rounding(arguments.text("rounding")),
                                        Overflow::saturate,
                                        static_cast<int>(arguments.integer("random_bits", 1, 64))};
            require_counted(projection.rounding, "schemes");
            const BlockGrid grid(format, projection);
            const auto block = static_cast<std::size_t>(format.block_size);
            const std::size_t bucket =
                bucket_of(arguments,
                          by_rows ? "along=row begins a block at every row; use along=tensor" : "");
            const auto encode = [grid, by_rows, block](const RowPiece& p, Message& m) {
                const std::size_t line =
                    by_rows ? row_length(p.step, p.place.size) : BlockLines().line;
                const BlocksAround around =
                    blocks_around(p.step, RowReader::of(p.x), p.place.size, p.worker, block);
                const std::span<const double> x = around.row.read(0, around.row.size);
                BlockSettings settings{p.stream(grid.projection.random_bits), {}};
                settings.first_element = p.place.first - around.lead;
                const std::uint64_t scales =
                    by_rows ? BlockLines{block, line}.scales(p.place.size, grid.format)
                            : around.begun;
                state_blocks(m, encode_block_row(x, grid, settings, line), x,
                             {around.lead, p.x.size(), scales}, grid, p.step);
                crop(m, around.lead, p.x.size());
            };
            const bool in_tensor = !by_rows && bucket == 0;
            return {.grid = format.name(),
                    .transport = {.code_bits = format.element.storage_bits(),
                                  .scale_bits = format.scale.storage_bits(),
                                  .unit = block},
                    .run = by_rows || bucket != 0 ? whole_row : block,
                    .block = by_rows ? 0 : block,
                    .bucket = bucket,
                    .encoding = {.encode = encode,
                                 .blocks = in_tensor
                                               ? std::optional(BlockEncoding{format, projection})
                                               : std::nullopt,
                                 .draws = is_stochastic(projection.rounding),
                                 .sees_special = true}};
        }};
}

}  // namespace apscope::detail
