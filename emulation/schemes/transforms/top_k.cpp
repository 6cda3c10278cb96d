// top_k: every worker sends the k = max(1, floor(keep n)) elements of largest magnitude (of equal
// magnitudes, the first) as fp32 numbers with their indices; the other elements count as 0.
// Messages are gathered and added in fp32.
//
// The squared error is at most (1 - k/n) |x|^2.
#include <array>

#include "core/bits.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/sparse.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

void encode(const RowPiece& p, bool packed, Message& m) {
    const Cutoff cutoff = Cutoff::of(p.measured);
    const std::span<const double> x = p.x;
    const int width = place_bits(p.place.size, packed);
    m.prepare(x.size(), false, false);
    std::uint64_t selected = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const bool keeps = cutoff.keeps(std::abs(x[i]), p.place.first + i);
        m.values[i] = keeps ? static_cast<float>(x[i]) : 0.0;
        selected += keeps ? 1 : 0;
    }
    m.payload_bits = selected * static_cast<std::uint64_t>(32 + width);
    if (!p.packs()) return;
    BitWriter bits;
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (!cutoff.keeps(std::abs(x[i]), p.place.first + i)) continue;
        bits.put(p.place.first + i, width);
        bits.put(bits_cast<std::uint32_t>(static_cast<float>(m.values[i])), 32);
    }
    m.payload = bits.take();
}

}  // namespace

SchemeDefinition top_k_definition() {
    return {
        .class_name = "TopK",
        .summary =
            "the largest magnitudes with their places, the rest as 0; gathered and added in fp32",
        .source = "Aji and Heafield, Sparse Communication for Distributed Gradient Descent, EMNLP "
                  "2017 (arXiv:1704.05021)",
        .needs = "gradients",
        .keys = {{"keep", "0.01", "share of the elements that is sent"},
                 {"index", "32",
                  "bits of an index: 32, or packed, as many as the tensor's length needs"}},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            constexpr std::array<std::string_view, 2> widths{"32", "packed"};
            return {
                .grid = "sparse:fp32",
                .choice = {.measure =
                               [keep = arguments.number("keep", 1e-9, 1.0)](const WorkerRow& r) {
                                   return cutoff_of_magnitudes(r.x, kept_of(r.x.size, keep)).row();
                               }},
                .encoding = {.encode = [packed = arguments.choice("index", widths) == "packed"](
                                           const RowPiece& p, Message& m) { encode(p, packed, m); },
                             .mixes_elements = true}};
        }};
}

}  // namespace apscope::detail
