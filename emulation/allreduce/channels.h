// How NCCL divides a message (2.19.3: src/enqueue.cc, src/device/all_reduce.h): into loops, a loop
// into the channels' parts, and a channel's part of a ring into one chunk a rank. The rank where a
// sum starts, or its tree, follows from the chunk, so the bits of a sum depend on the length of the
// message. docs/definitions.md, section 1.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace apscope::detail {

enum class Protocol { simple, ll, ll128 };

struct Channels {
    static constexpr int most = 64;
    int count = 0;  // of the communicator; 0: the message is not divided so
    Protocol protocol = Protocol::simple;
    int element_bytes = 0;  // of a number that is added; known once its format is

    friend bool operator==(const Channels&, const Channels&) = default;
    std::string text() const;  // the keys; empty without channels
};

std::optional<Protocol> parse_protocol(std::string_view name);

// The first of the elements of chunk c, at most n. Chunk c of a ring of W ranks is that of rank
// c mod W; of trees, it belongs to the first tree if c is even.
std::size_t channel_begin(const Channels& channels, bool trees, int workers, int chunk,
                          std::size_t n);

}  // namespace apscope::detail
