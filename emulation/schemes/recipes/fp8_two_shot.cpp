// fp8_two_shot: two phases with an 8-bit float format and scales that are not powers of two; the
// sum between the phases is in fp32.
//
//      a  = amax of the group           1 if the amax is 0 or NaN
//      S  = fl32(M fl32(1 / a))         M: the format's largest value
//      c  = round(fl32(x S))            to nearest, ties to even
//      x' = fl32(c fl32(1 / S))         the decoded value
//      y  = sum of the workers' x'      in fp32, in rank order; y is then encoded in the same way
//
// With group=0, a group is the worker's tensor in phase 1, and a shard of ceil(n / W) elements of
// the sum in phase 2 (worker s owns shard s). With group=N, a group is N consecutive elements of
// the tensor in both phases; with group=row, one of the tensor's slices along the first axis. With
// a bucket, groups are counted in the bucket's array. Infinities and NaNs do not bypass the scheme:
// with an infinite amax, S is 0 and the whole group becomes NaN.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/fixed_shape_sum.h"
#include "core/parse.h"
#include "emulation/arithmetic/row_cast.h"
#include "emulation/schemes/codecs/block_row.h"
#include "emulation/schemes/codecs/float_row.h"
#include "emulation/schemes/codecs/row_use.h"
#include "emulation/schemes/shared/buckets.h"
#include "emulation/schemes/shared/row_length.h"

namespace apscope::detail {

namespace {

class ScaledCast {
public:
    ScaledCast(const FloatFormat& format, Overflow overflow)
        : format_(format), rows_(format, {RoundingMode::ties_to_even, overflow}),
          limits_(limits_of(format, rows_.cast())) {}

    const FloatFormat& format() const { return format_; }
    double zero() const {
        double code = 0.0;
        rows_.round(&code, 1.0, &code, 1, {}, 0);
        return code;
    }

    float scale_of(std::span<const float> x) const {
        float amax = 0.0f;
        for (const float v : x) {
            const float size = std::abs(v);
            if (size > amax || std::isnan(size)) amax = size;
            if (std::isnan(amax)) break;
        }
        if (!(amax > 0.0f)) amax = 1.0f;
        return static_cast<float>(limits_.largest) * (1.0f / amax);
    }
    void round(std::span<const float> x, float scale, double* codes, double* values) const {
        float scaled[sum_block];
        const float back = 1.0f / scale;
        for (std::size_t begin = 0; begin < x.size(); begin += sum_block) {
            const std::size_t count = std::min(sum_block, x.size() - begin);
            for (std::size_t i = 0; i < count; ++i) scaled[i] = x[begin + i] * scale;
            rows_.round(scaled, 1.0, codes + begin, count, {}, 0);
            for (std::size_t i = 0; i < count; ++i)
                values[begin + i] = static_cast<float>(codes[begin + i]) * back;
        }
    }
    // Adds the statistics of `count` elements with one scale: a group, or the tensor's part of a
    // group.
    void state_use(Message& m, std::span<const double> x, float scale, std::size_t first,
                   std::size_t count, GridUse& use) const {
        // Elements with a scale that is 0 or not finite do not count.
        if (!(scale > 0.0f && std::isfinite(scale))) return;
        const Row scales(std::min(count, sum_block), scale);
        for (std::size_t begin = first; begin < first + count; begin += sum_block) {
            const std::size_t part = std::min(sum_block, first + count - begin);
            add_row(use, x.subspan(begin, part), m.codes.data() + begin, m.values.data() + begin,
                    scales.data(), limits_, m.saturated, begin, x.size());
        }
    }

private:
    FloatFormat format_;
    RowCast rows_;
    GridLimits limits_;
};

// The groups of elements that share a scale. If `group` is 0, a group of phase 2 is a shard.
struct Groups {
    std::size_t group = 0;
    bool by_rows = false;

    bool whole_tensor() const { return group == 0 && !by_rows; }
    std::size_t length(const TrainingStep& step, std::size_t n, bool second) const {
        if (by_rows) return row_length(step, n);
        if (group != 0) return group;
        const auto workers = static_cast<std::size_t>(second ? step.workers : 1);
        return std::max<std::size_t>(1, (n + workers - 1) / workers);
    }
};

template <class Work>
void for_groups(std::size_t n, std::size_t length, Work&& work) {
    for (std::size_t first = 0; first < n; first += std::min(length, n - first))
        work(first, std::min(length, n - first));
}

// Makes the message of a row. With a bucket, m.codes finally has the decoded values of complete
// groups, which add_groups() adds.
void encode(const RowPiece& p, const ScaledCast& cast, const Groups& groups, Message& m) {
    const std::size_t n = p.place.size, workers = static_cast<std::size_t>(p.step.workers),
                      length = groups.length(p.step, n, false);
    const BlocksAround around = blocks_around(p.step, RowReader::of(p.x), n, p.worker, length);
    const std::span<const double> seen = around.row.read(0, around.row.size);
    const std::size_t lead = around.lead, end = lead + p.x.size();
    const std::vector<float> x = narrow_row(seen);
    m.prepare(x.size(), true, false);
    GridUse use;
    BlockUse blocks;
    for_groups(x.size(), length, [&](std::size_t first, std::size_t count) {
        const std::span<const float> part = std::span(x).subspan(first, count);
        const float scale = cast.scale_of(part);
        cast.round(part, scale, m.codes.data() + first, m.values.data() + first);
        const std::size_t from = std::max(first, lead), to = std::min(first + count, end);
        cast.state_use(m, seen, scale, from, to - from, use);
        blocks.add(seen, m.saturated, from, to - from, 1.0f / scale);
    });
    m.grid_use = use;
    if (!groups.whole_tensor()) m.block_use = blocks;
    const bool pads = groups.whole_tensor() && p.place.first + x.size() == n;
    const std::size_t behind = pads ? (n + workers - 1) / workers * workers - n : 0;
    const auto width = static_cast<std::uint64_t>(cast.format().storage_bits());
    m.payload_bits = (p.x.size() + behind) * width;
    m.tensor_bits = groups.whole_tensor() ? 64 : 0;
    m.side_bits = groups.whole_tensor() ? m.tensor_bits : around.begun * 32;
    if (p.packs()) {
        Row sent(m.codes.begin() + static_cast<std::ptrdiff_t>(lead),
                 m.codes.begin() + static_cast<std::ptrdiff_t>(end));
        sent.resize(sent.size() + behind, cast.zero());
        m.payload = pack_float_codes(sent, cast.format());
    }
    if (p.step.bucket == nullptr) return;
    m.codes = m.values;
    crop(m, lead, p.x.size());
}

// The fp32 sum of the decoded values; with a bucket, of complete groups.
std::vector<float> add_groups(const SentPieces& s, Row& sum) {
    if (s.step.bucket == nullptr) {
        gathered_sum(s.messages, sum);
        return {sum.begin(), sum.end()};
    }
    std::vector<float> x(s.messages[0].codes.begin(), s.messages[0].codes.end());
    for (std::size_t w = 1; w < s.workers(); ++w)
        for (std::size_t i = 0; i < x.size(); ++i)
            x[i] += static_cast<float>(s.messages[w].codes[i]);
    return x;
}

void answer(const SentPieces& s, const ScaledCast& cast, const Groups& groups, Row& sum) {
    std::vector<float> x = add_groups(s, sum);
    const std::size_t length = groups.length(s.step, s.place.size, true),
                      lead = lead_of(s.step, s.place.size, length);
    for (float& v : x) v += 0.0f;  // the sum starts at +0, so that -0 becomes +0
    Row codes(x.size()), decoded;
    Row& values = s.step.bucket != nullptr ? decoded : sum;
    values.resize(x.size());
    for_groups(x.size(), length, [&](std::size_t first, std::size_t count) {
        const std::span<const float> part = std::span(x).subspan(first, count);
        cast.round(part, cast.scale_of(part), codes.data() + first, values.data() + first);
    });
    if (s.step.bucket == nullptr) return;
    const auto begin = decoded.begin() + static_cast<std::ptrdiff_t>(lead);
    sum.assign(begin, begin + static_cast<std::ptrdiff_t>(s.place.size));
}

}  // namespace

SchemeDefinition fp8_two_shot_definition() {
    return {
        .class_name = "FP8TwoShot",
        .summary = "a float format under a real scale, fp32 sums of shards, and the same once more",
        .source = "ColossalAI, colossalai/quantization/fp8.py; groups as in torchft and FlashInfer",
        .needs = "gradients",
        .takes_format = true,
        .keys = {{"group", "0",
                  "elements that share a scale: 0 (the tensor, then the shard), row, or a number "
                  "such as 256"},
                 bucket_key(),
                 {"overflow", "pytorch",
                  "of the cast: pytorch, infinity in a format that has one, else the largest; "
                  "saturate; or ieee"}},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            constexpr std::array<std::string_view, 3> overflows{"pytorch", "saturate", "ieee"};
            Groups groups;
            groups.by_rows = arguments.text("group") == "row";
            if (!groups.by_rows)
                groups.group =
                    static_cast<std::size_t>(arguments.integer("group", 0, largest_count, "row"));
            const FloatFormat& format = *arguments.format;
            const std::string_view rule = arguments.choice("overflow", overflows);
            const bool saturates =
                rule == "saturate" || (rule == "pytorch" && !format.has_infinity);
            const ScaledCast cast(format, saturates ? Overflow::saturate : Overflow::ieee);
            const std::size_t bucket = bucket_of(
                arguments, groups.group == 0 ? "group=" + arguments.text("group") +
                                                   " is not a number of elements; give group=N"
                                             : "");
            return {
                .grid = format.name(),
                .topology = std::string(reductions::two_phase),
                .transport = {.code_bits = format.storage_bits(),
                              .side_in_parts = !groups.whole_tensor()},
                .run = groups.group != 0 && bucket == 0 ? groups.group : whole_row,
                .bucket = bucket,
                .encoding = {.encode = [cast, groups](const RowPiece& p,
                                                      Message& m) { encode(p, cast, groups, m); },
                             .reduce = [cast, groups](const SentPieces& s,
                                                      Row& sum) { answer(s, cast, groups, sum); },
                             .sees_special = true}};
        }};
}

}  // namespace apscope::detail
