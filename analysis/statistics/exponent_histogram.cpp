#include "analysis/statistics/exponent_histogram.h"

#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

// Counts by exponent field. Consecutive values are counted in four different tables, because they
// often share a binade, and an increment of the same counter waits for the previous one.
using Fields = std::array<std::array<std::uint32_t, 256>, 4>;
constexpr std::size_t piece = std::size_t{1} << 16;

void count_fields(std::span<const float> values, Fields& fields) {
    const auto field = [&](std::size_t i) {
        return bits_cast<std::uint32_t>(values[i]) >> 23 & 0xFF;
    };
    std::size_t i = 0;
    for (; i + 4 <= values.size(); i += 4) {
        for (std::size_t k = 0; k < 4; ++k) ++fields[k][field(i + k)];
    }
    for (; i < values.size(); ++i) ++fields[0][field(i)];
}

struct LargestFinite {
    static APSCOPE_INLINE void run(const float* values, std::size_t count, std::uint32_t* largest) {
        // With one binade added, the bits of non-finite values are negative as signed integers, so
        // these values are never the maximum.
        constexpr std::uint32_t binade = 0x00800000;
        std::int32_t max = binade;
        for (std::size_t i = 0; i < count; ++i) {
            const auto lifted = static_cast<std::int32_t>(
                (bits_cast<std::uint32_t>(values[i]) & 0x7FFFFFFF) + binade);
            max = lifted > max ? lifted : max;
        }
        *largest = static_cast<std::uint32_t>(max) - binade;
    }
};

}  // namespace

void ExponentHistogram::add_each(std::span<const float> values) {
    for (const float value : values) {
        const std::uint32_t magnitude = bits_cast<std::uint32_t>(value) & 0x7FFFFFFF,
                            field = magnitude >> 23;
        if (field - 1 < 254) ++finite[field + static_cast<std::size_t>(-127 - min_exponent)];
        else if (magnitude == 0) ++zero;
        else if (magnitude < 0x7F800000)
            ++finite[static_cast<std::size_t>(exponent_of<float>(magnitude) - min_exponent)];
        else if (magnitude == 0x7F800000) ++infinite;
        else ++nan;
    }
    std::uint32_t largest = 0;
    simd::run<LargestFinite>(values.data(), values.size(), &largest);
    amax = std::max(amax, bits_cast<float>(largest));
}

void ExponentHistogram::add(std::span<const float> values) {
    if (values.size() < 1024) return add_each(values);  // filling the tables would take longer
    for (std::size_t begin = 0; begin < values.size(); begin += piece) {
        const std::span<const float> part =
            values.subspan(begin, std::min(piece, values.size() - begin));
        Fields fields{};
        count_fields(part, fields);
        std::array<std::uint64_t, 256> found{};
        for (const auto& table : fields) {
            for (std::size_t field = 0; field < 256; ++field) found[field] += table[field];
        }
        for (int field = 1; field < 255; ++field)
            finite[static_cast<std::size_t>(field - 127 - min_exponent)] +=
                found[static_cast<std::size_t>(field)];
        // Zeros and subnormal numbers share a field, and so do infinities and NaNs.
        if (found[0] + found[255] > 0) {
            for (const float value : part) {
                const std::uint32_t magnitude = bits_cast<std::uint32_t>(value) & 0x7FFFFFFF;
                if (magnitude == 0) ++zero;
                else if (magnitude < 0x00800000)
                    ++finite[static_cast<std::size_t>(exponent_of<float>(magnitude) -
                                                      min_exponent)];
                else if (magnitude == 0x7F800000) ++infinite;
                else if (magnitude > 0x7F800000) ++nan;
            }
        }
        std::uint32_t largest = 0;
        simd::run<LargestFinite>(part.data(), part.size(), &largest);
        amax = std::max(amax, bits_cast<float>(largest));
    }
}

}  // namespace apscope::detail
