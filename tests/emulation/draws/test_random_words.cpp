// Words drawn in bulk equal the words that core/philox.h draws one by one: on every instruction
// set, any number of words, from any element.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "emulation/draws/philox_words.h"
#include "emulation/draws/random_words.h"
#include "tests/support/on_level.h"

namespace apscope::detail {
namespace {

class RandomWords : public OnLevel {};

TEST_P(RandomWords, BlocksAreThoseOfTheGenerator) {
    const RandomStream stream{
        {0xDEADBEEF, 0x12345678}, 0xFFFFFFFE, stage_and_hop(Stage::reduce, 5), 32};
    constexpr std::uint64_t bit32 = std::uint64_t{1} << 32;
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{5}, bit32 - 70, 3 * bit32 - 1,
                                      3 * bit32, ~std::uint64_t{0} - 40}) {
        for (std::size_t blocks = 0; blocks < 200; ++blocks) {
            std::vector<std::uint32_t> words(4 * blocks + 4, 0xABABABAB);
            philox_words(stream, first, blocks, words.data());
            for (std::size_t b = 0; b < blocks; ++b) {
                const PhiloxBlock wanted =
                    stream.block(first + b);  // the index wraps from 2^64 - 1 to 0
                ASSERT_EQ(std::memcmp(&words[4 * b], wanted.word, 16), 0)
                    << first << " + " << b << " of " << blocks;
            }
            for (std::size_t i = 4 * blocks; i < words.size(); ++i)
                ASSERT_EQ(words[i], 0xABABABABu) << blocks;
        }
    }
}

template <class Word, class Wanted>
void expect_words(int most_bits, Wanted&& wanted) {
    constexpr std::size_t most = 4 * random_group + 40;
    for (int bits = 1; bits <= most_bits; ++bits) {
        // Every third number of bits is that of correlated words.
        const RandomStream stream{
            {1, 2}, 3, stage_and_hop(Stage::wire, 0), bits, bits % 3 == 0 ? 5u : 1u};
        std::vector<Word> one_by_one(most + 16), words(most);
        for (std::size_t e = 0; e < one_by_one.size(); ++e)
            one_by_one[e] = wanted(stream.at(e), bits);
        for (std::size_t count = 0; count <= most; count += count < 70 ? 1 : 131) {
            const std::uint64_t first = (3 * count + static_cast<std::size_t>(bits)) % 16;
            random_words(stream, first, count, words.data());
            ASSERT_EQ(std::memcmp(words.data(), one_by_one.data() + first, count * sizeof(Word)), 0)
                << bits << " bits, " << count << " from " << first;
        }
        // From elements before element 0, whose numbers count down from 2^64.
        for (const std::uint64_t before : {1, 3, 8, 600}) {
            for (const std::size_t count : {1, 2, 5, 70, 1300}) {
                random_words(stream, std::uint64_t{0} - before, count, words.data());
                for (std::size_t i = 0; i < count; ++i) {
                    const Word one = wanted(stream.at(i - before), bits);
                    ASSERT_EQ(std::memcmp(&words[i], &one, sizeof(Word)), 0)
                        << bits << " bits, element " << i << " - " << before << " of " << count;
                }
            }
        }
    }
}

TEST_P(RandomWords, EveryKindIsTheElementsOwn) {
    expect_words<std::uint16_t>(
        16, [](std::uint64_t word, int) { return static_cast<std::uint16_t>(word >> 48); });
    expect_words<std::uint32_t>(
        32, [](std::uint64_t word, int) { return static_cast<std::uint32_t>(word >> 32); });
    expect_words<std::uint64_t>(64, [](std::uint64_t word, int) { return word; });
    expect_words<double>(
        53, [](std::uint64_t word, int bits) { return static_cast<double>(word >> (64 - bits)); });
}

APSCOPE_ON_EVERY_LEVEL(RandomWords);

}  // namespace
}  // namespace apscope::detail
