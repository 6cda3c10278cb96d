// current_scaling: the scale is computed from the amax of the values to be sent.
//
//      S = fl32(largest / max(amax, eps))      at most FLT_MAX; 1 if amax and eps are 0
//          2^floor(log2 S)                     with pow2, so largest / 2 < amax S <= largest
//      c = saturating round(S g)
//
// With nonfinite=one, S = 1 if an element is not finite. This is Transformer Engine's rule for an
// amax that is infinite or NaN; but its kernels take the maximum with fmaxf, which ignores a NaN if
// the other argument is a number, whereas here every NaN counts. With nonfinite=finite, the amax is
// that of the finite elements.
//
// With agree=max, the amax is taken over all workers, and any topology adds the codes in fp32. With
// agree=local, each worker has its own scale. With block=N, each run of N elements of a worker's
// flattened tensor, or of the tensor's bucket, has its own scale. Messages with local scales are
// gathered, decoded and added in fp32, because their codes have no common scale.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/parse.h"
#include "emulation/schemes/codecs/float_row.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/shared/buckets.h"
#include "emulation/schemes/shared/float_scheme.h"
#include "emulation/schemes/shared/fp32_ratio.h"

namespace apscope::detail {

namespace {

// The scheme with scales that are local to a worker: one per block, or per tensor if block is 0.
SchemeParts local(const FloatGrid& grid, std::size_t block, std::size_t bucket, double eps,
                  bool pow2, bool one_if_nonfinite) {
    const auto run_of = [block](std::size_t n) {
        return block == 0 ? std::max<std::size_t>(n, 1) : block;
    };
    const auto measure = [=, largest = grid.format.largest()](const WorkerRow& r) {
        const std::size_t length = run_of(r.x.size);
        const RowReader x = blocks_around(r.step, r.x, r.x.size, r.worker, length).row;
        Row scales((x.size + length - 1) / length, 0.0);
        std::vector<char> is_one(scales.size(), 0);
        for_runs(x, length, [&](std::size_t run, std::span<const double> part) {
            scales[run] = std::max(scales[run], amax_of(part));
            for (const double x : part) is_one[run] |= std::isfinite(x) ? 0 : 1;
        });
        for (std::size_t i = 0; i < scales.size(); ++i)
            scales[i] = is_one[i] ? 1.0 : fp32_ratio(largest, scales[i], eps, pow2);
        return scales;
    };
    const auto encode = [=](const RowPiece& p, Message& m) {
        const std::size_t length = run_of(p.place.size);
        const BlocksAround around =
            blocks_around(p.step, RowReader::of(p.x), p.place.size, p.worker, length);
        encode_float_row(p, p.measured, length, grid, m, around.lead);
        m.side_bits = (pow2 ? 8 : 32) * around.begun;
        if (block == 0) m.tensor_bits = m.side_bits;
    };
    return {.grid = grid.format.name(),
            .transport = {.code_bits = grid.format.storage_bits()},
            .run = bucket != 0 ? whole_row : 1,
            .block = block,
            .bucket = bucket,
            .choice = {.measure = measure},
            .encoding = {.encode = encode,
                         .draws = is_stochastic(grid),
                         .sees_special = one_if_nonfinite,
                         .rounds_special = true}};
}

}  // namespace

SchemeDefinition current_scaling_definition() {
    return {
        .class_name = "CurrentScaling",
        .summary = "a scale per tensor, or per block of it, from the current amax; saturating "
                   "cast, sums in fp32",
        .source = "NVIDIA Transformer Engine, recipes Float8CurrentScaling and "
                  "Float8BlockScaling, recipe_common.cuh",
        .needs = "gradients",
        .takes_format = true,
        .keys = float_keys(
            {{"pow2", "false", "true: the scale is a power of two, rounded down"},
             {"agree", "max", "amax: max over the workers, or local"},
             {"block", "0", "elements that share a scale, local to a worker; 0: the tensor"},
             bucket_key(),
             {"eps", "0", "the lower bound of amax"},
             {"nonfinite", "finite",
              "a tensor or block with an infinity or NaN: its finite amax, or one: scale 1"}},
            {.overflow = "saturate", .accumulate = "fp32"}),
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            constexpr std::array<std::string_view, 2> agreements{"max", "local"};
            constexpr std::array<std::string_view, 2> specials{"finite", "one"};
            const bool pow2 = arguments.flag("pow2"),
                       one_if_nonfinite = arguments.choice("nonfinite", specials) == "one";
            SchemeParts scheme = float_scheme(arguments, pow2 ? 8 : 32);
            const auto block =
                static_cast<std::size_t>(arguments.integer("block", 0, largest_count));
            const std::size_t bucket =
                bucket_of(arguments, block == 0 ? "here a tensor has one scale; give block=N" : "");
            const double eps = arguments.number("eps", 0.0, 0x1p127);
            if (arguments.choice("agree", agreements) == "local" || block != 0) {
                require_undivided(scheme.encoding.float_encoder->grid, arguments,
                                  block != 0 ? "block=" + arguments.text("block") : "agree=local");
                return local(scheme.encoding.float_encoder->grid, block, bucket, eps, pow2,
                             one_if_nonfinite);
            }
            scheme.choice.choose = choose_each(
                [=, largest = arguments.format->largest()](const TensorStatistics& s, State&) {
                    return scale_of(one_if_nonfinite && s.agreed.nonfinite > 0
                                        ? 1.0
                                        : fp32_ratio(largest, s.agreed.amax, eps, pow2));
                });
            return scheme;
        }};
}

}  // namespace apscope::detail
