// top_k: every worker sends its k = max(1, floor(keep n)) largest magnitudes, of equals the first, as fp32
// numbers with their places; the rest counts as 0. Gathered and added in fp32.
//
// The squared error is at most (1 - k/n) of the square of what is sent.
#include <array>

#include "core/bits.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/sparse.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

Message encode(const TrainingStep& step, std::span<const double> x, double keep, bool packed) {
    const std::vector<std::size_t> kept = largest(x.size(), kept_of(x.size(), keep), [&](std::size_t i) { return std::abs(x[i]); });
    const int width = place_bits(x.size(), packed);
    Message m;
    m.values.assign(x.size(), 0.0);
    BitWriter bits;
    for (const std::size_t i : kept) {
        const auto value = static_cast<float>(x[i]);
        m.values[i] = value;
        if (!step.packs) continue;
        bits.put(i, width);
        bits.put(bits_cast<std::uint32_t>(value), 32);
    }
    m.payload_bits = kept.size() * static_cast<std::uint64_t>(32 + width);
    m.payload = bits.take();
    return m;
}

}  // namespace

SchemeDefinition top_k_definition() {
    return {.class_name = "TopK",
            .summary = "the largest magnitudes with their places, the rest as 0; gathered and added in fp32",
            .source = "Aji and Heafield, Sparse Communication for Distributed Gradient Descent, EMNLP 2017 (arXiv:1704.05021)",
            .needs = "gradients",
            .keys = {{"keep", "0.01", "share of the elements that is sent"},
                     {"index", "32", "bits of a place: 32, or packed, as many as the tensor's length needs"}},
            .build = [](const SchemeArguments& arguments) -> SchemeKind {
        constexpr std::array<std::string_view, 2> widths{"32", "packed"};
        TensorScheme t;
        t.grid = "sparse:fp32";
        t.encode = [keep = arguments.number("keep", 1e-9, 1.0), packed = arguments.choice("index", widths) == "packed"](
                       const TrainingStep& step, const Parameters&, std::span<const double> x, int) { return encode(step, x, keep, packed); };
        return t;
    }};
}

}  // namespace apscope::detail
