#include "emulation/schemes/codecs/elias.h"

#include <bit>
#include <cmath>

namespace apscope::detail {

namespace {

// Writes the low `width` bits of k, high bit first; BitWriter itself writes the low bit first.
void put_high_first(BitWriter& bits, std::uint64_t k, int width) {
    for (int bit = width - 1; bit >= 0; --bit) bits.put(k >> bit & 1, 1);
}

void put_omega_groups(BitWriter& bits, std::uint64_t k) {
    if (k == 1) return;
    const int width = static_cast<int>(std::bit_width(k));
    put_omega_groups(bits, static_cast<std::uint64_t>(width - 1));
    put_high_first(bits, k, width);
}

}  // namespace

void put_elias(BitWriter& bits, std::uint64_t k, EliasCode code) {
    const int width = static_cast<int>(std::bit_width(k));
    switch (code) {
        case EliasCode::gamma:
            bits.put(0, width - 1);
            put_high_first(bits, k, width);
            return;
        case EliasCode::delta:
            put_elias(bits, static_cast<std::uint64_t>(width), EliasCode::gamma);
            put_high_first(bits, k, width - 1);
            return;
        case EliasCode::omega:
            put_omega_groups(bits, k);
            bits.put(0, 1);
            return;
    }
}

void put_sparse(BitWriter& bits, std::span<const double> integers, EliasCode code) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < integers.size(); ++i) {
        if (integers[i] == 0.0) continue;
        put_elias(bits, i - next + 1, code);
        bits.put(integers[i] < 0.0, 1);
        put_elias(bits, static_cast<std::uint64_t>(std::abs(integers[i])), code);
        next = i + 1;
    }
    if (next != integers.size()) put_elias(bits, integers.size() - next + 1, code);
}

}  // namespace apscope::detail
