// Tensors of more than 2^32 elements, by arithmetic on indices: streams, orders, blocks, counts and
// files at offsets around 2^32 and 2^33 (and 2^35, where the blocks of a stream pass 2^32), without
// allocating the elements before them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "analysis/statistics/error_statistics.h"
#include "analysis/statistics/exponent_histogram.h"
#include "analysis/trace/safetensors.h"
#include "analysis/trace/trace_manifest.h"
#include "core/named_formats.h"
#include "core/philox.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/allreduce/topology.h"
#include "emulation/cast/packing.h"
#include "emulation/cast/quantize.h"
#include "emulation/draws/random_words.h"
#include "emulation/schemes/codecs/sparse.h"
#include "emulation/schemes/codecs/uniform_row.h"
#include "emulation/schemes/scheme.h"
#include "tests/support/trace_files.h"

namespace apscope::detail {
namespace {

constexpr std::uint64_t bit32 = std::uint64_t{1} << 32;
const std::vector<std::uint64_t> offsets{bit32 - 512,     bit32 - 8,     bit32,
                                         2 * bit32 - 512, 2 * bit32,     2 * bit32 + 8,
                                         8 * bit32 - 512, 16 * bit32 + 8};

// The random integer of an element, left-aligned, from the definition: the counter is the 64-bit
// number of the block, whose low and high words are written out here.
std::uint64_t word_of(const RandomStream& stream, unsigned __int128 element) {
    const unsigned slots = stream.random_bits <= 16 ? 8 : stream.random_bits <= 32 ? 4 : 2;
    const unsigned __int128 block = element / slots;
    const auto slot = static_cast<unsigned>(element % slots);
    const PhiloxBlock b =
        philox({{static_cast<std::uint32_t>(block & 0xFFFFFFFF),
                 static_cast<std::uint32_t>(block >> 32), stream.worker, stream.stage_and_hop}},
               stream.key);
    std::uint64_t value;
    if (slots == 8)
        value = static_cast<std::uint64_t>(b.word[slot / 2] >> (16 * (slot % 2)) & 0xFFFF) << 48;
    else if (slots == 4) value = static_cast<std::uint64_t>(b.word[slot]) << 32;
    else value = static_cast<std::uint64_t>(b.word[2 * slot + 1]) << 32 | b.word[2 * slot];
    return value >> (64 - stream.random_bits) << (64 - stream.random_bits);
}

std::vector<float> numbers(std::size_t n, float size = 1.0f) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0.0f, size);
    std::vector<float> x(n);
    for (float& v : x) v = normal(random);
    return x;
}

TEST(LargeIndices, StreamsCountIn64Bits) {
    for (const int bits : {8, 16, 17, 32, 33, 64}) {
        const RandomStream stream{{1, 2}, 3, stage_and_hop(Stage::wire, 0), bits};
        bool differs = false;
        for (const std::uint64_t first : offsets) {
            for (std::uint64_t e = first; e < first + 1024; ++e)
                ASSERT_EQ(stream.at(e), word_of(stream, e)) << e;
            differs = differs || stream.at(first + 1) != stream.at((first + 1) % bit32);
        }
        EXPECT_TRUE(differs);
    }
}

TEST(LargeIndices, WordsInBulkCountIn64Bits) {
    constexpr std::size_t count = 2 * random_group + 3;
    std::vector<std::uint64_t> wide(count);
    std::vector<std::uint32_t> narrow(count);
    std::vector<double> integers(count);
    for (const int bits : {1, 8, 16, 17, 32, 33, 53, 64}) {
        const RandomStream stream{{5, 6}, 0, stage_and_hop(Stage::quantize, 0), bits};
        for (const std::uint64_t offset : offsets) {
            for (const std::uint64_t first : {offset, offset + 1, offset + 7}) {
                random_words(stream, first, count, wide.data());
                if (bits <= 32) random_words(stream, first, count, narrow.data());
                if (bits <= 53) random_words(stream, first, count, integers.data());
                for (std::size_t i = 0; i < count; ++i) {
                    const std::uint64_t word = word_of(stream, first + i);
                    ASSERT_EQ(wide[i], word) << first + i;
                    if (bits <= 32) {
                        ASSERT_EQ(std::uint64_t{narrow[i]} << 32, word) << first + i;
                    }
                    if (bits <= 53) {
                        ASSERT_EQ(integers[i], static_cast<double>(word >> (64 - bits)))
                            << first + i;
                    }
                }
            }
        }
    }
}

TEST(LargeIndices, StochasticCastsDrawWhereTheElementLies) {
    const std::vector<float> x = numbers(1000);
    std::vector<float> y(x.size());
    for (const int bits : {16, 32, 40}) {
        for (const char* name : {"e4m3", "bf16"}) {
            const FloatFormat format = parse_format(name);
            const Projection projection{RoundingMode::stochastic, Overflow::ieee, bits};
            const RandomStream stream = array_stream(9, bits);
            const Cast<float> cast = make_cast<float>(format, projection);
            for (const std::uint64_t first : offsets) {
                for (const int threads : {1, 2}) {
                    quantize(x, y, format, projection, {9, first + 3, {}}, threads);
                    for (std::size_t i = 0; i < x.size(); ++i) {
                        ASSERT_EQ(y[i], round_to_format<RoundingMode::stochastic>(
                                            x[i], cast, word_of(stream, first + 3 + i)))
                            << first + 3 + i;
                    }
                }
            }
        }
    }
}

TEST(LargeIndices, WorkersDrawWhereTheElementLies) {
    const std::vector<float> x = numbers(600);
    std::vector<double> y(x.size());
    const Projection projection{RoundingMode::stochastic, Overflow::ieee, 16};
    const Cast<double> cast = make_cast<double>(parse_format("e4m3"), projection);
    const RandomStream stream{{3, 4}, 5, stage_and_hop(Stage::wire, 0), 16};
    for (const std::uint64_t first : offsets) {
        encode_row(x, y.data(), 4.0, RowCast(parse_format("e4m3"), projection), {3, 4}, 5, first);
        for (std::size_t i = 0; i < x.size(); ++i) {
            ASSERT_EQ(y[i], round_to_format<RoundingMode::stochastic>(4.0 * x[i], cast,
                                                                      word_of(stream, first + i)));
        }
    }
}

// Three workers, elements around the boundary of two chunks beyond 2^32, stochastic hops.
TEST(LargeIndices, RingsChangeTheirOrderWhereTheChunksMeet) {
    constexpr int workers = 3;
    const std::uint64_t n = 4 * bit32 + 1;
    const Projection projection{RoundingMode::stochastic, Overflow::ieee, 16};
    const RowCast accumulator = make_accumulator(parse_format("e4m3"), projection);
    std::vector<std::vector<double>> rows;
    for (int w = 0; w < workers; ++w) {
        std::vector<float> x = numbers(1500, 1.0f + static_cast<float>(w));
        rows.emplace_back(x.size());
        encode_row(x, rows.back().data(), 1.0, RowCast(parse_format("e4m3"), Projection{}), {0, 0},
                   0, 0);
    }
    for (int chunk = 1; chunk < workers; ++chunk) {
        const auto boundary =
            static_cast<std::uint64_t>(static_cast<unsigned __int128>(chunk) * n / workers);
        ASSERT_EQ(chunk_begin(parse_topology("ring"), workers, chunk, n), boundary);
        ASSERT_GT(boundary, bit32);
        const std::uint64_t first = boundary - 700;
        std::vector<const double*> pointers;
        for (const std::vector<double>& row : rows) pointers.push_back(row.data());
        std::vector<double> sum(1500);
        ReduceScratch<double> scratch;
        reduce(parse_topology("ring"), pointers, first, sum.size(), n, accumulator, {1, 1}, sum,
               scratch);
        for (std::size_t i = 0; i < sum.size(); ++i) {
            const int c = first + i < boundary ? chunk - 1 : chunk;
            double expected = rows[static_cast<std::size_t>((c + 1) % workers)][i];
            for (std::uint32_t hop = 0; hop + 1 < workers; ++hop) {
                const RandomStream stream{{1, 1}, 0, stage_and_hop(Stage::reduce, hop), 16};
                const double exact =
                    expected +
                    rows[static_cast<std::size_t>((c + 2 + static_cast<int>(hop)) % workers)][i];
                expected = round_to_format<RoundingMode::stochastic>(exact, accumulator.cast(),
                                                                     word_of(stream, first + i));
            }
            ASSERT_EQ(sum[i], expected) << first + i;
        }
    }
}

TEST(LargeIndices, ChunksPartitionAnyLength) {
    const Topology ring = parse_topology("ring");
    for (const int workers : {2, 3, 7, 256, 1'000'000}) {
        for (const std::uint64_t n : {bit32 - 1, bit32, bit32 + 1, 2 * bit32 + 5,
                                      std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
            for (const int chunk : {0, 1, workers / 2, workers - 1, workers}) {
                EXPECT_EQ(chunk_begin(ring, workers, chunk, n),
                          static_cast<std::uint64_t>(static_cast<unsigned __int128>(chunk) * n /
                                                     static_cast<unsigned>(workers)));
            }
        }
    }
}

TEST(LargeIndices, BucketsAreFoundByTheirElements) {
    const std::vector<float> single = numbers(600);
    const std::vector<double> x(single.begin(), single.end());
    std::vector<double> far(x.size()), near(x.size()), bias(x.size()), variance(x.size()),
        levels(x.size());
    const RandomStream stream{{1, 2}, 0, stage_and_hop(Stage::wire, 0), 32};
    UniformGrid grid;
    grid.bucket = bit32;  // elements from 2^32 on lie in the second bucket
    const std::vector<double> norms{1000.0, 30.0};
    quantize_uniform(x, far, grid, norms, stream, bit32 - 300, bias, variance, levels);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double unit = (i < 300 ? 1000.0 : 30.0) / grid.levels;
        const double level = std::abs(far[i]) / unit;
        EXPECT_NEAR(level, std::round(level), 1e-12);
        EXPECT_LT(std::abs(far[i] - x[i]), unit);
    }
    quantize_uniform(x, near, grid, norms, stream, 0, bias, variance, levels);
    EXPECT_NE(far, near);
}

TEST(LargeIndices, CountsAre64Bits) {
    ExponentHistogram h, more;
    h.finite[3] = bit32 - 1;
    h.zero = h.infinite = h.nan = bit32;
    more.finite[3] = 2;
    more.zero = more.infinite = more.nan = bit32;
    h.merge(more);
    EXPECT_EQ(h.finite[3], bit32 + 1);
    EXPECT_EQ(h.zero, 2 * bit32);
    EXPECT_EQ(h.infinite, 2 * bit32);
    EXPECT_EQ(h.nan, 2 * bit32);

    ErrorStatistics s, next;
    s.count = s.counted = s.nonzero = s.underflow = s.subnormal = s.saturated = s.overflow = s.nan =
        s.infinite = bit32 - 1;
    next.count = next.counted = next.nonzero = next.underflow = next.subnormal = next.saturated =
        next.overflow = next.nan = next.infinite = 2;
    s.merge(next);
    for (const std::uint64_t count : {s.count, s.counted, s.nonzero, s.underflow, s.subnormal,
                                      s.saturated, s.overflow, s.nan, s.infinite}) {
        EXPECT_EQ(count, bit32 + 1);
    }
}

TEST(LargeIndices, LengthsOfPayloadsAre64Bits) {
    EXPECT_EQ(payload_bits(FloatGrid{parse_format("e4m3"), {}}, 2 * bit32 + 1), 16 * bit32 + 8);
    EXPECT_EQ(UniformGrid{}.payload_bits(2 * bit32 + 1), 8 * bit32 + 4);
    EXPECT_EQ(packed_size(2 * bit32 + 1, 6), (12 * bit32 + 6 + 7) / 8);
    EXPECT_EQ(kept_of(4 * bit32, 0.5), 2 * bit32);
    EXPECT_EQ(place_bits(bit32, false), 32);
    EXPECT_EQ(place_bits(bit32 + 1, false), 33);  // 32 bits would not reach the last element
    EXPECT_EQ(place_bits(bit32 + 1, true), 33);
    EXPECT_EQ(place_bits(5, true), 3);
    EXPECT_EQ(place_bits(2, true), 1);
    EXPECT_EQ(place_bits(1, true), 0);  // a single place needs no bits
    EXPECT_EQ(place_bits(0, true), 0);
}

// A sparse file of 16 GiB with a few pages.
TEST(LargeIndices, FilesAreReadBeyond2To32Elements) {
    const test::TemporaryFolder folder;
    const std::filesystem::path path = folder.path() / "x.safetensors";
    const std::uint64_t elements = bit32 + 1000;
    std::string header = R"({"a":{"dtype":"F32","shape":[)" + std::to_string(elements) +
                         R"(],"data_offsets":[0,)" + std::to_string(4 * elements) + "]}}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    test::write_file(path, test::safetensors_bytes(header, ""));
    const std::uint64_t begin = 8 + header.size();
    std::error_code error;
    std::filesystem::resize_file(path, begin + 4 * elements, error);
    if (error) GTEST_SKIP() << "no sparse file of 16 GiB here: " << error.message();
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    for (const std::uint64_t i : {std::uint64_t{1}, bit32 - 1, bit32, bit32 + 999}) {
        const auto value = static_cast<float>(i % 1009 + 1);
        file.seekp(static_cast<std::streamoff>(begin + 4 * i));
        file.write(reinterpret_cast<const char*>(&value), 4);
    }
    file.close();
    const TensorView view = SafetensorsFile::open(path)->read("a");
    ASSERT_EQ(view.values.size(), elements);
    EXPECT_EQ(view.shape, (std::vector<std::int64_t>{static_cast<std::int64_t>(elements)}));
    for (const std::uint64_t i : {std::uint64_t{1}, bit32 - 1, bit32, bit32 + 999})
        EXPECT_EQ(view.values[i], static_cast<float>(i % 1009 + 1));
    EXPECT_EQ(view.values[bit32 + 1], 0.0f);
}

TEST(LargeIndices, ManifestsTakeLargeShapesAndRefuseImpossibleOnes) {
    const auto manifest = [](const std::string& shape) {
        return parse_manifest(
            R"({"schema_version":1,"stage":"local","reduction":"sum","workers":1,"tensors":[{"name":"a","shape":)" +
                shape + R"(}],"steps":[]})",
            "/somewhere/manifest.json");
    };
    EXPECT_EQ(manifest("[3,2147483648]").tensors[0].size(), 3 * (bit32 / 2));
    EXPECT_EQ(manifest("[65536,65536,2]").tensors[0].size(), 2 * bit32);
    EXPECT_NE(test::message_of([&] { manifest("[4294967296,4294967296]"); }).find("shape"),
              std::string::npos);
}

}  // namespace
}  // namespace apscope::detail
