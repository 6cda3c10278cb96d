#include "emulation/allreduce/channels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace apscope::detail {

namespace {

using Count = std::int64_t;

constexpr std::array<std::string_view, 3> names{"simple", "ll", "ll128"};
constexpr Count warp = 32;

// NCCL's limits for a protocol: the bytes that a channel sends in one step, the largest number of
// threads per block, and the smallest number of bytes per thread.
struct Limits {
    Count step, threads, least_per_thread;
};
Limits limits_of(Protocol protocol) {
    switch (protocol) {
        case Protocol::simple: return {524288, 512, 64};
        case Protocol::ll: return {32768, 512, 8};
        default: return {576000, 640, 8};
    }
}

Count divided_up(Count a, Count b) { return (a + b - 1) / b; }

// NCCL's division of one message.
struct Message {
    Count channels, threads;  // the channels and threads per block of the message
    Count bytes, element;     // of the message, and of one element
};
Message message_of(const Channels& keys, bool trees, Count workers, Count n) {
    const Limits limits = limits_of(keys.protocol);
    Count channels = keys.count, threads = limits.threads;
    const Count bytes = n * keys.element_bytes;
    const bool ring_ll = keys.protocol == Protocol::ll && !trees;
    const Count per_thread = limits.least_per_thread * (ring_ll ? workers : 1);
    while (bytes < channels * threads * per_thread) {
        if (channels >= 2) --channels;
        else if (threads % 128 == 0) threads /= 2;
        else break;
    }
    if (keys.protocol == Protocol::simple) threads += trees ? 4 * warp : warp;
    return {channels, std::max(threads, 3 * warp), bytes, keys.element_bytes};
}

// The number of elements in a full chunk of a tree; chunks are shorter if the message is shorter
// than one loop. With one rank per node, the depth of a tree is floor(log2 W).
Count tree_chunk(const Message& m, Protocol protocol, Count workers) {
    const Count depth = std::bit_width(static_cast<std::uint64_t>(workers)) - 1;
    const auto halved = [&](Count chunk, double loops, Count least) {
        while (static_cast<double>(m.bytes / (m.channels * chunk)) < loops && chunk > least)
            chunk /= 2;
        return chunk;
    };
    switch (protocol) {
        case Protocol::simple: {
            Count chunk = halved(524288, static_cast<double>(depth * 8), 131072);
            chunk = halved(chunk, static_cast<double>(depth * 4), 65536);
            return halved(chunk, static_cast<double>(depth), 32768) / m.element;
        }
        case Protocol::ll: return 32768 / m.element;
        default: {
            const double steps = 1.1 + static_cast<double>(depth);
            const Count chunk = halved(halved(614400, steps * 64, 131072), steps * 16, 32768);
            return chunk * 15 / (16 * m.element);
        }
    }
}

std::size_t clipped(Count at, Count n) { return static_cast<std::size_t>(std::min(at, n)); }

// The first element of a chunk of the trees. A loop has one chunk per channel, one after another.
// The first half of the channels use the first tree, the second half the second tree.
std::size_t tree_begin(const Channels& keys, Count workers, Count chunk, Count n) {
    const Message m = message_of(keys, true, workers, n);
    Count length = tree_chunk(m, keys.protocol, workers);
    const Count loop = m.channels * length;
    if (loop > n) {
        const Count least = keys.protocol == Protocol::simple
                                ? (m.threads - 2 * warp) * 8 * (8 / m.element)
                            : keys.protocol == Protocol::ll ? m.threads * (8 / m.element)
                                                            : m.threads * (60 / m.element) / 8;
        length = divided_up(n, m.channels * least) * least;
    }
    const Count first = std::min(m.channels, divided_up(keys.count, 2));
    const Count inside = chunk % 2 == 0 ? 0 : first * length;
    return clipped(chunk / 2 * loop + inside, n);
}

std::size_t ring_begin(const Channels& keys, Count workers, Count chunk, Count n) {
    const Message m = message_of(keys, false, workers, n);
    const bool simple = keys.protocol == Protocol::simple;
    const Count longest = limits_of(keys.protocol).step / m.element * (simple ? 4 : 1);
    const Count parts = m.channels * workers, loop = parts * longest;
    // With `simple`, every channel has W chunks, one after another. With the other protocols, the
    // chunks of one rank in all channels are adjacent and count as one chunk here.
    const Count chunks = simple ? parts : workers;
    const Count begin = chunk / chunks * loop, left = n - begin;
    if (left <= 0) return clipped(n, n);
    Count length = longest;
    if (simple) {
        const Count threads_hold = (m.threads - warp) * 8 / m.element;
        length = std::min(longest, divided_up(left, parts));
        length = divided_up(length, threads_hold) * threads_hold;
    } else {
        const Count least = keys.protocol == Protocol::ll ? m.threads * (8 / m.element)
                                                          : m.threads * (60 / m.element) / 2;
        length = std::min(longest, divided_up(left, parts * least) * least);
    }
    return clipped(begin + chunk % chunks * length * (simple ? 1 : m.channels), n);
}

}  // namespace

std::string Channels::text() const {
    if (count == 0) return "";
    std::string keys = ",channels=" + std::to_string(count);
    if (protocol != Protocol::simple)
        keys += ",protocol=" + std::string(names[static_cast<std::size_t>(protocol)]);
    return keys;
}

std::optional<Protocol> parse_protocol(std::string_view name) {
    const auto* match = std::ranges::find(names, name);
    if (match == names.end()) return std::nullopt;
    return static_cast<Protocol>(match - names.begin());
}

std::size_t channel_begin(const Channels& channels, bool trees, int workers, int chunk,
                          std::size_t n) {
    const auto elements = static_cast<Count>(n);
    return trees ? tree_begin(channels, workers, chunk, elements)
                 : ring_begin(channels, workers, chunk, elements);
}

}  // namespace apscope::detail
