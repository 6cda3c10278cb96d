// NCCL (2.19.3: src/enqueue.cc, src/device/all_reduce.h) divides a message into loops, each loop
// into one part per channel, and in a ring each part into one chunk per rank. The rank at which a
// ring's sum starts depends on the chunk, and with trees the chunk decides which tree adds it. So
// the bits of a sum depend on the length of the message (docs/definitions.md, section 1).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace apscope::detail {

enum class Protocol { simple, ll, ll128 };

struct Channels {
    static constexpr int most = 64;  // the largest count
    int count = 0;                   // channels of the communicator; 0: the message is not divided
    Protocol protocol = Protocol::simple;
    int element_bytes = 0;  // bytes of an element of the sum; 0 until the format of sums is known

    friend bool operator==(const Channels&, const Channels&) = default;
    std::string text() const;  // the keys in a topology's name; empty without channels
};

std::optional<Protocol> parse_protocol(std::string_view name);

// The first element of a chunk, at most n. In a ring of W ranks, chunk c belongs to rank c mod W.
// With trees, even chunks belong to the first tree, odd chunks to the second.
std::size_t channel_begin(const Channels& channels, bool trees, int workers, int chunk,
                          std::size_t n);

}  // namespace apscope::detail
