// The smallest index that a kernel notes.
#pragma once

#include <optional>

#include "emulation/cuda/machine/device_memory.h"

namespace apscope::detail {

// An index in device memory, which note_first() (emulation/cuda/cast/element_group.h) sets; no
// memory if `is_needed` is false.
class FirstIndex {
public:
    FirstIndex(bool is_needed, cudaStream_t stream) {
        if (is_needed) index_.emplace(1, EveryByte{0xFF}, stream);
    }
    unsigned long long* get() const { return index_ ? index_->get() : nullptr; }
    // Waits for the stream. Returns nothing if no index was noted.
    std::optional<std::size_t> read() const {
        const unsigned long long index = index_ ? index_->read()[0] : nowhere;
        if (index == nowhere) return std::nullopt;
        return static_cast<std::size_t>(index);
    }

private:
    static constexpr unsigned long long nowhere = ~0ull;  // every byte is 0xFF
    std::optional<DeviceMemory<unsigned long long>> index_;
};

}  // namespace apscope::detail
