#include "emulation/draws/random_words.h"

namespace apscope::detail {

namespace {

template <class Word>
struct DrawWords {
    static APSCOPE_INLINE void run(const RandomStream* stream, std::uint64_t first, std::size_t count, Word* out) {
        draw_words(*stream, first, count, out);
    }
};

}  // namespace

template <class Word>
void random_words(const RandomStream& stream, std::uint64_t first, std::size_t count, Word* out) {
    for (std::size_t begin = 0; begin < count; begin += random_group) {
        simd::run<DrawWords<Word>>(&stream, first + begin, std::min(random_group, count - begin), out + begin);
    }
}
template void random_words(const RandomStream&, std::uint64_t, std::size_t, std::uint32_t*);
template void random_words(const RandomStream&, std::uint64_t, std::size_t, std::uint64_t*);
template void random_words(const RandomStream&, std::uint64_t, std::size_t, double*);

}  // namespace apscope::detail
