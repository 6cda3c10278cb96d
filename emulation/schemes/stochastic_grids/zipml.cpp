// zipml: every worker rounds stochastically to the best levels for its own gradient.
//
// A bucket of consecutive elements (with bucket=0, the complete tensor) has a codebook of at most
// `levels` numbers, chosen from the bucket's values or from candidates such that the variance is
// least (codecs/optimal_levels.h). A codebook costs 32 bits per level. Codebooks are local to a
// worker, so messages are gathered, decoded and added in fp32.
#include <algorithm>
#include <array>
#include <limits>

#include "core/fixed_shape_sum.h"
#include "core/parse.h"
#include "emulation/schemes/codecs/levels.h"
#include "emulation/schemes/codecs/optimal_levels.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

struct Codebooks {
    std::size_t levels, bucket, candidates;
    LevelSearch search;
    int random_bits;
};

// Rounds elements to finite fp32 numbers, because codebooks consist of fp32 numbers.
void narrow(std::span<const double> x, std::span<double> sent) {
    constexpr double largest = std::numeric_limits<float>::max();
    for (std::size_t i = 0; i < x.size(); ++i)
        sent[i] = static_cast<float>(std::clamp(x[i], -largest, largest));
}

// The codebook of a complete row.
Row codebook_of(const RowReader& x, const Codebooks& books) {
    if (x.size == 0) return {};
    Row sent(x.size);
    for (std::size_t first = 0; first < x.size; first += sum_block) {
        const std::size_t count = std::min(sum_block, x.size - first);
        narrow(x.read(first, count), std::span(sent).subspan(first, count));
    }
    return LevelChooser(books.levels, books.search, books.candidates).levels(sent);
}

// Encodes complete buckets of a tensor; the tensor's last bucket may be shorter.
void encode_buckets(const RowPiece& p, const Codebooks& books, Message& all) {
    all.prepare(p.x.size(), true, true);
    LevelChooser chooser(books.levels, books.search, books.candidates);
    Row sent;
    for (std::size_t first = 0; first < p.x.size(); first += books.bucket) {
        const std::span<const double> values =
            p.x.subspan(first, std::min(books.bucket, p.x.size() - first));
        sent.resize(values.size());
        narrow(values, sent);
        put_levels(all, first, values, LevelTable(chooser.levels(sent)), 1.0, LevelRule::stochastic,
                   p.stream(books.random_bits), p.place.first + first);
    }
}

void encode(const RowPiece& p, const Codebooks& books, Message& m) {
    if (p.x.empty()) m.prepare(0, true, true);
    else if (books.bucket == 0)  // the result of measure() is the codebook of the complete row
        encode_levels(m, p.x, LevelTable(Row(p.measured.begin(), p.measured.end())), 1.0,
                      LevelRule::stochastic, p.stream(books.random_bits), false, p.place.first);
    else encode_buckets(p, books, m);
    const std::size_t bucket =
        books.bucket == 0 ? std::max<std::size_t>(p.place.size, 1) : books.bucket;
    set_payload(m, level_bits(books.levels), p.packs());
    m.side_bits = (p.place.size + bucket - 1) / bucket * 32 * books.levels;
    if (books.bucket == 0) m.tensor_bits = m.side_bits;
}

SchemeParts parts_of(const SchemeArguments& arguments) {
    constexpr std::array<std::string_view, 3> methods{"exact", "fast", "candidates"};
    const Codebooks books{static_cast<std::size_t>(arguments.integer("levels", 2, 1 << 16)),
                          static_cast<std::size_t>(arguments.integer("bucket", 0, largest_count)),
                          static_cast<std::size_t>(arguments.integer("candidates", 2, 1 << 24)),
                          parse_level_search(arguments.choice("method", methods)),
                          static_cast<int>(arguments.integer("random_bits", 1, 53))};
    SchemeParts scheme{
        .grid = "levels:" + std::to_string(books.levels),
        .transport = {.code_bits = level_bits(books.levels)},
        .encoding = {.encode = [books](const RowPiece& p, Message& m) { encode(p, books, m); },
                     .draws = true}};
    if (books.bucket != 0) scheme.run = books.bucket;
    else scheme.choice.measure = [books](const WorkerRow& r) { return codebook_of(r.x, books); };
    return scheme;
}

}  // namespace

SchemeDefinition zipml_definition() {
    return {.class_name = "ZipML",
            .summary =
                "stochastic rounding to the levels of minimum variance for each worker's bucket",
            .source = "Zhang et al., ZipML, ICML 2017 (arXiv:1611.05402)",
            .needs = "gradients",
            .keys = {{"levels", "16", "levels of a codebook, from 2"},
                     {"bucket", "0", "consecutive elements that share a codebook, 0: the tensor"},
                     {"method", "candidates",
                      "search of the levels: exact, fast (as good) or candidates"},
                     {"candidates", "512",
                      "values that levels are chosen from, with method=candidates"},
                     {"random_bits", "32", "random bits of stochastic rounding, 1 to 53"},
                     correlated_key},
            .build = parts_of};
}

}  // namespace apscope::detail
